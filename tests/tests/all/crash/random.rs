//! Kills at random instants under load: no task is lost, and each ends as it should.

use std::{
    env,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use layby_tests::{Balancer, Client, Dice, Host, Reply, Setup, client::everything, text};
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::sleep};

use super::world::{accepted, is_ended};

/// Clients that keep calling.
const CLIENTS: u64 = 12;
/// Longest wait for the end of a task once nothing is killed any more.
const REST: Duration = Duration::from_secs(120);
const POLICY: &str = "[call]\ndeadline = \"150ms\"\ngrace = \"200ms\"\nlinger = \"100ms\"\n\
                      [limits]\nconcurrency = 24\n[grants]\nask = [\"form\"]";
const CONFIG: &str = "[store]\nlease = \"1s\"\ntakeover = \"500ms\"\n[serve]\ndrain = \"300ms\"";

/// What one call asks for.
#[derive(Clone, Debug)]
enum Job {
    Nap { ms: u64, step: Option<u64> },
    Report { count: u64, pause: u64 },
    Ask { rounds: usize, before: u64, after: u64 },
}

impl Job {
    fn any(dice: &mut Dice) -> Self {
        match dice.within(0, 4) {
            0 => Self::Nap { ms: dice.within(1, 3000), step: None },
            1 => Self::Nap { ms: dice.within(200, 2500), step: Some(dice.within(10, 300)) },
            2 => Self::Report { count: dice.within(1, 5), pause: dice.within(50, 500) },
            _ => Self::Ask {
                rounds: 1 + usize::try_from(dice.within(0, 3)).expect("a small number"),
                before: if dice.one_in(2) { 0 } else { dice.within(1, 400) },
                after: dice.within(0, 300),
            },
        }
    }

    fn call(&self) -> Value {
        match self {
            Self::Nap { ms, step: None } => json!({ "name": "nap", "arguments": { "ms": ms } }),
            Self::Nap { ms, step } => json!({ "name": "nap", "arguments": { "ms": ms, "step_ms": step } }),
            Self::Report { count, pause } => {
                json!({ "name": "report", "arguments": { "count": count, "pause_ms": pause } })
            }
            Self::Ask { rounds, before, after } => json!({
                "name": "ask", "arguments": { "rounds": rounds, "before_ms": before, "after_ms": after }
            }),
        }
    }

    /// The text of its result.
    fn result(&self) -> Value {
        match self {
            Self::Nap { ms, .. } => format!("slept {ms} ms").into(),
            Self::Report { count, .. } => format!("reported {count} times").into(),
            Self::Ask { rounds, .. } => {
                let answers: Vec<Value> = (0..*rounds).map(|round| shown(&response(round))).collect();
                json!({ "count": rounds, "answers": answers, "error": null })
            }
        }
    }

    fn check(&self, result: &Value) -> Result<(), String> {
        let got = text(result);
        let got = if matches!(self, Self::Ask { .. }) {
            serde_json::from_str(got).map_err(|e| format!("{e}: {got}"))?
        } else {
            Value::from(got)
        };
        if got == self.result() { Ok(()) } else { Err(format!("{self:?} came to {got}")) }
    }
}

/// The answer to the question of this round, whoever gives it, however often.
fn response(round: usize) -> Value {
    if round % 3 == 1 { json!({ "action": "decline" }) } else { accepted(&format!("answer {round}")) }
}

/// The same as the tool gives it back.
fn shown(response: &Value) -> Value {
    if response["action"] == "accept" { response["content"].clone() } else { "declined".into() }
}

/// The round of a key: `question`, `question_2`, …
fn round_of(key: &str) -> usize {
    key.strip_prefix("question_").and_then(|n| n.parse().ok()).map_or(0, |n: usize| n - 1)
}

/// What clients and the killer share.
#[derive(Default)]
struct Shared {
    url: Mutex<String>,
    stop: AtomicBool,
    /// Since when nothing is killed any more.
    calm: Mutex<Option<Instant>>,
    /// Calls that ended inline, and those of them that have a row.
    inline: AtomicUsize,
    kept: AtomicUsize,
    tasks: AtomicUsize,
    answered: AtomicUsize,
    /// The same by retries.
    returned: AtomicUsize,
    cancelled: AtomicUsize,
}

