//! Folders that differ: a rolling upgrade, a replica that lacks a plugin, and names over all replicas.

use layby_tests::{Host, Setup, chameleon, eventually, guests, postgres::database, text};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{POLICY, question};

const CONFIG: &str = "[store]\nlease = \"1s\"\ntakeover = \"1s\"\n[catalog]\nretry = \"1s\"";
const OLD: &str = "[grants]\nask = [\"form\"]\n# old";
const NEW: &str = "[grants]\nask = [\"form\"]\n# new";

fn setup(url: &str) -> Setup {
    Setup::new().config(CONFIG).store(url)
}

/// A folder with the compiled code of these components, so that no replica compiles.
async fn compiled(components: &[&[u8]]) -> TempDir {
    let folder = TempDir::with_prefix("layby-compiled-").unwrap();
    let named = |setup: Setup, (n, bytes): (usize, &&[u8])| setup.file(&format!("c{n}"), bytes, "");
    let host = components.iter().enumerate().fold(Setup::new(), named).start().await;
    host.keep_cache(&folder.path().join("cache"));
    folder
}

/// What a replica serves under this name: its own row. `None` for the digest is nothing.
async fn serving(host: &Host, name: &str) -> (Option<String>, bool) {
    let done = host.command(&["plugins"]).await.json();
    let all = done["plugins"].as_array().expect("a list").clone();
    let own = all.into_iter().find(|p| p["name"] == name && p["replica"].is_null()).unwrap_or_default();
    (own["digest"].as_str().map(str::to_owned), own["withoutGrants"] == true)
}

async fn has(host: &Host, name: &str, bytes: &[u8], granted: bool) {
    let wanted = (Some(digest(bytes)), !granted);
    let what = format!("{wanted:?} to serve; log:\n{}", host.log());
    eventually(&what, || async { (serving(host, name).await == wanted).then_some(()) }).await;
}

fn digest(bytes: &[u8]) -> String {
    use std::io::Write as _;
    let mut sum = std::process::Command::new("sha256sum")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("there is sha256sum");
    sum.stdin.take().expect("a pipe").write_all(bytes).expect("it reads");
    let out = sum.wait_with_output().expect("it ends").stdout;
    String::from_utf8_lossy(&out)[..64].to_owned()
}

async fn version(host: &Host, tool: &str) -> Value {
    let reply = host.client().call(tool, json!({})).await;
    let answer: Value = serde_json::from_str(text(reply.result())).unwrap();
    answer["version"].clone()
}

#[tokio::test]
async fn a_rolling_upgrade_leaves_each_replica_what_its_folder_has() {
    let url = database().await;
    let (old, new) = (chameleon::version("1", "pet"), chameleon::version("2", "pet"));
    let compiled = compiled(&[&old, &new]).await;
    let setup = |url: &str| setup(url).cache(&compiled.path().join("cache"));
    let a = setup(&url).file("pet", &old, OLD).start().await;
    let b = setup(&url).file("pet", &old, OLD).start().await;
    for host in [&a, &b] {
        has(host, "pet", &old, true).await;
    }
    // One is upgraded; the other one keeps its version and its grants, over a restart too, and so does the first.
    a.put("pet", &new, NEW);
    has(&a, "pet", &new, true).await;
    let b = b.restart().await;
    has(&b, "pet", &old, true).await;
    let a = a.restart().await;
    has(&a, "pet", &new, true).await;
    assert_eq!((version(&a, "pet").await, version(&b, "pet").await), (json!("2"), json!("1")));
    // A replica that joins in the middle, with either pair.
    for (bytes, policy) in [(&old, OLD), (&new, NEW)] {
        let c = setup(&url).file("pet", bytes, policy).start().await;
        has(&c, "pet", bytes, true).await;
    }
    // One that has only half of the upgrade, or a component that nobody was asked for, gets no grants.
    let half = setup(&url).file("pet", &new, OLD).start().await;
    has(&half, "pet", &new, false).await;
    drop(half);
    // The rest follows.
    b.put("pet", &new, NEW);
    has(&b, "pet", &new, true).await;
    let b = b.restart().await;
    has(&b, "pet", &new, true).await;
    // And all the way back, on one of them.
    b.put("pet", &old, OLD);
    has(&b, "pet", &old, true).await;
    has(&a, "pet", &new, true).await;
}

