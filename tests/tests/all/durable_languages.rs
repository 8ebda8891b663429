//! A call goes on in another process as if nothing had been, whatever language its tool is written in: `rounds` of
//! each language's `trial` draws numbers, reads the clocks, asks and sleeps, and keeps all of it in local variables.

use std::time::{Duration, Instant};

use layby_tests::{Client, Host, Setup, eventually, guests, text};
use serde_json::{Value, json};

use crate::languages;

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
            async fn a_call_that_nothing_disturbs_is_whole() {
                super::undisturbed(stringify!($language)).await;
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

async fn crash_at_each_question(language: &str) {
    let mut rounds = Rounds::start(language, "0s", json!({})).await;
    for number in 1..=3 {
        let key = rounds.question(number).await;
        if number % 2 == 1 {
            rounds.parked().await;
        }
        rounds.crash().await;
        assert_eq!(rounds.asked(number).await, (key.clone(), rounds.drawn[number - 1].clone()));
        rounds.answer(&key, number).await;
    }
    rounds.ends_whole().await;
}

async fn crash_in_each_sleep(language: &str) {
    let mut rounds = Rounds::start(language, "1s", json!({ "rounds": 2, "sleep_ms": 3000 })).await;
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

async fn undisturbed(language: &str) {
    let mut rounds = Rounds::start(language, "60s", json!({ "rounds": 3, "sleep_ms": 20 })).await;
    for number in 1..=3 {
        let key = rounds.question(number).await;
        rounds.answer(&key, number).await;
    }
    rounds.ends_whole().await;
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
    async fn start(language: &str, linger: &str, arguments: Value) -> Self {
        let name = format!("{language}/trial");
        let policy = format!(
            "[call]\ndeadline = \"100ms\"\ngrace = \"200ms\"\nlinger = \"{linger}\"\n{}",
            guests::policy(&name)
        );
        let setup = Setup::new().config(LEASES).arg("--log").arg("info");
        let setup = setup.file("trial", &guests::component(&name), &policy);
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
        let asked = task["inputRequests"].as_object().expect("questions");
        let (key, question) = asked.iter().next().expect("a question");
        assert_eq!(asked.len(), 1, "{task}");
        let message = question["params"]["message"].as_str().expect("a message");
        let drawn = message.strip_prefix(&format!("round {number}: "));
        let drawn = drawn.unwrap_or_else(|| panic!("not the question of round {number}: {message}"));
        assert!(drawn.len() == 16 && u64::from_str_radix(drawn, 16).is_ok(), "{message}");
        (key.clone(), drawn.to_owned())
    }

    /// The same, for the first time; the key.
    async fn question(&mut self, number: usize) -> String {
        let (key, drawn) = self.asked(number).await;
        self.drawn.push(drawn);
        key
    }

    async fn answer(&self, key: &str, number: usize) {
        let answer = match answer_of(number) {
            "declined" => json!({ "action": "decline" }),
            "dismissed" => json!({ "action": "cancel" }),
            value => json!({ "action": "accept", "content": { "value": value } }),
        };
        self.client().update(&self.id, json!({ key: answer })).await.result();
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

    /// The call ends as one that was never disturbed.
    async fn ends_whole(mut self) {
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

/// What the question of a round is answered.
fn answer_of(number: usize) -> &'static str {
    ["an answer", "declined", "dismissed"][(number - 1) % 3]
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
