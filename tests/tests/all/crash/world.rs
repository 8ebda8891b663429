//! A host that is killed once where a failpoint says, and a client that goes on with whatever it has seen.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use layby_tests::{Client, Host, Reply, Setup, client::everything, wait::BOUND};
use serde_json::{Value, json};

/// The host's variable that says what its failpoints do.
pub const FAILPOINTS: &str = "LAYBY_FAILPOINTS";
/// The leases of dead processes are over soon, and those of busy ones are not; SIGTERM waits for no work.
const CONFIG: &str = "[store]\nlease = \"1s\"\ntakeover = \"500ms\"\n[serve]\ndrain = \"300ms\"";

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    Sqlite,
    Postgres,
}

/// One failpoint that kills one process.
#[derive(Clone, Debug)]
pub struct Arm {
    /// For [`FAILPOINTS`].
    pub points: String,
    /// Which process has it: the first one is 1.
    pub process: u32,
}

/// What a scenario came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Ends {
    /// Each handle that the client has seen, in this order: its status, and its result or its error's code; then each
    /// outcome that it got without a handle.
    pub tasks: Vec<Value>,
    /// Rows in the database.
    pub rows: usize,
    /// How often each seen task was resumed.
    pub resumed: Vec<u64>,
    /// Calls that were sent again because their answer was lost.
    pub repeated: usize,
    /// What the hosts logged.
    pub log: String,
}

/// Processes on one data folder, and the client's knowledge.
pub struct World {
    setup: Arc<Setup>,
    host: Option<Host>,
    /// Earlier processes that still run, or whose log is wanted.
    others: Vec<Host>,
    arm: Option<Arm>,
    started: u32,
    died: bool,
    handles: Vec<String>,
    /// Handles that are not seen to resolve since the last process was started.
    unchecked: Vec<String>,
    /// Its client knows no tasks.
    plain: bool,
    outcomes: Vec<Value>,
    repeated: usize,
}

impl World {
    /// A first process that serves `probe` with this policy, on a database of its own.
    pub async fn begin(policy: &str, store: Store, arm: Option<Arm>) -> Self {
        let setup = match store {
            Store::Sqlite => Setup::new(),
            Store::Postgres => Setup::new().store(&layby_tests::postgres::database().await),
        };
        let clock = setup.root().join("clock").display().to_string();
        let grant = setup.grant(true);
        let policy = if policy.contains("[grants]") {
            policy.to_owned()
        } else {
            format!("{policy}\n[grants]\nask = [\"form\"]")
        };
        let policy = policy.replace("FILES", &grant);
        let setup = setup.plugin("probe", &policy).config(CONFIG).env("LAYBYTEST_CLOCK", &clock);
        let mut world = Self {
            setup: Arc::new(setup),
            host: None,
            others: Vec::new(),
            arm,
            started: 0,
            died: false,
            handles: Vec::new(),
            unchecked: Vec::new(),
            plain: false,
            outcomes: Vec::new(),
            repeated: 0,
        };
        world.next().await;
        world
    }

    /// Starts the next process; where it is killed at once, the one after it.
    async fn next(&mut self) {
        self.others.extend(self.host.take());
        while self.host.is_none() {
            self.started += 1;
            let arm = self.arm.as_ref().filter(|arm| arm.process == self.started);
            let env: Vec<(&str, &str)> =
                arm.map(|arm| (FAILPOINTS, arm.points.as_str())).into_iter().collect();
            self.host = self.setup.mortal(&env).await;
            if self.host.is_none() {
                assert!(!env.is_empty(), "a process was killed by nobody");
                self.died = true;
            }
        }
        self.unchecked = self.handles.clone();
    }

    fn host(&mut self) -> &mut Host {
        self.host.as_mut().expect("there is always one")
    }

    fn client(&mut self, key: Option<&str>) -> Client {
        let declared = if self.plain { json!({ "elicitation": {} }) } else { everything() };
        let client = Client::new(self.host().url(), declared);
        match key {
            Some(key) => client.meta("layby/idempotency-key", json!(key)),
            None => client,
        }
    }

