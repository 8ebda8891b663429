//! A call goes on in another process as if nothing had been, whatever language its tool is written in: `rounds` of
//! each language's `trial` draws numbers, reads the clocks, asks and sleeps, and keeps all of it in local variables.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use layby_tests::{
    Client, Host, Setup, eventually, guests,
    journal::{Journal, stop_again},
    text,
};
use serde_json::{Value, json};
use sqlx::{ConnectOptions as _, SqliteConnection, sqlite::SqliteConnectOptions};
use uuid::Uuid;

use crate::languages;

/// Clocks that read the same whenever the run has done the same.
const STEPS: &[(&str, &str)] = &[("LAYBYTEST_STEPS", "1")];

/// Short leases, so that tests do not wait for the real ones.
const LEASES: &str = "[store]\nlease = \"1s\"\ntakeover = \"1s\"";

macro_rules! in_each {
    ($($language:ident),+) => {
        $(mod $language {
            #[tokio::test]
            async fn a_call_is_the_same_after_a_crash_at_each_question() {
                super::crash_at_each_question(stringify!($language)).await;
            }

            #[tokio::test]
            async fn a_call_is_the_same_after_a_crash_in_each_sleep() {
                super::crash_in_each_sleep(stringify!($language)).await;
            }

            #[tokio::test]
            async fn a_call_goes_on_from_every_entry_to_the_same_end() {
                super::every_prefix(stringify!($language)).await;
            }
        })+

        const LANGUAGES: &[&str] = &[$(stringify!($language)),+];
    };
}

in_each!(rust, python, typescript, go, c);

/// A language is not forgotten here.
#[test]
fn every_language_is_run() {
    assert_eq!(LANGUAGES, languages::LANGUAGES);
}

/// Result, fuel and journal are those of the same run that nobody disturbs, from its header on.
async fn crash_at_each_question(language: &str) {
    let mut rounds = Rounds::start(language, "0s", json!({ "sleep_ms": 500 }), STEPS).await;
    for number in 1..=3 {
        let key = rounds.question(number).await;
        if number % 2 == 1 {
            rounds.parked().await;
        }
        rounds.crash().await;
        assert_eq!(rounds.asked(number).await, (key.clone(), rounds.drawn[number - 1].clone()));
        rounds.answer(&key, number).await;
        if number == 2 {
            // While it is resumed, or in its sleep.
            rounds.crash().await;
        }
    }
    rounds.ends_whole().await;
    rounds.same_from(|_| vec![0]).await;
}

async fn crash_in_each_sleep(language: &str) {
    let mut rounds = Rounds::start(language, "1s", json!({ "rounds": 2, "sleep_ms": 3000 }), &[]).await;
    for number in 1..=2 {
        let key = rounds.question(number).await;
        let begin = Instant::now();
        rounds.answer(&key, number).await;
        if number == 1 {
            // Its sleep is longer than it lingers. The second time it dies before, perhaps while it is resumed.
            rounds.parked().await;
        }
        rounds.crash().await;
        if number == 1 {
            rounds.asked(2).await;
        } else {
            rounds.client().status(&rounds.id, "completed").await;
        }
        assert!(begin.elapsed() >= Duration::from_secs(3), "{language} slept too little");
    }
    rounds.ends_whole().await;
}

/// The prefix property: cut after any entry, the journal of an undisturbed run leads to the same end in the same world.
async fn every_prefix(language: &str) {
    let mut rounds = Rounds::start(language, "60s", json!({ "rounds": 3, "sleep_ms": 20 }), STEPS).await;
    for number in 1..=3 {
        let key = rounds.question(number).await;
        rounds.answer(&key, number).await;
    }
    rounds.ends_whole().await;
    let first = rounds.same_from(|entries| (0..=entries).collect()).await;
    assert!(first >= 20, "three rounds have more than {first} entries");
}

/// A call of `rounds`, and what its questions showed so far.
struct Rounds {
    host: Option<Host>,
    id: String,
    drawn: Vec<String>,
    /// The logs of the processes that have died.
    logs: Vec<String>,
}

impl Rounds {
    async fn start(language: &str, linger: &str, arguments: Value, env: &[(&str, &str)]) -> Self {
        let name = format!("{language}/trial");
        let policy = format!(
            "[call]\ndeadline = \"100ms\"\ngrace = \"200ms\"\nlinger = \"{linger}\"\n{}",
            guests::policy(&name)
        );
        let setup = Setup::new().config(LEASES).arg("--log").arg("info");
        let setup = setup.file("trial", &guests::component(&name), &policy);
        let setup = env.iter().fold(setup, |setup, (name, value)| setup.env(name, value));
        let host = languages::start(language, setup).await;
        let id = host.client().task("rounds", arguments).await;
        Self { host: Some(host), id, drawn: Vec::new(), logs: Vec::new() }
    }

    fn host(&self) -> &Host {
        self.host.as_ref().expect("there is a host but while it starts again")
    }

    fn client(&self) -> Client {
        self.host().client()
    }

    /// Waits for the question of a round: its key, and the number that it shows.
    async fn asked(&self, number: usize) -> (String, String) {
        let task = self.client().status(&self.id, "input_required").await;
        let (key, of, drawn) = question(&task);
        assert_eq!(of, number, "{task}");
        (key, drawn)
    }

