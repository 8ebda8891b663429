//! Hot loading (P9): files come and go, and a bad one displaces nothing.

use std::{
    fs,
    io::Write as _,
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use layby_tests::{Client, Host, Setup, chameleon, eventually, guests, host::replace, text};
use serde_json::{Value, json};

/// The version that `tool` answers with; none where it is not served.
async fn version(client: &Client, tool: &str) -> Option<String> {
    let reply = client.call(tool, json!({})).await;
    let answer: Value = serde_json::from_str(text(reply.message.get("result")?)).unwrap();
    answer["version"].as_str().map(str::to_owned)
}

async fn serves(client: &Client, tool: &str, wanted: &str) {
    eventually(&format!("{tool} of version {wanted}"), || async {
        (version(client, tool).await.as_deref() == Some(wanted)).then_some(())
    })
    .await;
}

/// The same component with other bytes: a custom section that says `note`.
fn noted(bytes: &[u8], note: &str) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let name = b"note";
    let length = 1 + name.len() + note.len();
    bytes.extend([0, u8::try_from(length).unwrap(), u8::try_from(name.len()).unwrap()]);
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(note.as_bytes());
    bytes
}

/// The next message of a stream, which is on its way.
async fn next(stream: &mut (impl futures::Stream<Item = Value> + Unpin)) -> Value {
    let next = tokio::time::timeout(layby_tests::wait::BOUND, stream.next()).await;
    next.expect("a message comes in time").expect("the stream is open")
}

