//! `layby dev`: builds on change, keeps the last good version, and shows what happens.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
};

use layby_tests::{Client, chameleon, command::layby, eventually, guests, host::replace, text};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Child,
};

/// A project whose build copies `plugin.wasm`.
struct Project {
    folder: TempDir,
}

const FILE: &str = r#"
build = ["sh", "build.sh"]
component = "build/toy.wasm"
policy = "toy.toml"
watch = ["plugin.wasm", "build.sh"]
"#;

impl Project {
    fn new(component: &[u8]) -> Self {
        let folder = TempDir::with_prefix("layby-dev-").unwrap();
        let this = Self { folder };
        this.write("layby-dev.toml", FILE.as_bytes());
        this.write("toy.toml", b"[grants]\nask = [\"form\"]\n");
        this.write("build.sh", b"echo copying >&2; mkdir -p build && cp plugin.wasm build/toy.wasm\n");
        this.write("plugin.wasm", component);
        this
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        replace(&self.path().join(name), bytes);
    }
}

/// A running `layby dev`, and what it has printed.
struct Dev {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Dev {
    async fn start(project: &Project, args: &[&str]) -> Self {
        let folder = project.path().to_str().unwrap();
        let own = ["dev", folder, "--listen", "127.0.0.1:0"];
        let all = own.iter().chain(args);
        let mut child =
            layby(project.path(), all).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (mut out, kept) = (BufReader::new(child.stdout.take().unwrap()).lines(), lines.clone());
        tokio::spawn(async move {
            while let Ok(Some(line)) = out.next_line().await {
                kept.lock().unwrap().push(line);
            }
        });
        Self { child, lines }
    }

    fn text(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }

    /// Waits until `count` lines have all of `parts`; the last of them.
    async fn line(&self, parts: &[&str], count: usize) -> String {
        let has = |line: &&String| parts.iter().all(|part| line.contains(part));
        let what = format!("{count} lines with {parts:?} in:\n{}", self.text());
        eventually(&what, || async {
            let lines = self.lines.lock().unwrap();
            let found: Vec<&String> = lines.iter().filter(has).collect();
            found.get(count - 1).map(|line| (*line).clone())
        })
        .await
    }

    async fn url(&self) -> String {
        let line = self.line(&["listening at http://"], 1).await;
        line.rsplit(' ').next().unwrap().to_owned()
    }

    async fn client(&self) -> Client {
        Client::new(&self.url().await, layby_tests::client::everything())
    }