    /// The same, for the first time; the key.
    async fn question(&mut self, number: usize) -> String {
        let (key, drawn) = self.asked(number).await;
        self.drawn.push(drawn);
        key
    }

    async fn answer(&self, key: &str, number: usize) {
        answer(&self.client(), &self.id, key, number).await;
    }

    /// Waits until nothing runs the task.
    async fn parked(&self) {
        eventually("the task is parked", || async {
            let tasks = self.host().tasks().await;
            tasks.iter().any(|task| task["taskId"] == self.id && task["parked"] == true).then_some(())
        })
        .await;
    }

    /// `kill -9`, and another process on the same folders.
    async fn crash(&mut self) {
        let mut host = self.host.take().expect("a host is there");
        host.kill();
        self.logs.push(host.log());
        self.host = Some(host.restart().await);
    }

    /// Goes on from each of the entries that `cuts` chooses of the ended task's journal, of which it is told how many
    /// there are: each time to the same result, fuel and journal. How many entries there are.
    async fn same_from(&mut self, cuts: impl FnOnce(usize) -> Vec<usize>) -> usize {
        let ended = self.client().status(&self.id, "completed").await;
        let mut host = self.host.take().expect("a host is there");
        host.kill();
        let mut c = database(&host).await;
        let id: Uuid = self.id.parse().expect("an id");
        let journal = Journal::of(&mut c, id.as_bytes()).await;
        let mut tasks = Vec::new();
        for cut in cuts(journal.entries.len()) {
            tasks.push((cut, stop_again(&mut c, id.as_bytes(), &journal, cut).await));
        }
        let host = host.restart().await;
        // A few at once: each is looked at often.
        stream::iter(&tasks)
            .for_each_concurrent(4, async |(cut, id)| {
                let again = answered(&host.client(), &id.to_string()).await;
                assert_eq!(again["status"], "completed", "cut after {cut}: {again}");
                assert_eq!(text(&again["result"]), text(&ended["result"]), "cut after {cut}");
                for part in ["fuel", "hostCalls", "peakMemoryBytes", "digest"] {
                    let of = |task: &Value| task["result"]["_meta"]["layby/receipt"][part].clone();
                    assert_eq!(
                        of(&again),
                        of(&ended),
                        "{part}, cut after {cut} of {}",
                        journal.entries.len()
                    );
                }
            })
            .await;
        for (cut, id) in &tasks {
            let again = Journal::of(&mut c, id.as_bytes()).await;
            assert_eq!(again, journal, "cut after {cut}");
        }
        self.host = Some(host);
        journal.entries.len()
    }

    /// The call ends as one that was never disturbed.
    async fn ends_whole(&mut self) {
        let task = self.client().status(&self.id, "completed").await;
        let lines = self.drawn.iter().zip(1..);
        let lines: Vec<_> =
            lines.map(|(drawn, number)| format!("{number} {drawn} {}", answer_of(number))).collect();
        let lines = lines.join("\n");
        let whole = format!("{lines}\ndigest {:016x}", fnv1a(lines.as_bytes()));
        assert_eq!(text(&task["result"]), whole, "{task}");

        self.logs.push(self.host().log());
        let log = self.logs.concat();
        for number in 1..=self.drawn.len() {
            let wrote = log.lines().filter(|line| line.contains(&format!(" round {number} ")));
            assert_eq!(wrote.count(), 1, "round {number} wrote its line once:\n{log}");
        }
    }
}

async fn database(host: &Host) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(host.setup().data().join("layby.db"));
    options.connect().await.expect("the database")
}

/// Key, round and drawn number of the one question that is open.
fn question(task: &Value) -> (String, usize, String) {
    let asked = task["inputRequests"].as_object().expect("questions");
    let (key, question) = asked.iter().next().expect("a question");
    assert_eq!(asked.len(), 1, "{task}");
    let message = question["params"]["message"].as_str().expect("a message");
    let parts = message.strip_prefix("round ").and_then(|rest| rest.split_once(": "));
    let (number, drawn) = parts.unwrap_or_else(|| panic!("not the question of a round: {message}"));
    assert!(drawn.len() == 16 && u64::from_str_radix(drawn, 16).is_ok(), "{message}");
    (key.clone(), number.parse().expect("a number"), drawn.to_owned())
}

async fn answer(client: &Client, id: &str, key: &str, number: usize) {
    let answer = match answer_of(number) {
        "declined" => json!({ "action": "decline" }),
        "dismissed" => json!({ "action": "cancel" }),
        value => json!({ "action": "accept", "content": { "value": value } }),
    };
    client.update(id, json!({ key: answer })).await.result();
}

/// The task at its end, with all that it asks answered.
async fn answered(client: &Client, id: &str) -> Value {
    loop {
        let task = client.until(id, "a question or its end", |task| task["status"] != "working").await;
        if task["status"] != "input_required" {
            return task;
        }
        let (key, number, _) = question(&task);
        answer(client, id, &key, number).await;
    }
}

/// What the question of a round is answered.
fn answer_of(number: usize) -> &'static str {
    ["an answer", "declined", "dismissed"][(number - 1) % 3]
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