#[tokio::test]
async fn plugins_come_change_and_go_without_a_restart() {
    let host = Setup::new().start().await;
    let client = host.client();
    assert!(client.tools().await.is_empty());
    let file = host.setup().plugins().join("pet.wasm");

    let mut changes =
        client.stream("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } })).await;
    let opened = next(&mut changes).await;
    assert_eq!(opened["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(opened["params"]["notifications"], json!({ "toolsListChanged": true }));

    // Added, by a rename.
    let start = Instant::now();
    replace(&file, &chameleon::version("1", "pet"));
    serves(&client, "pet", "1").await;
    // 2 s, and the time to compile on a machine that is busy.
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    let told = next(&mut changes).await;
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(told["params"]["_meta"], opened["params"]["_meta"], "both name the subscription");

    // Replaced, by a rename, while a call is in flight: it ends on its own version.
    let flying = {
        let client = client.clone();
        tokio::spawn(async move { client.call("pet", json!({ "sleep_ms": 2900 })).await })
    };
    client.apart().call("pet", json!({ "sleep_ms": 100 })).await.result();
    let second = json!([{ "name": "pet", "description": "Another description." }]);
    replace(&file, &chameleon::with_tools("2", &second));
    let landed = flying.await.unwrap();
    assert!(text(landed.result()).contains("\"version\":\"1\""), "{}", landed.message);
    serves(&client, "pet", "2").await;
    assert_eq!(next(&mut changes).await["method"], "notifications/tools/list_changed");

    // Replaced, by a slow copy over the old file: no part of it is ever taken for the whole.
    let bytes = chameleon::version("3", "pet");
    let mut copy = fs::File::create(&file).unwrap();
    for part in bytes.chunks(bytes.len() / 6) {
        copy.write_all(part).unwrap();
        copy.sync_all().unwrap();
        assert_eq!(version(&client, "pet").await.as_deref(), Some("2"));
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    drop(copy);
    serves(&client, "pet", "3").await;
    assert_eq!(host.plugin("pet").await["refusal"], Value::Null);
    assert!(!host.log().contains("refused"), "{}", host.log());

    // Removed.
    fs::remove_file(&file).unwrap();
    eventually("no tools", || async { client.tools().await.is_empty().then_some(()) }).await;
    let gone = client.call("pet", json!({})).await;
    assert_eq!(gone.code(), "tool_unknown");
}

#[tokio::test]
async fn a_task_ends_on_the_version_that_it_started_with() {
    let setup = Setup::new().file("pet", &chameleon::version("1", "pet"), "[call]\ndeadline = \"100ms\"");
    let host = setup.start().await;
    let client = host.client();
    let long = client.task("pet", json!({ "sleep_ms": 5000 })).await;
    let file = host.setup().plugins().join("pet.wasm");
    replace(&file, &chameleon::version("2", "pet"));
    serves(&client, "pet", "2").await;
    fs::remove_file(&file).unwrap();
    eventually("no tools", || async { client.tools().await.is_empty().then_some(()) }).await;
    let task = client.status(&long, "completed").await;
    assert!(text(&task["result"]).contains("\"version\":\"1\""), "{task}");
}

fn tools(tools: Value) -> Vec<u8> {
    chameleon::with_tools("bad", &tools)
}

fn tool_with(key: &str, value: Value) -> Vec<u8> {
    let mut tool = json!({ "name": "bad", "description": "x" });
    tool[key] = value;
    tools(json!([tool]))
}

/// Name, bytes or none for the good ones, policy beside the prefix, code, part of the reason.
type Refused = (&'static str, Option<Vec<u8>>, &'static str, &'static str, &'static str);

fn refusals() -> Vec<Refused> {
    let two = json!([{ "name": "twin", "description": "x" }, { "name": "twin", "description": "y" }]);
    let remote = json!({ "type": "object", "properties": { "a": { "$ref": "https://example.com/a.json" } } });
    vec![
        ("text", Some(b"hello".to_vec()), "", "plugin_not_a_component", ""),
        ("empty", Some(Vec::new()), "", "plugin_not_a_component", ""),
        ("core", Some(b"\0asm\x01\0\0\0".to_vec()), "", "plugin_not_a_component", ""),
        ("hollow", Some(b"\0asm\x0d\0\x01\0".to_vec()), "", "plugin_bad_function", ""),
        ("key", None, "[limits]\nfuell = 1", "plugin_bad_policy", "fuel"),
        ("value", None, "[limits]\nmemory = \"lots\"", "plugin_bad_policy", "value.toml:3:10"),
        ("toml", None, "[limits", "plugin_bad_policy", ""),
        (
            "pin",
            None,
            "sha256 = \"0000000000000000000000000000000000000000000000000000000000000000\"",
            "plugin_digest_pin",
            "",
        ),
        ("name", Some(tool_with("name", json!("bad name!"))), "", "plugin_bad_tool_name", "bad name!"),
        ("noname", Some(tool_with("name", json!(""))), "", "plugin_bad_tool_name", ""),
        ("twins", Some(tools(two)), "", "plugin_bad_tool_name", "twin"),
        ("schema", Some(tool_with("inputSchema", json!("{"))), "", "plugin_bad_schema", "bad"),
        (
            "kind",
            Some(tool_with("inputSchema", json!({ "type": "string" }))),
            "",
            "plugin_bad_schema",
            "object",
        ),
        ("remote", Some(tool_with("inputSchema", remote)), "", "plugin_bad_schema", "example.com"),
        ("outs", Some(tool_with("outputSchema", json!({ "type": "nonsense" }))), "", "plugin_bad_schema", ""),
        ("extra", Some(tool_with("extra", json!({ "other": 1 }))), "", "plugin_bad_tool", "other"),
        ("trap", Some(chameleon::listing("trap")), "", "plugin_list_tools_failed", "told to trap"),
        ("spin", Some(chameleon::listing("spin")), "", "plugin_list_tools_failed", ""),
        (
            "grant",
            None,
            "[grants]\nfiles = [{ host = \"./nowhere\", guest = \"/x\" }]",
            "plugin_bad_grant",
            "nowhere",
        ),
        (
            "inside",
            None,
            "[grants]\nfiles = [{ host = \"../data\", guest = \"/x\" }]",
            "plugin_bad_grant",
            "",
        ),
        ("itself", None, "[grants]\nfiles = [{ host = \".\", guest = \"/x\" }]", "plugin_bad_grant", ""),
    ]
}

/// Fuel stops a listing that computes; only the clock stops one that waits.
#[tokio::test]
async fn a_listing_that_waits_is_refused_by_the_clock() {
    let waits = chameleon::listing("sleep");
    let host =
        Setup::new().file("waits", &waits, "").config("[catalog]\nlist-time = \"300ms\"").start().await;
    let plugin = host.refusal("waits", "plugin_list_slow").await;
    assert!(plugin["refusal"]["reason"].as_str().unwrap().contains("took longer than 300ms"), "{plugin}");
}

/// Each refusal leaves the version before it serving, is logged once, and shows in `layby plugins`;
/// a restart changes nothing of that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_file_displaces_nothing_and_says_why() {
    let good = guests::component("chameleon");
    let mut setup = Setup::new();
    for (name, ..) in refusals() {
        setup = setup.file(name, &good, &format!("prefix = \"{name}_\""));
    }
    let host = setup.start().await;
    let client = host.client();
    let names = client.tool_names().await;
    assert_eq!(names.len(), refusals().len(), "{names:?}");
    for (name, bytes, policy, ..) in refusals() {
        let plugins = host.setup().plugins();
        if !policy.is_empty() {
            replace(
                &plugins.join(format!("{name}.toml")),
                format!("prefix = \"{name}_\"\n{policy}").as_bytes(),
            );
        }
        if let Some(bytes) = bytes {
            replace(&plugins.join(format!("{name}.wasm")), &bytes);
        }
    }
    for (name, _, _, code, part) in refusals() {
        let plugin = host.refusal(name, code).await;
        let refusal = &plugin["refusal"];
        assert_eq!(plugin["state"], "serving, newer refused", "{plugin}");
        assert!(refusal["reason"].as_str().unwrap().contains(part), "{name}: {refusal}");
        assert!(!refusal["advice"].as_str().unwrap().is_empty(), "{name}: {refusal}");
    }
    assert_eq!(client.tool_names().await, names);
    let ready: Value = layby_tests::client::http()
        .get(format!("{}/ready", host.base()))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(
        (&ready["plugins"]["serving"], &ready["plugins"]["refused"]),
        (&json!(names.len()), &json!(names.len())),
        "{ready}"
    );
    for (name, _, _, code, _) in refusals() {
        let named = format!("plugin={name} ");
        let lines = host.log().lines().filter(|l| l.contains(code) && l.contains(&named)).count();
        assert_eq!(lines, 1, "{name}, {code}: logged {lines} times\n{}", host.log());
        assert_eq!(version(&client, &format!("{name}_chameleon")).await.as_deref(), Some("1"));
    }
    let host = host.restart().await;
    let client = host.client();
    eventually("all tools after the restart", || async {
        (client.tool_names().await == names).then_some(())
    })
    .await;
    for (name, _, _, code, _) in refusals() {
        host.refusal(name, code).await;
        assert_eq!(version(&client, &format!("{name}_chameleon")).await.as_deref(), Some("1"));
    }
}

#[tokio::test]
async fn a_name_belongs_to_who_had_it_first() {
    let host = Setup::new().file("zeta", &chameleon::version("zeta's", "shared"), "").start().await;
    let client = host.client();
    host.put("alpha", &chameleon::version("alpha's", "shared"), "");
    let intruder = host.refusal("alpha", "plugin_name_taken").await;
    assert_eq!(intruder["state"], "refused");
    assert!(intruder["refusal"]["reason"].as_str().unwrap().contains("zeta"), "{intruder}");
    assert_eq!(version(&client, "shared").await.as_deref(), Some("zeta's"));
    // Also where the intruder would be read first.
    let host = host.restart().await;
    let client = host.client();
    serves(&client, "shared", "zeta's").await;
    host.refusal("alpha", "plugin_name_taken").await;
    // A prefix gives it a place of its own.
    replace(&host.setup().plugins().join("alpha.toml"), b"prefix = \"a_\"");
    serves(&client, "a_shared", "alpha's").await;
    // Or the owner leaves.
    fs::remove_file(host.setup().plugins().join("zeta.wasm")).unwrap();
    eventually("the name is free", || async { version(&client, "shared").await.is_none().then_some(()) })
        .await;
    replace(&host.setup().plugins().join("alpha.toml"), b"");
    serves(&client, "shared", "alpha's").await;
}

/// What `env` of the probe shows as its region.
async fn region(host: &Host) -> Option<String> {
    let reply = host.client().call("env", json!({})).await;
    let shown: Value = serde_json::from_str(text(reply.message.get("result")?)).unwrap();
    Some(shown["env"]["REGION"].as_str().unwrap_or("none").to_owned())
}

async fn region_is(host: &Host, wanted: &str) {
    eventually(&format!("the region {wanted}"), || async {
        (region(host).await.as_deref() == Some(wanted)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn other_bytes_under_an_old_policy_have_no_grants() {
    let policy = "[grants]\nenv = { REGION = \"eu\" }";
    let host = Setup::new().plugin("probe", policy).start().await;
    region_is(&host, "eu").await;
    let file = host.setup().plugins().join("probe.wasm");
    let other = noted(&guests::component("probe"), "other bytes");
    replace(&file, &other);
    region_is(&host, "none").await;
    let plugin = host.plugin("probe").await;
    assert_eq!(
        (&plugin["state"], &plugin["withoutGrants"]),
        (&json!("serving without grants"), &json!(true))
    );
    // A restart decides the same.
    let host = host.restart().await;
    region_is(&host, "none").await;
    // The operator has looked, and writes the policy again.
    replace(&host.setup().plugins().join("probe.toml"), format!("# reviewed\n{policy}").as_bytes());
    region_is(&host, "eu").await;
    assert_eq!(host.plugin("probe").await["withoutGrants"], false);
}

#[tokio::test]
async fn a_developer_may_trust_replacements() {
    let policy = "[grants]\nenv = { REGION = \"eu\" }";
    let host = Setup::new().plugin("probe", policy).config("trust-replacements = true").start().await;
    let digest = host.plugin("probe").await["digest"].clone();
    replace(&host.setup().plugins().join("probe.wasm"), &noted(&guests::component("probe"), "mine"));
    eventually("the new bytes", || async { (host.plugin("probe").await["digest"] != digest).then_some(()) })
        .await;
    region_is(&host, "eu").await;
}