impl Shared {
    fn url(&self) -> String {
        self.url.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_url(&self, url: &str) {
        url.clone_into(&mut self.url.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn tired(&self) -> bool {
        let calm = *self.calm.lock().unwrap_or_else(PoisonError::into_inner);
        calm.is_some_and(|since| since.elapsed() > REST)
    }
}

struct Caller {
    shared: Arc<Shared>,
    dice: Dice,
    /// Its client, and the URL that it goes to.
    client: Option<(String, Client)>,
}

/// A task that the client has the handle of.
struct Open {
    id: String,
    job: Job,
    cancelled: bool,
}

impl Caller {
    /// Sends until there is an answer.
    async fn send(&mut self, key: Option<&str>, method: &str, params: Value) -> Result<Reply, String> {
        self.send_as(&everything(), key, method, params).await
    }

    async fn send_as(
        &mut self,
        declared: &Value,
        key: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<Reply, String> {
        // What is no row yet ends with its process.
        let lost = *declared != everything() && key.is_none() && params["requestState"].is_null();
        loop {
            let url = self.shared.url();
            let client = match &self.client {
                Some((to, client)) if *to == url => client.clone(),
                _ => Client::new(&url, everything()),
            };
            self.client = Some((url, client.clone()));
            let client = client.declaring(declared.clone());
            let client = match key {
                Some(key) => client.meta("layby/idempotency-key", json!(key)),
                None => client,
            };
            let reply = client.try_send(&client.body(method, params.clone())).await;
            match reply.ok().filter(|r| r.message["result"].is_object() || r.message["error"].is_object()) {
                Some(reply) if reply.message["error"].is_object() => match reply.code() {
                    "polling_too_fast" | "host_stopping" => {}
                    "interrupted" if lost => {}
                    _ => return Err(format!("{method} {params}: {}", reply.message)),
                },
                Some(reply) => return Ok(reply),
                None if self.shared.tired() => return Err(format!("{method} {params}: no answer")),
                None => {}
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Calls, and sees to most tasks at once; those that are left.
    async fn work(mut self, name: u64) -> Result<(Self, Vec<Open>), String> {
        let mut left = Vec::new();
        for n in 0_u64.. {
            if self.shared.stop.load(Ordering::Relaxed) {
                break;
            }
            let job = Job::any(&mut self.dice);
            let key = self.dice.one_in(2).then(|| format!("{name}-{n}"));
            if matches!(job, Job::Ask { .. }) && self.dice.one_in(2) {
                self.round_trips(key.as_deref(), &job).await?;
                continue;
            }
            let reply = self.send(key.as_deref(), "tools/call", job.call()).await?;
            if reply.result()["resultType"] != "task" {
                job.check(reply.result())?;
                self.shared.inline.fetch_add(1, Ordering::Relaxed);
                self.shared.kept.fetch_add(usize::from(key.is_some()), Ordering::Relaxed);
                continue;
            }
            self.shared.tasks.fetch_add(1, Ordering::Relaxed);
            let mut open = Open { id: reply.task().to_owned(), job, cancelled: false };
            if self.dice.one_in(12) {
                open.cancelled = true;
                self.send(None, "tasks/cancel", json!({ "taskId": open.id })).await?;
                self.shared.cancelled.fetch_add(1, Ordering::Relaxed);
            }
            if self.dice.one_in(2) {
                left.push(open);
            } else {
                self.see_to(&open).await?;
            }
        }
        Ok((self, left))
    }

    /// Calls as a client without tasks: each question brings it back with an answer.
    async fn round_trips(&mut self, key: Option<&str>, job: &Job) -> Result<(), String> {
        let mut params = job.call();
        loop {
            let reply =
                self.send_as(&json!({ "elicitation": {} }), key, "tools/call", params.clone()).await?;
            let result = reply.result();
            if result["resultType"] != "input_required" {
                self.shared.inline.fetch_add(1, Ordering::Relaxed);
                self.shared.kept.fetch_add(1, Ordering::Relaxed);
                return job.check(result);
            }
            sleep(Duration::from_millis(self.dice.within(0, 400))).await;
            params["requestState"] = result["requestState"].clone();
            let asked = result["inputRequests"].as_object().ok_or("no questions")?;
            let answers = asked.keys().map(|key| (key.clone(), response(round_of(key))));
            params["inputResponses"] = answers.collect::<serde_json::Map<_, _>>().into();
            self.shared.returned.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Answers what a task asks, until it has ended.
    async fn see_to(&mut self, open: &Open) -> Result<(), String> {
        loop {
            let task = self.send(None, "tasks/get", json!({ "taskId": open.id })).await?.result().clone();
            if is_ended(&task["status"]) {
                return match task["status"].as_str() {
                    Some("completed") => open.job.check(&task["result"]),
                    Some("cancelled") if open.cancelled => Ok(()),
                    _ => Err(format!("{:?} ended {task}", open.job)),
                };
            }
            if let Some(asked) = task["inputRequests"].as_object().filter(|asked| !asked.is_empty()) {
                sleep(Duration::from_millis(self.dice.within(0, 400))).await;
                let answers: Value = asked
                    .keys()
                    .map(|key| (key.clone(), response(round_of(key))))
                    .collect::<serde_json::Map<_, _>>()
                    .into();
                self.send(None, "tasks/update", json!({ "taskId": open.id, "inputResponses": answers }))
                    .await?;
                self.shared.answered.fetch_add(1, Ordering::Relaxed);
            }
            if self.shared.tired() {
                return Err(format!("{:?} does not end: {task}", open.job));
            }
            sleep(Duration::from_millis(self.dice.within(80, 250))).await;
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|e| panic!("{variable}={text}: {e}")))
}

/// Kills a host after a random while, or sometimes tells it to stop, and starts it again, until the time is over; the
/// last one, and how many were killed. `moved` hears of each new one.
async fn kill_at_random(
    mut host: Host,
    setup: Arc<Setup>,
    moved: impl Fn(&Host),
    mut dice: Dice,
    end: Instant,
) -> (Host, u32) {
    let mut kills = 0;
    while Instant::now() < end {
        sleep(Duration::from_millis(dice.within(300, 2000))).await;
        assert_eq!(host.killed_by(), None, "it ended by itself; log:\n{}", host.log());
        if dice.one_in(5) {
            host.signal("TERM");
            assert_eq!(host.ended().await, Some(0), "SIGTERM; log:\n{}", host.log());
        } else {
            host.kill();
            kills += 1;
        }
        host = setup.mortal(&[]).await.expect("a host that nobody kills");
        moved(&host);
    }
    (host, kills)
}

/// The dice of a run, and how long it takes; both are told, so that it can be repeated.
fn settings(seconds: u64) -> (Dice, Duration) {
    let seconds = number("LAYBYTEST_CRASH_SECONDS").unwrap_or(seconds);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
    let seed = number("LAYBYTEST_CRASH_SEED").unwrap_or(now.as_secs());
    eprintln!("LAYBYTEST_CRASH_SEED={seed} LAYBYTEST_CRASH_SECONDS={seconds}");
    (Dice::new(seed), Duration::from_secs(seconds))
}

/// Clients that keep calling.
struct Load {
    shared: Arc<Shared>,
    callers: JoinSet<Result<(Caller, Vec<Open>), String>>,
}

impl Load {
    fn begin(url: &str, dice: &mut Dice) -> Self {
        let shared = Arc::new(Shared::default());
        shared.set_url(url);
        let mut callers = JoinSet::new();
        for name in 0..CLIENTS {
            let caller = Caller { shared: shared.clone(), dice: Dice::new(dice.roll()), client: None };
            callers.spawn(caller.work(name));
        }
        Self { shared, callers }
    }

    /// Sees to the end of everything, through `host`, and checks it.
    async fn finish(self, host: &Host, kills: u32) {
        let shared = self.shared;
        shared.stop.store(true, Ordering::Relaxed);
        *shared.calm.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let wrong = see_to_the_rest(self.callers).await;
        end_the_unseen(host).await;
        let rows = host.setup().database().counts().await;
        let count = |n: &AtomicUsize| n.load(Ordering::Relaxed);
        let (tasks, inline) = (count(&shared.tasks), count(&shared.inline));
        let all: usize = rows.iter().map(|row| usize::try_from(row.tasks).expect("a number of rows")).sum();
        let unseen = all.checked_sub(tasks + count(&shared.kept)).expect("a row for each task that was seen");
        eprintln!(
            "{kills} kills; {inline} calls ended inline, {tasks} became tasks, {unseen} more whose handle nobody has \
             seen; {} sets of answers, {} by retries, {} cancelled; rows: {rows:?}; wrong: {}",
            count(&shared.answered),
            count(&shared.returned),
            count(&shared.cancelled),
            wrong.len()
        );
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(rows.iter().all(|row| matches!(row.status.as_str(), "completed" | "cancelled")), "{rows:?}");
        assert!(tasks > 0 && kills > 0, "nothing was tried");
        assert!(rows.iter().any(|row| row.resumed > 0), "nothing was resumed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn kills_at_random_lose_no_task() {
    let (mut dice, time) = settings(60);
    let setup = Arc::new(Setup::new().plugin("probe", POLICY).config(CONFIG));
    let host = setup.mortal(&[]).await.expect("a host");
    let load = Load::begin(host.url(), &mut dice);
    let moved = |host: &Host| load.shared.set_url(host.url());
    let (host, kills) = kill_at_random(host, setup, moved, dice, Instant::now() + time).await;
    load.finish(&host, kills).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_killed_at_random_lose_no_task() {
    let (mut dice, time) = settings(30);
    let url = layby_tests::postgres::database().await;
    let setup = || Arc::new(Setup::new().plugin("probe", POLICY).config(CONFIG).store(&url));
    let setups: Vec<_> = std::iter::repeat_with(setup).take(3).collect();
    let mut hosts = Vec::new();
    for setup in &setups {
        hosts.push(setup.mortal(&[]).await.expect("a host"));
    }
    let balancer = Balancer::start(hosts.iter().map(|host| host.base().to_owned())).await;
    let load = Load::begin(&balancer.url(), &mut dice);
    let end = Instant::now() + time;
    let killers = hosts.into_iter().zip(setups).enumerate().map(|(place, (host, setup))| {
        let balancer = &balancer;
        let moved = move |host: &Host| balancer.set(place, Some(host.base().to_owned()));
        kill_at_random(host, setup, moved, Dice::new(dice.roll()), end)
    });
    let ended: Vec<_> = futures::future::join_all(killers.collect::<Vec<_>>()).await;
    let kills = ended.iter().map(|(_, kills)| kills).sum();
    load.finish(&ended[0].0, kills).await;
}

/// Waits for the clients, and for all the tasks that they have left; what went wrong.
async fn see_to_the_rest(mut callers: JoinSet<Result<(Caller, Vec<Open>), String>>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut rest = JoinSet::new();
    while let Some(done) = callers.join_next().await {
        match done.expect("a client does not panic") {
            Ok((mut caller, left)) => drop(rest.spawn(async move {
                let mut wrong = Vec::new();
                for open in left {
                    wrong.extend(caller.see_to(&open).await.err());
                }
                wrong
            })),
            Err(why) => wrong.push(why),
        }
    }
    wrong.extend(rest.join_all().await.into_iter().flatten());
    wrong
}

/// Tasks whose handle was lost with the connection go on as well: waits for their end, and cancels what asks.
async fn end_the_unseen(host: &Host) {
    let client = host.client();
    // All that clients know has ended by now.
    for id in host.setup().database().live().await {
        if client.get(&id).await.message["error"]["data"]["code"] == "task_unknown" {
            // The lost answer was a state: only the operator can.
            host.command(&["tasks", "cancel", &id]).await;
            continue;
        }
        let over = |task: &Value| task["status"] == "input_required" || is_ended(&task["status"]);
        if client.until(&id, "the end of a task that nobody has seen", over).await["status"]
            == "input_required"
        {
            client.cancel(&id).await.result();
        }
        client.ended(&id).await;
    }
    layby_tests::eventually("the end of all", || async {
        host.setup().database().live().await.is_empty().then_some(())
    })
    .await;
}
