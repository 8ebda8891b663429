//! Plugins that signers must have signed, with keys and signatures of the real minisign.

use std::{fs, path::PathBuf};

use layby_tests::{
    Client, Host, Setup, Signer, chameleon, command, eventually, host::replace, minisign::signature_path,
    text,
};
use serde_json::{Value, json};

/// The variable that has the keys.
const SIGNERS: &str = "LAYBY_CATALOG_SIGNERS";

fn keys(signers: &[&Signer]) -> String {
    signers.iter().map(|signer| signer.key()).collect::<Vec<_>>().join(",")
}

fn setup(signers: &[&Signer]) -> Setup {
    Setup::new().env(SIGNERS, &keys(signers))
}

/// Adds a plugin with a signature, which comes first.
fn signed(setup: Setup, name: &str, bytes: &[u8], signature: &[u8]) -> Setup {
    fs::write(signature_path(&setup.plugins(), name), signature).unwrap();
    setup.file(name, bytes, "")
}

fn sign(host: &Host, name: &str, signature: &[u8]) {
    replace(&signature_path(&host.setup().plugins(), name), signature);
}

/// The version that `tool` answers with; none where it is not served.
async fn version(client: &Client, tool: &str) -> Option<String> {
    let reply = client.call(tool, json!({})).await;
    let answer: Value = serde_json::from_str(text(reply.message.get("result")?)).unwrap();
    answer["version"].as_str().map(str::to_owned)
}

async fn serves(host: &Host, tool: &str, wanted: &str) {
    let client = host.client();
    eventually(&format!("{tool} of version {wanted}"), || async {
        (version(&client, tool).await.as_deref() == Some(wanted)).then_some(())
    })
    .await;
}

