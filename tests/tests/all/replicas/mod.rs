//! Several hosts on one database: on PostgreSQL with folders of their own, as on machines of their own, and on one
//! SQLite file.

mod clocks;
mod commits;
mod everywhere;
mod outage;
mod paused;
mod plugins;
mod retries;
mod revoked;
mod sealed;

use std::process::Command;

use layby_tests::{Balancer, Client, Host, Setup, client::everything, guests, postgres::database, text};
use serde_json::{Value, json};

const CONFIG: &str = "[store]\nlease = \"1s\"\ntakeover = \"1s\"";
const POLICY: &str =
    "[limits]\nfuel = 2_000_000_000_000\n[call]\ndeadline = \"100ms\"\ngrace = \"200ms\"\nlinger = \"0s\"";

async fn replica(url: &str) -> Host {
    Setup::probe(POLICY).config(CONFIG).store(url).start().await
}

/// Three hosts behind a balancer.
struct Fleet {
    hosts: Vec<Host>,
    balancer: Balancer,
}

impl Fleet {
    async fn of(hosts: Vec<Host>) -> Self {
        let balancer = Balancer::start(hosts.iter().map(|host| host.base().to_owned())).await;
        Self { hosts, balancer }
    }

    /// On one PostgreSQL database.
    async fn postgres() -> Self {
        let url = database().await;
        let (one, two, three) = tokio::join!(replica(&url), replica(&url), replica(&url));
        Self::of(vec![one, two, three]).await
    }

    /// On one data folder.
    async fn sqlite() -> Self {
        let one = Setup::probe(POLICY).config(CONFIG).start().await;
        let (two, three) = (one.beside().await, one.beside().await);
        Self::of(vec![one, two, three]).await
    }

    /// A client whose every request goes to the next host.
    fn client(&self) -> Client {
        Client::new(&self.balancer.url(), everything())
    }
}

/// The answers that the tool `ask` got.
fn answers(task: &Value) -> Value {
    let result: Value = serde_json::from_str(text(&task["result"])).expect("the tool's own JSON");
    assert_eq!(result["error"], Value::Null, "{result}");
    result["answers"].clone()
}

/// Waits until the task asks; the key of its one question.
async fn question(client: &Client, id: &str) -> String {
    let task = client.status(id, "input_required").await;
    let asked = task["inputRequests"].as_object().expect("questions");
    assert_eq!(asked.len(), 1, "{task}");
    asked.keys().next().expect("a question").clone()
}

#[test]
fn a_database_that_is_none_is_named() {
    for (url, code) in [
        ("postgres://layby@127.0.0.1:1/layby", "store_unreachable"),
        ("mysql://localhost/layby", "store_failed"),
    ] {
        let folder = tempfile::TempDir::new().unwrap();
        let mut command = Command::new(guests::layby());
        command.args(["tasks", "list", "--json", "--store", url]).current_dir(folder.path());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LAYBY_")) {
            command.env_remove(name);
        }
        let output = command.output().unwrap();
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(code), "{url}: {said}");
    }
}

fn nap(ms: u64) -> Value {
    json!({ "ms": ms, "step_ms": 20 })
}
