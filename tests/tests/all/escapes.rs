//! Ways out of a granted folder: none leads anywhere, and what was there stays as it was. And folders that are never granted.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, symlink},
        net::UnixListener,
    },
    path::Path,
};

use layby_tests::{Host, Setup, eventually, guests, text};
use serde_json::{Value, json};

const SECRET: &str = "a secret of the host";

/// What is outside, and what leads there from inside.
fn lay_out(setup: &Setup) -> UnixListener {
    let (root, files) = (setup.root(), setup.files());
    fs::write(root.join("outside.txt"), SECRET).unwrap();
    fs::create_dir_all(files.join("deep/deeper")).unwrap();
    fs::write(files.join("a"), "a note").unwrap();
    fs::create_dir(root.join("ro")).unwrap();
    fs::write(root.join("ro/a"), "only read").unwrap();
    let links = [
        ("absolute", root.join("outside.txt")),
        ("relative", "../outside.txt".into()),
        ("up", "..".into()),
        ("root", "/".into()),
        ("deep/out", "../../".into()),
        ("deep/deeper/far", "../../../outside.txt".into()),
        ("dangling", "../none.txt".into()),
        ("self", "self".into()),
        ("loop-a", "loop-b".into()),
        ("loop-b", "loop-a".into()),
        ("environ", "/proc/self/environ".into()),
        ("zero", "/dev/zero".into()),
        ("over", "deep/../../outside.txt".into()),
        ("fine", "deep/../a".into()),
    ];
    for (name, target) in links {
        symlink(target, files.join(name)).unwrap();
    }
    symlink("up", files.join("chain-0")).unwrap();
    for n in 1..50 {
        symlink(format!("chain-{}", n - 1), files.join(format!("chain-{n}"))).unwrap();
    }
    // The host's own files by other names, and an innocent one.
    fs::create_dir_all(setup.data()).unwrap();
    fs::write(setup.data().join("kept"), SECRET).unwrap();
    fs::hard_link(setup.data().join("kept"), files.join("of-data")).unwrap();
    fs::write(root.join("layby.toml"), "").unwrap();
    fs::hard_link(root.join("layby.toml"), files.join("of-configuration")).unwrap();
    fs::write(root.join("token"), SECRET).unwrap();
    fs::hard_link(root.join("token"), files.join("of-secret")).unwrap();
    fs::hard_link(files.join("a"), files.join("deep/second")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(files.join("pipe")).status().unwrap();
    assert!(made.success());
    UnixListener::bind(files.join("socket")).unwrap()
}

fn at(what: &str, path: &str) -> Value {
    json!({ "do": what, "path": path, "text": "changed" })
}

fn to(what: &str, path: &str, to: &str) -> Value {
    json!({ "do": what, "path": path, "to": to })
}

/// Each is an error of the guest's.
fn escapes() -> Vec<Value> {
    let reads = [
        "/files/../outside.txt",
        "/files/deep/../../outside.txt",
        "/files/./../outside.txt",
        "//files//..//outside.txt",
        "/files/deep/deeper/../../../outside.txt",
        "/outside.txt",
        "/etc/passwd",
        "outside.txt",
        "../outside.txt",
        "",
        "/",
        "/files",
        "/files/.",
        "/files/absolute",
        "/files/relative",
        "/files/up/outside.txt",
        "/files/root/etc/passwd",
        "/files/deep/out/outside.txt",
        "/files/deep/deeper/far",
        "/files/dangling",
        "/files/self",
        "/files/loop-a",
        "/files/environ",
        "/files/zero",
        "/files/over",
        "/files/chain-49/outside.txt",
        "/files/chain-3/outside.txt",
        "/files/pipe",
        "/files/socket",
        "/files/of-data",
        "/files/of-secret",
        "/files/of-configuration",
        "/files/A",
        "/FILES/a",
        "/files/a/",
        "/files/a/.",
        "/files/a/../a/x",
        "/files/a\0",
        "/files/..\\outside.txt",
        "/files/%2e%2e/outside.txt",
        "/files/\u{ff0e}\u{ff0e}/outside.txt",
        "/ro/../outside.txt",
        "/proc/self/environ",
    ];
    let changes = [
        "/files/../new",
        "/files/relative",
        "/files/dangling",
        "/files/absolute",
        "/files/over",
        "/files/pipe",
        "/files/socket",
        "/files/of-data",
        "/files/of-secret",
        "/files/of-configuration",
        "/ro/a",
        "/ro/new",
        "/files/up/new",
    ];
    let mut all: Vec<Value> = reads.iter().map(|path| at("read", path)).collect();
    for what in ["write", "append", "open-write"] {
        all.extend(changes.iter().map(|path| at(what, path)));
    }
    all.extend(["/files/up", "/files/..", "/files/root", "/", "/files/chain-9"].map(|path| at("list", path)));
    all.extend(
        ["/files/../outside.txt", "/files/relative", "/files/up/outside.txt"].map(|path| at("size", path)),
    );
    all.extend(["/files/../evil", "/ro/evil", "/files/up/evil"].map(|path| at("make-folder", path)));
    all.extend(["/files/../outside.txt", "/files/up/outside.txt", "/ro/a"].map(|path| at("remove", path)));
    all.extend(["/files/..", "/files", "/ro"].map(|path| at("remove-folder", path)));
    for what in ["rename", "link"] {
        all.extend([
            to(what, "/files/a", "/files/../stolen"),
            to(what, "/files/a", "/files/up/stolen"),
            to(what, "/files/../outside.txt", "/files/stolen"),
            to(what, "/files/up/outside.txt", "/files/stolen"),
            to(what, "/ro/a", "/files/stolen"),
            to(what, "/files/a", "/ro/stolen"),
        ]);
    }
    all.extend([
        to("rename", "/files", "/files/deep/x"),
        to("symlink", "/etc", "/files/../etc"),
        to("symlink", "a", "/ro/link"),
        at("read", &format!("/files/{}", "n".repeat(256))),
        at("read", &format!("/files/{}", "n/".repeat(3000))),
        at("make-folder", &format!("/files/{}", "n".repeat(5000))),
    ]);
    all
}

async fn steps(host: &Host, steps: &[Value]) -> Vec<String> {
    let reply = host.client().call("steps", json!({ "steps": steps })).await;
    serde_json::from_str(text(reply.result())).expect("the tool's own JSON")
}

/// Everything outside of the granted folder, as it is.
fn outside(root: &Path) -> Vec<(String, u64, String)> {
    let mut all = Vec::new();
    for name in ["outside.txt", "ro/a", "data/kept", "token"] {
        let path = root.join(name);
        all.push((name.to_owned(), fs::metadata(&path).unwrap().ino(), fs::read_to_string(&path).unwrap()));
    }
    let mut names: Vec<String> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.retain(|name| !name.starts_with("log-"));
    names.sort();
    all.push(("".to_owned(), 0, names.join(" ")));
    all
}

#[tokio::test]
async fn nothing_leads_out_of_a_granted_folder() {
    let setup = Setup::new();
    let _socket = lay_out(&setup);
    let (root, files) = (setup.root().to_owned(), setup.files());
    let policy = format!(
        "[grants]\nfiles = [{}, {{ host = {}, guest = \"/ro\" }}]\nenv = {{ T = {{ secret-file = {} }} }}",
        setup.grant(true),
        json!(root.join("ro")),
        json!(root.join("token"))
    );
    let host = setup.plugin("probe", &policy).start().await;
    let before = outside(&root);
    let cases = escapes();
    assert!(cases.len() >= 100, "{}", cases.len());
    let came = steps(&host, &cases).await;
    let mut wrong = Vec::new();
    for (case, came) in cases.iter().zip(&came) {
        if !came.starts_with("error: ") || came.contains(SECRET) {
            wrong.push(format!("{case}: {came}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert_eq!(outside(&root), before);
    assert_eq!(fs::read_to_string(files.join("a")).unwrap(), "a note");
    // Links that a guest makes itself lead nowhere either; what is innocent works.
    let came = steps(
        &host,
        &[
            to("symlink", "../outside.txt", "/files/mine"),
            at("read", "/files/mine"),
            at("write", "/files/mine"),
            to("symlink", "/etc/passwd", "/files/mine-too"),
            at("read", "/files/mine-too"),
            at("read", "/files/fine"),
            at("read", "/files/deep/second"),
            at("write", "/files/deep/second"),
            at("read", "/files/a"),
            at("read", "/ro/a"),
        ],
    )
    .await;
    assert!(
        came[1].starts_with("error: ") && came[2].starts_with("error: ") && came[4].starts_with("error: "),
        "{came:?}"
    );
    assert_eq!(came[5..], ["a note", "a note", "ok", "changed", "only read"].map(str::to_owned));
    assert_eq!(outside(&root), before);
    // Nor is a disk filled.
    let large = json!({ "do": "resize", "path": "/files/a", "bytes": 2_000_000_000 });
    assert!(steps(&host, &[large]).await[0].starts_with("error: "));
    let log = host.log();
    assert!(log.contains("no grant allows that: only regular files"), "{log}");
    assert!(log.contains("limits.file-bytes = 1GiB"), "{log}");
    assert!(!log.contains(SECRET));
}

/// A folder that is the host's own, or shows it, by whatever name.
#[tokio::test]
async fn what_the_host_lives_by_is_never_granted() {
    let setup = Setup::new();
    let root = setup.root().to_owned();
    for folder in ["etc/secrets", "etc/tokens", "other/deep", "data/inside", "fine/deep", "lent/deep"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    for file in ["etc/secrets/mine", "other/deep/theirs", "lent/deep/secret", "file"] {
        fs::write(root.join(file), SECRET).unwrap();
    }
    for (name, target) in [
        ("to-data", "data"),
        ("to-inside", "to-data/inside"),
        ("to-root", "."),
        ("to-fine", "fine/deep"),
        ("to-lent", "lent"),
        ("loop", "loop"),
        ("fine/to-plugins", "../plugins"),
    ] {
        symlink(target, root.join(name)).unwrap();
    }
    let refused = [
        "data",
        "data/inside",
        "data/../data",
        "./data/.",
        "plugins",
        ".",
        "..",
        "/",
        "to-data",
        "to-data/inside",
        "to-inside",
        "to-root",
        "to-root/data",
        "fine/to-plugins",
        "fine/../data",
        "etc",
        "etc/secrets",
        "etc/tokens",
        "other",
        "other/deep",
        "/proc",
        "/proc/self",
        "/proc/self/fd",
        "/proc/1",
        "/proc/self/root",
        "/sys",
        "/proc/self/cwd",
        "file",
        "none",
        "loop",
        "to-data/none",
    ];
    assert!(refused.len() >= 30);
    let probe = guests::component("probe");
    let mut setup = setup.config("[auth]\ntokens-file = \"etc/tokens/file\"");
    fs::write(root.join("etc/tokens/file"), "").unwrap();
    let secret = json!(root.join("etc/secrets/mine"));
    for (n, host) in refused.iter().enumerate() {
        let policy = format!(
            "prefix = \"p{n}_\"\n[grants]\nfiles = [{{ host = {}, guest = \"/f\" }}]\nenv = {{ T = {{ secret-file = {secret} }} }}",
            json!(if host.starts_with('/') { host.into() } else { root.join(host) })
        );
        setup = setup.file(&format!("p{n}"), &probe, &policy);
    }
    // Other plugins' secrets, one in a folder that a third would be granted.
    let secret = |name: &str, path: &str| {
        let file = json!(root.join(path));
        (
            name.to_owned(),
            format!("prefix = \"{name}_\"\n[grants]\nenv = {{ T = {{ secret-file = {file} }} }}"),
        )
    };
    let folder = |name: &str, path: &str| {
        let host = json!(root.join(path));
        (
            name.to_owned(),
            format!("prefix = \"{name}_\"\n[grants]\nfiles = [{{ host = {host}, guest = \"/f\" }}]"),
        )
    };
    let others = [
        secret("theirs", "other/deep/theirs"),
        secret("lies", "lent/deep/secret"),
        folder("lent", "to-lent"),
        folder("fine", "to-fine"),
    ];
    for (name, policy) in &others {
        setup = setup.file(name, &probe, policy);
    }
    let host = setup.start().await;
    let done = host.command(&["plugins"]).await;
    let plugins = done.json();
    let plugins = plugins["plugins"].as_array().unwrap();
    let refusal = |name: &str| {
        let plugin = plugins.iter().find(|plugin| plugin["name"] == name).unwrap_or(&Value::Null);
        plugin["refusal"].to_string()
    };
    for (n, host) in refused.iter().enumerate() {
        let refusal = refusal(&format!("p{n}"));
        assert!(refusal.contains("plugin_bad_grant"), "{host}: {refusal}");
    }
    assert!(refusal("lent").contains("secrets"), "{}", refusal("lent"));
    for fine in ["theirs", "lies", "fine"] {
        // Of their names only one can have the template.
        assert!(!refusal(fine).contains("plugin_bad"), "{fine}: {}", refusal(fine));
    }
}

/// A plugin may write where another grant begins: what it puts there leads nowhere.
#[tokio::test]
async fn a_plugin_cannot_lead_a_grant_away() {
    let setup = Setup::new();
    let (root, files) = (setup.root().to_owned(), setup.files());
    fs::create_dir(files.join("sub")).unwrap();
    fs::write(files.join("sub/x"), "mine").unwrap();
    fs::create_dir(root.join("private")).unwrap();
    fs::write(root.join("private/x"), SECRET).unwrap();
    let policy = format!(
        "[grants]\nfiles = [{}, {{ host = {}, guest = \"/sub\" }}]",
        setup.grant(true),
        json!(files.join("sub"))
    );
    let host = setup.plugin("probe", &policy).start().await;
    assert_eq!(steps(&host, &[at("read", "/sub/x")]).await, ["mine"]);
    let away = [to("rename", "/files/sub", "/files/was"), to("symlink", "../private", "/files/sub")];
    assert_eq!(steps(&host, &away).await, ["ok", "ok"]);
    let reply = host.client().call("steps", json!({ "steps": [at("read", "/sub/x")] })).await;
    assert!(!reply.message.to_string().contains(SECRET), "{}", reply.message);
    eventually("the reason in the log", || async {
        host.log().contains("lies in a folder that a plugin may write").then_some(())
    })
    .await;
    // A restart decides the same.
    let host = host.restart_at_once();
    let refused = host.refusal("probe", "plugin_bad_grant").await;
    assert!(refused.to_string().contains("that a plugin may write"), "{refused}");
}