/// Where the data folder keeps something of the component that a plugin's refusal or state names.
fn kept(host: &Host, digest: &Value, what: &str) -> PathBuf {
    host.setup().data().join("components").join(format!("{}{what}", digest.as_str().unwrap()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_a_known_signer_signed_is_loaded() {
    let (a, b, stranger) = (Signer::new(), Signer::new(), Signer::new());
    let tool = |name: &str| chameleon::version("1", name);
    let mut setup = setup(&[&a, &b]);
    setup = signed(setup, "one", &tool("one"), &a.sign_by(&tool("one"), &["-t", "for\u{1b}[31m red"]));
    setup = signed(setup, "two", &tool("two"), &b.sign(&tool("two")));
    setup = signed(setup, "old", &tool("old"), &a.sign_by(&tool("old"), &["-l"]));
    // No signature, one of other bytes, one that was cut, one of another key, and what is none. What is refused is never
    // read as a component: the first is no component at all.
    setup = setup.file("bare", b"no component", "");
    let mut changed = tool("changed");
    let signature = a.sign(&changed);
    *changed.last_mut().unwrap() ^= 1;
    setup = signed(setup, "changed", &changed, &signature);
    let whole = a.sign(&tool("cut"));
    setup = signed(setup, "cut", &tool("cut"), &whole[..whole.len() - 40]);
    setup = signed(setup, "strange", &tool("strange"), &stranger.sign(&tool("strange")));
    setup = signed(setup, "binary", &tool("binary"), &[0xff; 100]);
    setup = signed(setup, "huge", &tool("huge"), &[b'\n'; 20_000]);
    // The comment is signed too.
    let lie = String::from_utf8(a.sign(&tool("lie"))).unwrap().replace("a test's plugin", "reviewed by b");
    setup = signed(setup, "lie", &tool("lie"), lie.as_bytes());

    let host = setup.start().await;
    assert_eq!(host.client().tool_names().await, ["old", "one", "two"]);
    for (name, code, part) in [
        ("bare", "plugin_unsigned", "has no signature".to_owned()),
        ("changed", "plugin_bad_signature", format!("the key {}, and is not", a.id())),
        ("cut", "plugin_bad_signature", "no signature of minisign's".to_owned()),
        ("strange", "plugin_bad_signature", format!("the key {}, which is none", stranger.id())),
        ("binary", "plugin_bad_signature", "not UTF-8".to_owned()),
        ("huge", "plugin_bad_signature", "20000 bytes".to_owned()),
        ("lie", "plugin_bad_signature", format!("the key {}, and is not", a.id())),
    ] {
        let plugin = host.refusal(name, code).await;
        let refusal = &plugin["refusal"];
        assert_eq!(plugin["state"], "refused", "{plugin}");
        assert!(refusal["reason"].as_str().unwrap().contains(&part), "{name}: {refusal}");
        assert!(refusal["advice"].as_str().unwrap().contains("minisign -S"), "{name}: {refusal}");
        if !refusal["digest"].is_null() {
            assert!(!kept(&host, &refusal["digest"], ".wasm").exists(), "{name} was taken in");
        }
        assert!(host.log().contains(&format!("plugin={name} code=\"{code}\"")), "{}", host.log());
    }
    let log = host.log();
    assert!(log.contains(&a.id()) && log.contains("for\\u{1b}[31m red") && !log.contains('\u{1b}'), "{log}");
    assert!(host.command_text(&["plugins"]).await.contains("plugin_unsigned"));

    // A call on the operator's own folder asks for signatures as the host does; who looks at a file does not.
    let here = |args: &[&str]| {
        let mut command = command::layby(host.setup().root(), args);
        command.env(SIGNERS, keys(&[&a]));
        command::run(command)
    };
    let mine = here(&["call", "one", "{}", "--plugins", "plugins"]).await;
    assert_eq!(mine.code, Some(0), "{mine:?}");
    let refused = here(&["call", "two", "{}", "--plugins", "plugins"]).await;
    assert!(refused.code != Some(0) && refused.err.contains("tool_unknown"), "{refused:?}");
    let looked = here(&["inspect", "plugins/strange.wasm"]).await;
    assert_eq!(looked.code, Some(0), "{looked:?}");
}

#[tokio::test]
async fn a_signature_may_come_after_its_component() {
    let signer = Signer::new();
    let host = setup(&[&signer]).start().await;
    let bytes = chameleon::version("1", "pet");
    host.put("pet", &bytes, "");
    host.refusal("pet", "plugin_unsigned").await;
    sign(&host, "pet", &signer.sign(b"something else"));
    host.refusal("pet", "plugin_bad_signature").await;
    assert!(host.client().tools().await.is_empty());
    sign(&host, "pet", &signer.sign(&bytes));
    serves(&host, "pet", "1").await;
    assert_eq!(host.plugin("pet").await["refusal"], Value::Null);
}

#[tokio::test]
async fn what_is_not_signed_displaces_nothing() {
    let signer = Signer::new();
    let first = chameleon::version("1", "pet");
    let host = signed(setup(&[&signer]), "pet", &first, &signer.sign(&first)).start().await;
    serves(&host, "pet", "1").await;
    // The old signature lies beside it.
    let second = chameleon::version("2", "pet");
    host.put("pet", &second, "");
    let plugin = host.refusal("pet", "plugin_bad_signature").await;
    assert_eq!(plugin["state"], "serving, newer refused", "{plugin}");
    fs::remove_file(signature_path(&host.setup().plugins(), "pet")).unwrap();
    host.refusal("pet", "plugin_unsigned").await;
    serves(&host, "pet", "1").await;
    // Nor after a restart.
    let host = host.restart().await;
    serves(&host, "pet", "1").await;
    host.refusal("pet", "plugin_unsigned").await;
    sign(&host, "pet", &signer.sign(&second));
    serves(&host, "pet", "2").await;
}

#[tokio::test]
async fn keys_rotate_and_what_they_signed_goes_with_them() {
    let (old, new) = (Signer::new(), Signer::new());
    let bytes = chameleon::version("1", "pet");
    // Without keys anything serves; with them, not even what served before.
    let host = Setup::new().file("pet", &bytes, "").start().await;
    serves(&host, "pet", "1").await;
    let host = host.restart_with(SIGNERS, &old.key()).await;
    host.refusal("pet", "plugin_unsigned").await;
    assert!(host.client().tools().await.is_empty());
    sign(&host, "pet", &old.sign(&bytes));
    serves(&host, "pet", "1").await;

    // Both count while the new one signs anew; then the old one goes.
    let host = host.restart_with(SIGNERS, &keys(&[&old, &new])).await;
    serves(&host, "pet", "1").await;
    let signature = new.sign(&bytes);
    sign(&host, "pet", &signature);
    let digest = host.plugin("pet").await["digest"].clone();
    let kept = kept(&host, &digest, ".wasm.minisig");
    eventually("the new signature", || async {
        fs::read(&kept).is_ok_and(|kept| kept == signature).then_some(())
    })
    .await;
    let host = host.restart_with(SIGNERS, &new.key()).await;
    serves(&host, "pet", "1").await;
    assert_eq!(host.plugin("pet").await["refusal"], Value::Null);
    // Another one's key: what served under the one that is gone serves no more.
    let host = host.restart_with(SIGNERS, &old.key()).await;
    let plugin = host.refusal("pet", "plugin_bad_signature").await;
    assert!(plugin["refusal"]["reason"].as_str().unwrap().contains(&new.id()), "{plugin}");
    assert!(host.client().tools().await.is_empty());
    let host = host.restart_without(SIGNERS).await;
    serves(&host, "pet", "1").await;
}

/// What a task began with was signed when it was loaded.
#[tokio::test]
async fn a_task_goes_on_with_a_component_whose_signer_is_gone() {
    let (old, new) = (Signer::new(), Signer::new());
    let policy = "[call]\ndeadline = \"100ms\"\nlinger = \"0s\"";
    let first = chameleon::version("1", "pet");
    let setup = signed(setup(&[&old]), "pet", &first, &old.sign(&first)).file("pet", &first, policy);
    let host = setup.start().await;
    let task = host.client().task("pet", json!({ "sleep_ms": 8000 })).await;
    let second = chameleon::version("2", "pet");
    sign(&host, "pet", &new.sign(&second));
    host.put("pet", &second, policy);
    let host = host.restart_with(SIGNERS, &new.key()).await;
    serves(&host, "pet", "2").await;
    let task = host.client().status(&task, "completed").await;
    assert!(text(&task["result"]).contains("\"version\":\"1\""), "{task}");
}

#[tokio::test]
async fn a_key_that_is_none_is_told_before_anything_starts() {
    let key = Signer::new().key();
    let setup = Setup::new().cold().config(&format!("[catalog]\nsigners = [\"{key}\", \"{}\"]", &key[1..]));
    let done = setup.start_failing().await;
    assert_eq!(done.code, Some(2), "{done:?}");
    for part in ["layby.toml:2:1", "key 2", ".pub", "config_invalid"] {
        assert!(done.err.contains(part), "{part} is missing: {done:?}");
    }
    assert!(!setup.data().exists());
    let many = vec![key; 33].join(",");
    let done = Setup::new().cold().env(SIGNERS, &many).start_failing().await;
    assert!(done.err.contains(SIGNERS) && done.err.contains("at most 32"), "{done:?}");
}
