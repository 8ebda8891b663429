//! The plugin `library` at work: index, search, progress, cancellation.

use std::fs;

use layby_tests::{Host, Setup, text};
use serde_json::{Value, json};

async fn library(files: &[(&str, String)]) -> Host {
    let setup = Setup::new();
    let index = setup.root().join("index");
    fs::create_dir(&index).unwrap();
    for (name, contents) in files {
        let path = setup.files().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }
    let policy = format!(
        "[call]\ndeadline = \"30s\"\n[tools.index_folder.call]\ndeadline = \"50ms\"\ngrace = \"10s\"\n[limits]\nfuel = 900_000_000_000\n\
         memory = \"384MiB\"\n[[grants.files]]\nhost = {}\nguest = \"/library\"\n[[grants.files]]\nhost = {}\nguest = \"/index\"\nwrite = true",
        json!(setup.files()),
        json!(index)
    );
    setup.plugin("library", &policy).start().await
}

fn found(result: &Value) -> Vec<String> {
    let passages = result["structuredContent"]["passages"].as_array().unwrap_or_else(|| panic!("{result}"));
    passages.iter().map(Value::to_string).collect()
}

#[tokio::test]
async fn a_folder_is_indexed_and_searched() {
    let host = library(&[
        ("ships.txt", "The harbour was full.\n\nA brigantine lay at anchor.".into()),
        ("deep/birds.txt", "An albatross followed the brigantine for days.".into()),
        ("bread.txt", "Flour, water, salt.".into()),
    ])
    .await;
    let client = host.client();
    let without = client.call("search_library", json!({ "query": "albatross" })).await;
    assert_eq!(without.result()["structuredContent"]["without_index"], true);
    let indexed = client.call("index_folder", json!({})).await;
    let result = match indexed.result()["resultType"].as_str() {
        Some("task") => client.status(indexed.task(), "completed").await["result"].clone(),
        _ => indexed.result().clone(),
    };
    assert_eq!(result["structuredContent"]["files"], 3, "{result}");
    let reply = client.call("search_library", json!({ "query": "brigantine albatross" })).await;
    let passages = found(reply.result());
    assert_eq!(reply.result()["structuredContent"]["without_index"], false);
    assert!(passages[0].contains("birds.txt") && passages[1].contains("ships.txt"), "{passages:?}");
    assert!(found(client.call("search_library", json!({ "query": "zeppelin" })).await.result()).is_empty());
    let outside = client.call("index_folder", json!({ "path": "../.." })).await;
    assert_eq!(outside.result()["isError"], true, "{}", outside.message);
}

/// A folder that takes a while is a task with progress, and stops when it is told to.
#[tokio::test]
async fn a_long_index_is_a_task_that_can_be_cancelled() {
    let mut files = Vec::new();
    for n in 0..40_u32 {
        let words = (0..60_000_u32).map(|i| format!("w{:x}", (i.wrapping_mul(2_654_435_761) ^ n) % 50_000));
        files.push((format!("{n}.txt"), words.collect::<Vec<_>>().join(" ")));
    }
    let files: Vec<(&str, String)> = files.iter().map(|(name, text)| (name.as_str(), text.clone())).collect();
    let host = library(&files).await;
    let client = host.client();
    let id = client.task("index_folder", json!({})).await;
    client.until(&id, "progress", |t| t["statusMessage"].is_string() || t["status"] != "working").await;
    client.cancel(&id).await.result();
    let task = client.ended(&id).await;
    assert_eq!(task["status"], "cancelled", "{task}");
    let index = host.setup().root().join("index/library.idx");
    assert!(!index.exists(), "no half of an index is left");
    let again = client.call("search_library", json!({ "query": "w1f4" })).await;
    assert!(!text(again.result()).is_empty());
}

/// The same texts as resources, and in the messages of a prompt.
#[tokio::test]
async fn documents_are_resources_and_a_prompt_asks_them() {
    let host = library(&[
        ("ships.txt", "A brigantine lay at anchor.".into()),
        ("deep/birds.md", "# Birds\n\nAn albatross followed.".into()),
    ])
    .await;
    fs::write(host.setup().root().join("outside.txt"), "outside").unwrap();
    let client = host.client();
    let read = async |uri: &str| client.request("resources/read", json!({ "uri": uri })).await;
    let birds = read("library:///deep/birds.md").await;
    let contents = &birds.result()["contents"][0];
    assert_eq!(
        (&contents["mimeType"], &contents["uri"]),
        (&json!("text/markdown"), &json!("library:///deep/birds.md"))
    );
    assert!(contents["text"].as_str().unwrap().contains("albatross"), "{contents}");
    for uri in
        ["library:///none", "library:///deep", "library:///../outside.txt", "library:///..%2Foutside.txt"]
    {
        let reply = read(uri).await;
        assert_eq!((reply.rpc(), reply.code()), (-32602, "resource_unknown"), "{uri}: {}", reply.message);
    }
    let template = json!({ "type": "ref/resource", "uri": "library:///{+path}" });
    let argument = json!({ "name": "path", "value": "deep/" });
    let completed =
        client.request("completion/complete", json!({ "ref": template, "argument": argument })).await;
    assert_eq!(completed.result()["completion"]["values"], json!(["deep/birds.md"]));
    let params =
        json!({ "name": "ask_library", "arguments": { "question": "Which albatross?", "passages": "1" } });
    let prompt = client.request("prompts/get", params).await;
    let messages = prompt.result()["messages"].as_array().unwrap();
    assert_eq!(messages[0]["content"]["resource"]["uri"], "library:///deep/birds.md#line=3", "{messages:?}");
    assert!(messages[1]["content"]["text"].as_str().unwrap().ends_with("Which albatross?"));
}