    /// The present process does not answer: it must have been killed by its failpoint. Starts another one.
    async fn risen(&mut self) {
        let begin = Instant::now();
        let signal = loop {
            match self.host().killed_by() {
                Some(signal) => break signal,
                None => assert!(begin.elapsed() < BOUND, "it does not answer, and lives"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(signal, 9, "it ended by itself");
        self.fell();
        self.next().await;
    }

    /// The present process is dead by its failpoint.
    fn fell(&mut self) {
        let armed = self.arm.as_ref().is_some_and(|arm| arm.process == self.started);
        assert!(armed && !self.died, "process {} was killed by nobody", self.started);
        self.died = true;
    }

    /// Sends until there is an answer. Every handle seen so far resolves in each new process. A host that gives up its runs
    /// (a lease of a second may run out on a busy machine) is asked again.
    async fn send(&mut self, key: Option<&str>, method: &str, params: Value) -> Reply {
        let begin = Instant::now();
        loop {
            let client = self.client(key);
            let check = self.unchecked.last().cloned();
            let body = match &check {
                Some(id) => client.body("tasks/get", json!({ "taskId": id })),
                None => client.body(method, params.clone()),
            };
            let reply = client.try_send(&body).await;
            match reply.ok().filter(|r| r.message["result"].is_object() || r.message["error"].is_object()) {
                Some(reply) if check.is_some() => {
                    assert_eq!(
                        reply.result()["taskId"],
                        check.as_deref().unwrap_or_default(),
                        "a handle is lost"
                    );
                    self.unchecked.pop();
                }
                Some(reply) if key.is_some() && reply.message["error"]["data"]["code"] == "host_stopping" => {
                    assert!(begin.elapsed() < BOUND, "it gives up its runs for ever: {}", reply.message);
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                Some(reply) => return reply,
                None => {
                    self.repeated += usize::from(check.is_none() && method == "tools/call");
                    self.risen().await;
                }
            }
        }
    }

    async fn calls(&mut self, key: Option<&str>, tool: &str, arguments: Value) -> Reply {
        self.send(key, "tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    fn saw(&mut self, reply: &Reply) -> String {
        let id = reply.task().to_owned();
        if !self.handles.contains(&id) {
            self.handles.push(id.clone());
        }
        id
    }

    /// Calls a tool that becomes a task; its handle.
    pub async fn task(&mut self, tool: &str, arguments: Value) -> String {
        let reply = self.calls(None, tool, arguments).await;
        self.saw(&reply)
    }

    /// The same with an idempotency key.
    pub async fn keyed(&mut self, key: &str, tool: &str, arguments: Value) -> String {
        let reply = self.calls(Some(key), tool, arguments).await;
        self.saw(&reply)
    }

    /// Repeats a keyed call whose run has ended: its result.
    pub async fn outcome(&mut self, key: &str, tool: &str, arguments: Value) -> Value {
        self.calls(Some(key), tool, arguments).await.result().clone()
    }

    /// From now on the client knows no tasks: it is asked by multi round-trip requests.
    pub fn without_tasks(&mut self) {
        self.plain = true;
    }

    /// Calls a tool that asks before it ends; the key of its one question, and the state.
    pub async fn asked(&mut self, key: Option<&str>, tool: &str, arguments: &Value) -> (String, String) {
        let reply = self.calls(key, tool, arguments.clone()).await;
        question(&reply)
    }

    /// Repeats a call with an answer; the next question and state, or none where the outcome came.
    pub async fn retry(
        &mut self,
        key: Option<&str>,
        tool: &str,
        arguments: &Value,
        (question, state): (&str, &str),
        response: Value,
    ) -> Option<(String, String)> {
        let params = json!({
            "name": tool, "arguments": arguments, "requestState": state, "inputResponses": { question: response },
        });
        let reply = self.send(key, "tools/call", params).await;
        if reply.result()["resultType"] == "input_required" {
            return Some(self::question(&reply));
        }
        let result = reply.result();
        self.outcomes.push(json!({ "status": "completed", "content": result["content"], "code": null }));
        None
    }

    /// Polls until `is` holds; the task.
    pub async fn until(&mut self, id: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            // Below the rate that is refused.
            tokio::time::sleep(Duration::from_millis(80)).await;
            let reply = self.send(None, "tasks/get", json!({ "taskId": id })).await;
            if is(reply.result()) {
                return reply.result().clone();
            }
            assert!(begin.elapsed() < BOUND, "waited for {what}; last seen: {}", reply.message);
        }
    }

    /// Waits for the end; the task.
    pub async fn ended(&mut self, id: &str) -> Value {
        self.until(id, "the end", |task| is_ended(&task["status"])).await
    }

    /// Waits until the task asks, or has ended; the key of its one question.
    pub async fn asks(&mut self, id: &str) -> String {
        let task =
            self.until(id, "a question", |t| t["status"] == "input_required" || is_ended(&t["status"])).await;
        let asked = task["inputRequests"].as_object().unwrap_or_else(|| panic!("no question: {task}"));
        assert_eq!(asked.len(), 1, "{task}");
        asked.keys().next().expect("a question").clone()
    }

    /// Answers a question.
    pub async fn answer(&mut self, id: &str, key: &str, response: Value) {
        let answers = json!({ "taskId": id, "inputResponses": { key: response } });
        self.send(None, "tasks/update", answers).await.result();
    }

    /// Asks for cancellation.
    pub async fn cancel(&mut self, id: &str) {
        self.send(None, "tasks/cancel", json!({ "taskId": id })).await.result();
    }

    /// Waits until the task has no instance, whoever dies meanwhile.
    pub async fn parked(&mut self, id: &str) {
        self.free(Some(id)).await;
    }

    /// Waits until no run has an instance, whoever dies meanwhile.
    pub async fn all_parked(&mut self) {
        self.free(None).await;
    }

    async fn free(&mut self, id: Option<&str>) {
        let begin = Instant::now();
        loop {
            if self.host().killed_by().is_some() {
                self.risen().await;
            }
            let database = self.setup.database();
            let runs = match id {
                Some(id) => vec![id.to_owned()],
                None => database.live().await,
            };
            let mut free = true;
            for run in runs {
                free &= database.is_nobodys(&run).await;
            }
            if free {
                return;
            }
            assert!(begin.elapsed() < BOUND, "waited for {id:?} to be parked");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// `kill -9` of the present process by the scenario, and another one.
    pub async fn kill(&mut self) {
        if self.host().killed_by().is_some() {
            self.fell();
        } else {
            self.host().kill();
        }
        self.next().await;
    }

    /// SIGTERM to the present process, its end, and another one.
    pub async fn terminate(&mut self) {
        self.host().signal("TERM");
        let code = self.host().ended().await;
        if code.is_none() {
            assert_eq!(self.host().killed_by(), Some(9));
            self.fell();
        } else {
            assert_eq!(code, Some(0));
        }
        self.next().await;
    }

    /// Another process beside the present one; clients go to the new one.
    pub async fn beside(&mut self) {
        self.next().await;
    }

    /// `kill -9` of the process before the present one.
    pub fn kill_other(&mut self) {
        self.others.last_mut().expect("there is another process").kill();
    }

    /// Moves the hosts' clock, and on PostgreSQL, whose server's clock counts, the tasks' times.
    pub async fn ahead(&self, ms: u64) {
        std::fs::write(self.setup.root().join("clock"), ms.to_string()).expect("a file can be written");
        if let Some(url) = self.setup.url() {
            layby_tests::postgres::age(url, ms).await;
        }
    }

    /// The folder that is granted where the policy has `FILES`.
    pub fn files(&self) -> PathBuf {
        self.setup.files()
    }

    /// What has become of everything; fails where the failpoint was not reached.
    pub async fn finish(mut self) -> Ends {
        let mut tasks = Vec::new();
        for id in self.handles.clone() {
            let task = self.ended(&id).await;
            let code = &task["error"]["data"]["code"];
            tasks.push(
                json!({ "status": task["status"], "content": task["result"]["content"], "code": code }),
            );
        }
        tasks.append(&mut self.outcomes);
        assert!(self.arm.is_none() || self.died, "the failpoint was not reached; it did {tasks:?}");
        let rows = self.host().tasks().await;
        let resumed = |id: &String| {
            let row = rows.iter().find(|row| row["taskId"] == **id);
            row.and_then(|row| row["resumed"].as_u64()).expect("a row for each handle")
        };
        let resumed = self.handles.iter().map(resumed).collect();
        let logs = std::fs::read_dir(self.setup.root()).expect("the folder can be listed").flatten();
        let logs = logs.filter(|entry| entry.file_name().to_string_lossy().starts_with("log-"));
        let log = logs.filter_map(|entry| std::fs::read_to_string(entry.path()).ok()).collect();
        Ends { tasks, rows: rows.len(), resumed, repeated: self.repeated, log }
    }
}

/// The one question of an `InputRequiredResult`, and its state.
fn question(reply: &Reply) -> (String, String) {
    let result = reply.result();
    assert_eq!(result["resultType"], "input_required", "{result}");
    let asked = result["inputRequests"].as_object().expect("questions");
    assert_eq!(asked.len(), 1, "{result}");
    let key = asked.keys().next().expect("a question").clone();
    (key, result["requestState"].as_str().expect("a state").to_owned())
}

/// True for a status that is final.
pub fn is_ended(status: &Value) -> bool {
    matches!(status.as_str(), Some("completed" | "failed" | "cancelled"))
}

/// An accepted form.
pub fn accepted(value: &str) -> Value {
    json!({ "action": "accept", "content": { "value": value } })
}