    async fn stop(mut self, signal: &str) -> (Option<i32>, String) {
        let pid = self.child.id().unwrap().to_string();
        assert!(std::process::Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        let status = tokio::time::timeout(std::time::Duration::from_secs(20), self.child.wait()).await;
        let code = status.expect("it ends").unwrap().code();
        self.line(&["stopped"], 1).await;
        (code, self.text())
    }
}

#[tokio::test]
async fn a_change_builds_and_serves_and_a_bad_one_keeps_the_last_good_version() {
    let project = Project::new(&chameleon::version("1", "first"));
    // What a host asks of components, nobody asks of a build.
    let signers = "[catalog]\nsigners = [\"RWQi1sRGeCYHPH0AghZXRp6Y2ZL2skhtB2KQDvWcb7k7JFZkVNEiId1j\"]";
    project.write("layby.toml", signers.as_bytes());
    let dev = Dev::start(&project, &[]).await;
    dev.line(&["building: sh build.sh"], 1).await;
    dev.line(&["  | copying"], 1).await;
    dev.line(&["built: build/toy.wasm, ", " in "], 1).await;
    let serving = dev.line(&["serving toy (1 tool) at http://"], 1).await;
    assert!(serving.ends_with("/mcp"), "{serving}");
    dev.line(&["  + first"], 1).await;
    let client = dev.client().await;
    assert_eq!(client.call("first", json!({})).await.result()["isError"], false);
    dev.line(&["call first: ok, "], 1).await;

    project.write("plugin.wasm", &chameleon::version("2", "second"));
    dev.line(&["building: sh build.sh (plugin.wasm changed)"], 1).await;
    dev.line(&["  + second"], 1).await;
    dev.line(&["  - first"], 1).await;

    // A build that fails.
    project.write("build.sh", b"echo 'tool.c:3: no such thing'; exit 3\n");
    dev.line(&["  | tool.c:3: no such thing"], 1).await;
    dev.line(&["build failed: ", "exit code 3", "(build_failed)"], 1).await;
    dev.line(&["  the version before goes on serving"], 1).await;
    assert_eq!(client.call("second", json!({})).await.result()["isError"], false);

    // A component that a host refuses.
    project.write("build.sh", b"mkdir -p build; echo no component > build/toy.wasm\n");
    dev.line(&["refused toy: ", "(plugin_not_a_component)"], 1).await;
    dev.line(&["  the version before goes on serving"], 2).await;
    assert_eq!(client.call("second", json!({})).await.result()["isError"], false);

    // One that does not make what the project says.
    project.write("build.sh", b"rm -f build/toy.wasm\n");
    dev.line(&["build failed: ", "build/toy.wasm", "(component_missing)"], 1).await;

    project.write("build.sh", b"mkdir -p build; cp plugin.wasm build/toy.wasm\n");
    project.write("plugin.wasm", &chameleon::version("3", "third"));
    dev.line(&["  + third"], 1).await;
    let (code, text) = dev.stop("INT").await;
    assert_eq!(code, Some(0), "{text}");
}

#[tokio::test]
async fn policy_and_project_are_taken_up_as_they_are_written() {
    let project = Project::new(&chameleon::version("1", "tool"));
    let dev = Dev::start(&project, &[]).await;
    dev.line(&["  + tool"], 1).await;
    project.write("toy.toml", b"prefix = \"my_\"\n");
    dev.line(&["policy has changed"], 1).await;
    dev.line(&["  + my_tool"], 1).await;
    project.write("toy.toml", b"prefix = \"my_\"\n[limit]\n");
    let refused = dev.line(&["refused toy: toy.toml:2:", "(plugin_bad_policy)"], 1).await;
    assert!(refused.contains("`limits`"), "{refused}");
    let wrong = format!("{FILE}\ndebouce = \"100ms\"\n");
    project.write("layby-dev.toml", wrong.as_bytes());
    dev.line(&["project: ", "`debounce`", "(config_invalid)"], 1).await;
    // Another build, and no policy any more.
    let other = "build = [\"sh\", \"-c\", \"mkdir -p out; cp plugin.wasm out/toy.wasm\"]\ncomponent = \"out/toy.wasm\"";
    project.write("layby-dev.toml", other.as_bytes());
    dev.line(&["built: out/toy.wasm"], 1).await;
    dev.line(&["  - my_tool"], 1).await;
    let (code, text) = dev.stop("TERM").await;
    assert_eq!(code, Some(0), "{text}");
}

#[tokio::test]
async fn what_a_plugin_writes_and_what_becomes_of_calls_is_shown() {
    let project = Project::new(&guests::component("probe"));
    let files = project.path().join("granted");
    fs::create_dir(&files).unwrap();
    fs::write(files.join("a.txt"), "from the project's folder").unwrap();
    let policy = "[call]\ndeadline = \"300ms\"\n[grants]\nask = [\"form\"]\nfiles = [{ host = \"./granted\", guest = \"/in\" }]\n";
    project.write("toy.toml", policy.as_bytes());
    let dev = Dev::start(&project, &["--json"]).await;
    let events = |name: &str| -> Vec<Value> {
        let lines = dev.lines.lock().unwrap();
        let all = lines.iter().map(|line| serde_json::from_str::<Value>(line).expect(line));
        all.filter(|event| event["event"] == name).collect()
    };
    let event = async |name: &str, fits: &dyn Fn(&Value) -> bool| {
        eventually(&format!("{name} in {}", dev.text()), || async { events(name).into_iter().find(fits) })
            .await
    };
    let serving = event("serving", &|_| true).await;
    assert!(serving["added"].as_array().unwrap().iter().any(|tool| tool == "note"), "{serving}");
    let built = event("build_ok", &|_| true).await;
    assert!(built["size"].as_u64().unwrap() > 1000 && built["ms"].is_u64(), "{built}");
    let client = Client::new(serving["url"].as_str().unwrap(), layby_tests::client::everything());
    let read = client.call("read", json!({ "path": "/in/a.txt" })).await;
    assert_eq!(text(read.result()), "from the project's folder");
    client.call("note", json!({ "to": ["stderr", "logging"], "text": "a word", "context": "here" })).await;
    let line = event("log", &|e| e["message"] == "a word").await;
    assert_eq!(
        (&line["tool"], &line["plugin"], &line["level"]),
        (&json!("note"), &json!("toy"), &json!("info"))
    );
    event("log", &|e| e["message"] == "here: a word" && e["level"] == "warning").await;
    let id = client.task("note", json!({ "to": ["stderr"], "text": "slow", "ms": 900 })).await;
    client.status(&id, "completed").await;
    event("log", &|e| e["message"] == "again slow" && e["task"] == json!(id)).await;
    event("call", &|e| e["outcome"] == "became a task" && e["task"] == json!(id)).await;
    event("call", &|e| e["outcome"] == "ok" && e["task"] == json!(id) && e["ms"].as_u64() >= Some(900)).await;
    client.call("trap", json!({})).await;
    event("call", &|e| e["outcome"] == "plugin_trap").await;
    event("host", &|e| e["message"].as_str().is_some_and(|m| m.contains("trapped"))).await;
    let id = client.task("ask", json!({})).await;
    event("call", &|e| e["outcome"] == "asks question").await;
    client.status(&id, "input_required").await;
}

/// Whether the process `pid` lives.
fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(PathBuf::from("/proc").join(pid.trim()).join("stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn the_end_and_the_time_out_stop_the_whole_build() {
    let project = Project::new(&chameleon::version("1", "tool"));
    let slow = "(trap '' TERM; sleep 600) & echo $! > inner.pid; sleep 600\n";
    project.write("build.sh", slow.as_bytes());
    let dev = Dev::start(&project, &[]).await;
    let pid = project.path().join("inner.pid");
    let inner = eventually("the build's child", || async {
        fs::read_to_string(&pid).ok().filter(|text| text.ends_with('\n'))
    })
    .await;
    let (code, text) = dev.stop("INT").await;
    assert_eq!(code, Some(0), "{text}");
    eventually("the build's child ends", || async { (!lives(&inner)).then_some(()) }).await;
    fs::remove_file(&pid).unwrap();

    project.write("layby-dev.toml", format!("{FILE}\nbuild-timeout = \"500ms\"").as_bytes());
    let dev = Dev::start(&project, &[]).await;
    dev.line(&["build failed: ", "longer than 500ms", "(build_timed_out)"], 1).await;
    let inner = fs::read_to_string(&pid).unwrap();
    eventually("the build's child ends", || async { (!lives(&inner)).then_some(()) }).await;
    dev.stop("TERM").await;
}

#[tokio::test]
async fn changes_during_a_build_build_once_more_and_never_for_ever() {
    let project = Project::new(&chameleon::version("1", "tool"));
    // It takes until it may go on.
    let gated = "until [ -f go ]; do sleep 0.05; done\nmkdir -p build; cp plugin.wasm build/toy.wasm\n";
    project.write("build.sh", gated.as_bytes());
    let dev = Dev::start(&project, &[]).await;
    dev.line(&["building: "], 1).await;
    for version in ["2", "3", "4"] {
        project.write("plugin.wasm", &chameleon::version(version, "tool"));
        tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    }
    project.write("plugin.wasm", &chameleon::version("5", "last"));
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    assert_eq!(dev.text().matches("building: ").count(), 1, "{}", dev.text());
    project.write("go", b"");
    dev.line(&["  + last"], 1).await;
    let builds = dev.text().matches("building: ").count();
    assert!(builds <= 2, "one more build: {}", dev.text());

    dev.stop("TERM").await;
}

/// Without `watch`, all is watched.
const ALL: &str = "build = [\"sh\", \"build.sh\"]\ncomponent = \"build/toy.wasm\"\n";

#[tokio::test]
async fn what_a_build_writes_slows_it_down_and_keeps_no_change_of_the_author_back() {
    let project = Project::new(&chameleon::version("1", "tool"));
    project.write("layby-dev.toml", ALL.as_bytes());
    // Logs are not watched, and what is written again as it was has not changed.
    let copy = "mkdir -p build; cp plugin.wasm build/toy.wasm";
    let quiet = format!("date +%s%N > build.log; rm -f same.txt; sleep 0.3; echo same > same.txt; {copy}\n");
    project.write("build.sh", quiet.as_bytes());
    let dev = Dev::start(&project, &[]).await;
    dev.line(&["  + tool"], 1).await;
    let loud = format!("date +%s%N > out.txt; {copy}\n");
    // A new file is built once more, and once more where it was seen to be away in between; then never again.
    let quiet_builds = dev.text().matches("building: ").count();
    assert!(quiet_builds <= 3, "{}", dev.text());
    project.write("build.sh", loud.as_bytes());
    let told = dev.line(&["watch ", "out.txt", "`watch`", "layby-dev.toml"], 1).await;
    assert!(told.contains("waits 2 s"), "{told}");
    // It goes on, in ever longer pauses.
    dev.line(&["watch ", "waits 8 s"], 1).await;
    // Five until it waits 8 s, one that ran as `build.sh` was written, and what was left of the quiet ones.
    let builds = dev.text().matches("building: ").count();
    assert!(builds <= 9, "{}", dev.text());
    project.write("plugin.wasm", &chameleon::version("2", "other"));
    dev.line(&["building: sh build.sh (", "plugin.wasm"], 1).await;
    dev.line(&["  + other"], 1).await;
    dev.stop("TERM").await;
}

#[tokio::test]
async fn an_author_who_writes_during_each_build_sees_the_last_version_built() {
    let project = Project::new(&chameleon::version("0", "tool"));
    let slow = "mkdir -p build; cp plugin.wasm build/toy.wasm; touch began; until [ -f go ]; do sleep 0.02; done; rm go\n";
    project.write("build.sh", slow.as_bytes());
    let dev = Dev::start(&project, &[]).await;
    for round in 1..=4 {
        let began = project.path().join("began");
        eventually("the build begins", || async { began.exists().then_some(()) }).await;
        fs::remove_file(&began).unwrap();
        let tool = format!("tool{round}");
        project.write("plugin.wasm", &chameleon::version(&round.to_string(), &tool));
        project.write("go", b"");
    }
    eventually("the last build", || async {
        if project.path().join("began").exists() {
            let _ = fs::write(project.path().join("go"), "");
        }
        dev.text().contains("  + tool4").then_some(())
    })
    .await;
    dev.stop("TERM").await;
}

/// As make does it: what is newer than its source is not made again.
#[tokio::test]
async fn a_build_that_compares_times_does_not_miss_what_was_written_while_it_ran() {
    let project = Project::new(&chameleon::version("1", "first"));
    let make = "mkdir -p build; [ build/toy.wasm -nt plugin.wasm ] && exit 0; cp plugin.wasm read; touch began\n\
                until [ -f go ]; do sleep 0.02; done; cp read build/toy.wasm\n";
    project.write("build.sh", make.as_bytes());
    let dev = Dev::start(&project, &[]).await;
    let began = project.path().join("began");
    eventually("the build begins", || async { began.exists().then_some(()) }).await;
    project.write("plugin.wasm", &chameleon::version("2", "second"));
    project.write("go", b"");
    dev.line(&["  + second"], 1).await;
    dev.stop("TERM").await;
}

#[tokio::test]
async fn what_a_good_build_leaves_running_is_ended_and_named() {
    let project = Project::new(&chameleon::version("1", "tool"));
    let left = "mkdir -p build; cp plugin.wasm build/toy.wasm\n(trap '' TERM; while :; do sleep 1; done) > /dev/null 2>&1 & echo $! > inner.pid\n(sleep 0.2; echo last words) &\n";
    project.write("build.sh", left.as_bytes());
    let dev = Dev::start(&project, &[]).await;
    dev.line(&["build left running, and ended now: ", "sh"], 1).await;
    dev.line(&["  | last words"], 1).await;
    dev.line(&["  + tool"], 1).await;
    let inner = fs::read_to_string(project.path().join("inner.pid")).unwrap();
    eventually("what was left ends", || async { (!lives(&inner)).then_some(()) }).await;
    dev.stop("TERM").await;
}

#[tokio::test]
async fn it_ends_although_nobody_reads_what_it_prints() {
    let project = Project::new(&chameleon::version("1", "tool"));
    let flood = "trap '' TERM; echo $$ > sh.pid; i=0; while :; do head -c 65536 /dev/zero | tr '\\0' x; i=$((i+1)); echo $i > count.tmp; mv count.tmp count; done\n";
    project.write("build.sh", flood.as_bytes());
    let count = project.path().join("count");
    for signals in [&["TERM"][..], &["INT"], &["INT", "TERM"]] {
        let _ = fs::remove_file(&count);
        let own = ["dev", project.path().to_str().unwrap(), "--listen", "127.0.0.1:0"];
        let mut command = layby(project.path(), own);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let pid = child.id().unwrap().to_string();
        // All that waits for the reader is full once the build gets no further.
        let mut counts = Vec::new();
        eventually("the build waits", || {
            counts.push(fs::read_to_string(&count).unwrap_or_default());
            let last = counts.iter().rev().take(10);
            let waits = counts.last().is_some_and(|c| !c.is_empty())
                && last.clone().all(|c| Some(c) == counts.last());
            std::future::ready((waits && last.count() == 10).then_some(()))
        })
        .await;
        for signal in signals {
            std::process::Command::new("kill").args(["-s", signal, &pid]).status().unwrap();
        }
        let status = tokio::time::timeout(layby_tests::wait::BOUND, child.wait()).await;
        assert_eq!(status.expect("it ends").unwrap().code(), Some(0), "{signals:?}");
        let build = fs::read_to_string(project.path().join("sh.pid")).unwrap();
        eventually("the build ends", || async { (!lives(&build)).then_some(()) }).await;
    }
    // A reader that goes.
    let own = ["dev", project.path().to_str().unwrap(), "--listen", "127.0.0.1:0"];
    let mut child = layby(project.path(), own).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next_line().await.unwrap();
    drop(lines);
    let status = tokio::time::timeout(layby_tests::wait::BOUND, child.wait()).await;
    assert_eq!(status.expect("it ends").unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_killed_one_leaves_its_temporary_folder_to_the_next() {
    let project = Project::new(&chameleon::version("1", "tool"));
    let temporary = TempDir::new().unwrap();
    let start = async || {
        let own = ["dev", project.path().to_str().unwrap(), "--listen", "127.0.0.1:0"];
        let mut command = layby(project.path(), own);
        let mut child = command.env("TMPDIR", temporary.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while !lines.next_line().await.unwrap().unwrap().contains("  + tool") {}
        (child, lines)
    };
    let folders = || fs::read_dir(temporary.path()).unwrap().count();
    let (mut first, _lines) = start().await;
    let (mut second, _lines) = start().await;
    assert_eq!(folders(), 2, "the first one lives");
    for child in [&mut first, &mut second] {
        child.kill().await.unwrap();
    }
    assert_eq!(folders(), 2);
    let (third, _lines) = start().await;
    eventually("only its own is left", || async { (folders() == 1).then_some(()) }).await;
    drop(third);
}

#[tokio::test]
async fn what_goes_wrong_with_a_projects_files_can_be_put_right() {
    let parent = TempDir::with_prefix("layby dev ").unwrap();
    let mut project = Project::new(&chameleon::version("1", "tool"));
    project.folder = TempDir::with_prefix_in("a project's ", parent.path()).unwrap();
    project.write("layby-dev.toml", FILE.as_bytes());
    project.write("build.sh", b"mkdir -p build; cp plugin.wasm build/toy.wasm\n");
    project.write("plugin.wasm", &chameleon::version("1", "tool"));
    // No policy, and then a bad one, before anything serves.
    let dev = Dev::start(&project, &[]).await;
    dev.line(&["build failed: ", "the policy toy.toml cannot be read", "(policy_missing)"], 1).await;
    dev.line(&["  nothing serves yet"], 1).await;
    project.write("toy.toml", b"[grant]\n");
    dev.line(&["refused toy: toy.toml:1:", "(plugin_bad_policy)"], 1).await;
    project.write("toy.toml", b"");
    dev.line(&["  + tool"], 1).await;
    let client = dev.client().await;

    // The component and all around it vanish, and the next build makes it again.
    fs::remove_dir_all(project.path().join("build")).unwrap();
    assert_eq!(client.call("tool", json!({})).await.result()["isError"], false);
    project.write("plugin.wasm", &chameleon::version("2", "second"));
    dev.line(&["  + second"], 1).await;
    // Half of a component.
    let whole = chameleon::version("3", "third");
    project.write("plugin.wasm", &whole[..whole.len() / 2]);
    dev.line(&["refused toy: "], 2).await;
    assert_eq!(client.call("second", json!({})).await.result()["isError"], false);

    // A policy that changes while the build is broken, and one that goes.
    project.write("build.sh", b"exit 1\n");
    dev.line(&["build failed: ", "(build_failed)"], 1).await;
    project.write("toy.toml", b"prefix = \"my_\"\n");
    dev.line(&["policy has changed"], 1).await;
    fs::remove_file(project.path().join("toy.toml")).unwrap();
    dev.line(&["policy: ", "the policy toy.toml cannot be read", "(policy_missing)"], 1).await;
    project.write("toy.toml", b"");

    // The project's file is broken, and a source changes with it: nothing is lost.
    project.write("layby-dev.toml", b"build = [\n");
    dev.line(&["project: ", "layby-dev.toml:1:", "(config_invalid)"], 1).await;
    project.write("build.sh", b"mkdir -p build; cp plugin.wasm build/toy.wasm\n");
    project.write("plugin.wasm", &chameleon::version("4", "fourth"));
    dev.line(&["  + fourth"], 1).await;
    fs::remove_file(project.path().join("layby-dev.toml")).unwrap();
    dev.line(&["project: ", "there is no layby-dev.toml", "(dev_project_missing)"], 1).await;
    // The plugin gets another name: the old one serves until the new one is there.
    project.write("layby-dev.toml", FILE.replace("build/toy.wasm", "build/other.wasm").as_bytes());
    dev.line(&["build failed: ", "build/other.wasm cannot be read", "(component_missing)"], 1).await;
    assert_eq!(client.call("fourth", json!({})).await.result()["isError"], false);
    project.write("build.sh", b"cp plugin.wasm build/other.wasm\n");
    dev.line(&["serving other (1 tool)"], 1).await;
    let (code, text) = dev.stop("TERM").await;
    assert_eq!(code, Some(0), "{text}");
}

#[tokio::test]
async fn what_is_wrong_with_a_project_is_said_at_once() {
    let folder = TempDir::new().unwrap();
    let said = layby_tests::command::run(layby(folder.path(), ["dev", ".", "--json"])).await;
    assert_eq!(
        (said.code, &said.json()["error"]["code"]),
        (Some(2), &json!("dev_project_missing")),
        "{said:?}"
    );
    let project = Project::new(b"");
    project.write("layby-dev.toml", b"build = [\"make\"]\ncomponent = \"a.wasm\"\nwach = [\"src\"]\n");
    let said = layby_tests::command::run(layby(project.path(), ["dev", "."])).await;
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("layby-dev.toml:3:1") && said.err.contains("`watch`"), "{said:?}");
}