#[tokio::test]
async fn a_name_has_one_owner_over_all_replicas() {
    let url = database().await;
    let [dog, cat] = ["1", "2"].map(|version| chameleon::version(version, "pet"));
    let [three, four] = ["3", "4"].map(|version| chameleon::version(version, "wanted"));
    let compiled = compiled(&[&dog, &cat, &three, &four]).await;
    let setup = |url: &str| setup(url).cache(&compiled.path().join("cache"));
    let (a, b) = tokio::join!(setup(&url).start(), setup(&url).start());
    a.put("dog", &dog, "");
    eventually("it serves", || async { serving(&a, "dog").await.0 }).await;
    // The other replica does not have that plugin, and yet cannot give its name away.
    b.put("cat", &cat, "");
    let refused = b.refusal("cat", "plugin_name_taken").await;
    assert!(refused["refusal"]["reason"].as_str().unwrap().contains("dog"), "{refused}");
    // Not over a restart either, of both.
    let (a, b) = (a.restart().await, b.restart().await);
    assert_eq!(serving(&b, "cat").await.0, None);
    assert_eq!(version(&a, "pet").await, "1");
    // It comes free where it was.
    std::fs::remove_file(a.setup().plugins().join("dog.wasm")).unwrap();
    eventually("it serves here", || async { serving(&b, "cat").await.0 }).await;
    // Two that want the same at the same moment.
    a.put("one", &three, "");
    b.put("two", &four, "");
    let (one, two) = eventually("both to be decided", || async {
        let (one, two) = (a.plugin("one").await, b.plugin("two").await);
        let decided = |p: &Value| !p["digest"].is_null() || !p["refusal"].is_null();
        (decided(&one) && decided(&two)).then_some((one, two))
    })
    .await;
    assert_ne!(one["digest"].is_null(), two["digest"].is_null(), "{one} {two}");
}

#[tokio::test]
async fn a_replica_that_lacks_the_plugin_goes_by_the_policy_of_those_that_have_it() {
    let url = database().await;
    let policy = format!("{POLICY}\n[grants]\nask = [\"form\"]");
    let component = guests::component("probe");
    let mut has_it = setup(&url).file("probe", &component, &policy).start().await;
    let lacks_it = setup(&url).start().await;
    let (one, two) = (has_it.client(), lacks_it.client());
    let lives = one.task("ask", json!({ "rounds": 3 })).await;
    let dies = one.task("ask", json!({ "rounds": 2 })).await;
    for id in [&lives, &dies] {
        question(&one, id).await;
    }
    has_it.kill();
    let value = json!({ "value": "on" });
    // The one that had it is away, not gone: what it granted stands.
    let key = question(&two, &lives).await;
    two.accept(&lives, &key, value.clone()).await.result();
    two.until(&lives, "the next question", |task| task["inputRequests"]["question_2"].is_object()).await;
    // It comes back, and its plugin is removed: that revokes all that it was granted, everywhere.
    let has_it = has_it.restart().await;
    std::fs::remove_file(has_it.setup().plugins().join("probe.wasm")).unwrap();
    std::fs::remove_file(has_it.setup().plugins().join("probe.toml")).unwrap();
    eventually("it is gone", || async { serving(&has_it, "probe").await.0.is_none().then_some(()) }).await;
    let key = question(&two, &dies).await;
    two.accept(&dies, &key, value.clone()).await.result();
    let task = two.status(&dies, "completed").await;
    let result: Value = serde_json::from_str(text(&task["result"])).unwrap();
    assert_eq!(result["answers"], json!([value]), "{result}");
    assert!(!result["error"].is_null(), "the second question was put: {result}");
}
