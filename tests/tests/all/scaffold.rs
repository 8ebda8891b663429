//! `layby new`: names, what is written, and that nothing is overwritten. The guides build, load and call what
//! it writes (`cargo xtask guides`).

use std::{collections::BTreeSet, fs, path::Path};

use layby_tests::command::{Done, layby, run};
use serde_json::json;

/// The languages, and a file that only its project has.
const LANGUAGES: [(&str, &str); 5] = [
    ("rust", "layby-plugin/src/lib.rs"),
    ("python", "layby/__init__.py"),
    ("typescript", "layby/package.json"),
    ("go", "layby/go.mod"),
    ("c", "layby.h"),
];

async fn new(folder: &Path, args: &[&str]) -> Done {
    run(layby(folder, ["new"].iter().chain(args))).await
}

/// All files under `folder`, by their paths in it.
fn files(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found
}

#[tokio::test]
async fn a_project_in_every_language() {
    let dir = tempfile::tempdir().unwrap();
    for (lang, own) in LANGUAGES {
        let name = format!("to-do-{lang}");
        let done = new(dir.path(), &["--lang", lang, &name, "--json"]).await;
        assert_eq!(done.code, Some(0), "{lang}: {done:?}");
        let told = done.json();
        assert_eq!((&told["name"], &told["lang"], &told["path"]), (&json!(name), &json!(lang), &json!(name)));
        let written = files(&dir.path().join(&name));
        let listed: BTreeSet<String> = serde_json::from_value(told["files"].clone()).unwrap();
        assert_eq!(written, listed, "{lang}");
        let policy = format!("{name}.toml");
        for file in
            [own, &policy, "README.md", ".gitignore", "layby-dev.toml", "wit/plugin.wit", "wit/standard.wit"]
        {
            assert!(written.contains(file), "{lang}: {file} is missing: {written:?}");
        }
        assert!(written.iter().any(|file| file.starts_with("wit/deps/wasi-config/")), "{written:?}");
        let readme = fs::read_to_string(dir.path().join(&name).join("README.md")).unwrap();
        assert!(readme.contains(&name) && readme.lines().count() < 60, "{readme}");
    }
}

#[tokio::test]
async fn the_output_says_what_is_next() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    let done = new(dir.path(), &["--lang", "rust", "hello", "--path", "sub/elsewhere"]).await;
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""));
    for line in
        ["cd sub/elsewhere", "cargo test", "cargo build --release --target wasm32-wasip2", "layby dev ."]
    {
        assert!(done.out.contains(&format!("\n  {line}")), "{line}: {done:?}");
    }
    assert!(dir.path().join("sub/elsewhere/hello.toml").exists());
    let done = new(dir.path(), &["--lang", "typescript", "hello", "--path", "with spaces"]).await;
    assert!(done.out.contains("\n  cd 'with spaces'\n"), "{done:?}");
    assert!(done.out.find("npm install") < done.out.find("npm test"), "{done:?}");
    // The name of the folder is the file system's matter alone.
    let long = "f".repeat(250);
    let done = new(dir.path(), &["--lang", "c", "hello", "--path", &long]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[tokio::test]
async fn a_signal_half_way_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let names =
        || -> BTreeSet<_> { fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect() };
    let (mut stopped, before) = (0, names());
    for round in 0..40 {
        let name = format!("p{round}");
        let mut command = layby(dir.path(), ["new", "--lang", "rust", &name]);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        let pid = child.id().unwrap().to_string();
        // As soon as there is something, whatever it is called.
        while names() == before && child.try_wait().unwrap().is_none() {
            tokio::task::yield_now().await;
        }
        let signal = if round % 2 == 0 { "INT" } else { "TERM" };
        let _ = std::process::Command::new("kill")
            .args(["-s", signal, &pid])
            .stderr(std::process::Stdio::null())
            .status();
        let status = child.wait().await.unwrap();
        assert!(status.success() || status.code() == Some(130), "{status}");
        stopped += u32::from(!status.success());
        let left = names();
        let made: BTreeSet<_> = if status.success() { [name.clone().into()].into() } else { BTreeSet::new() };
        assert_eq!(left, made, "after {signal}");
        let _ = fs::remove_dir_all(dir.path().join(&name));
    }
    eprintln!("{stopped} of 40 were stopped half-way");
}

#[tokio::test]
async fn nothing_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("empty")).unwrap();
    fs::write(dir.path().join("file"), "kept").unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("link")).unwrap();
    for there in ["empty", "file", "link"] {
        let done = new(dir.path(), &["--lang", "rust", there, "--json"]).await;
        assert_eq!(done.code, Some(4), "{done:?}");
        assert_eq!(done.json()["error"]["code"], "path_taken", "{done:?}");
    }
    for path in [".", "..", "/", "empty/"] {
        let done = new(dir.path(), &["--lang", "rust", "hello", "--path", path, "--json"]).await;
        assert_eq!((done.code, &done.json()["error"]["code"]), (Some(4), &json!("path_taken")), "{path}");
    }
    let done = new(dir.path(), &["--lang", "rust", "hello", "--path", "no/such/folder", "--json"]).await;
    assert_eq!((done.code, &done.json()["error"]["code"]), (Some(4), &json!("path_missing")), "{done:?}");
    // A parent that is a file.
    let done = new(dir.path(), &["--lang", "rust", "hello", "--path", "file/hello", "--json"]).await;
    assert_eq!(done.code, Some(1), "{done:?}");
    assert_eq!(files(dir.path()), BTreeSet::from(["file".to_owned(), "link".to_owned()]));
    assert_eq!(fs::read_to_string(dir.path().join("file")).unwrap(), "kept");
}

#[tokio::test]
async fn names_are_checked_and_another_is_proposed() {
    let dir = tempfile::tempdir().unwrap();
    for (name, near) in
        [("Hello World", "`hello-world`"), ("../up", "`up`"), ("fn", "`my-fn`"), ("1st", "`st`")]
    {
        let done = new(dir.path(), &["--lang", "rust", name, "--json"]).await;
        assert_eq!(done.code, Some(2), "{done:?}");
        let error = &done.json()["error"];
        assert_eq!(error["code"], "name_invalid");
        assert!(error["message"].as_str().unwrap().contains(near), "{error}");
    }
    let long = "n".repeat(245);
    let done = new(dir.path(), &["--lang", "rust", &long, "--json"]).await;
    let message = done.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("245 characters") && message.contains("at most 64"), "{message}");
    for (lang, name) in
        [("rust", "serde"), ("python", "json"), ("typescript", "zod"), ("go", "embedded"), ("c", "core")]
    {
        let done = new(dir.path(), &["--lang", lang, name, "--json"]).await;
        assert_eq!((done.code, &done.json()["error"]["code"]), (Some(2), &json!("name_invalid")), "{done:?}");
        let message = done.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(&format!("`my-{name}` would do")), "{message}");
    }
    let done = new(dir.path(), &["--lang", "cobol", "hello"]).await;
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.err.contains("typescript"), "the languages: {done:?}");
    assert!(files(dir.path()).is_empty());
}
