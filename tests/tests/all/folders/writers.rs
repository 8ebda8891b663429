//! Guests in other languages than Rust that write files: their libraries open, buffer and flush in their own ways.

use std::{collections::BTreeMap, fs, path::Path};

use layby_tests::{Setup, text};
use serde_json::json;

use super::{LEASES, answer, parked};

/// What is below a folder: paths, and what is in each file.
fn tree(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() {
            found.extend(tree(&path).into_iter().map(|(below, text)| (format!("{name}/{below}"), text)));
        } else {
            found.insert(name, fs::read_to_string(path).expect("a file"));
        }
    }
    found
}

/// The result of `write_diary`, and what it leaves; `disturbed` by `kill -9` at the first question, then between two
/// changes, then at the second question.
async fn diary(language: &str, disturbed: bool) -> (String, BTreeMap<String, String>) {
    let setup = Setup::new();
    let policy = format!(
        "[call]\ndeadline = \"100ms\"\nlinger = \"0s\"\n[grants]\nask = [\"form\"]\nfiles = [{}]",
        setup.grant(true)
    );
    let component = layby_tests::guests::component(&format!("{language}/diary"));
    let setup = setup.config(LEASES).file("diary", &component, &policy);
    let files = setup.files();
    let mut host = crate::languages::start(language, setup).await;
    let id = host.client().task("write_diary", json!({ "folder": "/files", "days": 3 })).await;
    for day in 1..=3 {
        host.client().status(&id, "input_required").await;
        if disturbed && day < 3 {
            parked(&host, &id).await;
            host.kill();
            host = match day {
                1 => host.restart_with("LAYBY_FAILPOINTS", "file.before-start=kill:3").await,
                _ => host.restart().await,
            };
        }
        if disturbed && day == 1 {
            // It dies of the answer, and may have no time to say that it was taken.
            host.client().accept(&id, "day", json!({ "value": "yes" })).await.result();
            host.ended().await;
            host = host.restart_without("LAYBY_FAILPOINTS").await;
        } else {
            answer(&host.client(), &id).await;
        }
    }
    let task = host.client().status(&id, "completed").await;
    (text(&task["result"]).to_owned(), tree(&files))
}

async fn ends_alike(language: &str) {
    let undisturbed = diary(language, false).await;
    assert_eq!(undisturbed.0, "day 1 day 2 day 3 2 3", "{language}");
    assert_eq!(undisturbed.1["pages/3"].len(), 10_008, "{language}");
    assert_eq!(diary(language, true).await, undisturbed, "{language}");
}

#[tokio::test]
async fn python_writes_over_a_crash() {
    ends_alike("python").await;
}

#[tokio::test]
async fn go_writes_over_a_crash() {
    ends_alike("go").await;
}
