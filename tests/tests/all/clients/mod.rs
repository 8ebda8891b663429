//! Real clients from their registries, against the real binary. Each is a program in `tests/clients` that takes a
//! plan of steps and prints what it sees; here are the plans, and what must come of each step.

use std::{fs, path::PathBuf, process::Stdio, time::Duration};

use layby_tests::{Host, Setup, command::Done, guests, text};
use serde_json::{Value, json};

mod inspector;
mod npm;
mod older;
mod python;
mod rust;
mod stdio;
mod tasks;

/// What to do where a client is missing.
const ADVICE: &str = "run `cargo xtask test`, which installs all clients";

/// A program of `tests/clients`.
#[derive(Clone, Copy)]
enum Program {
    /// One for Node.
    Npm(&'static str),
    /// The environment in `target/tools`, and a file of `tests/clients/python`.
    Python(&'static str, &'static str),
}

/// `tests/clients`.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("clients")
}

/// Node, for a program in `tests/clients`.
fn node(program: &str) -> tokio::process::Command {
    let file = folder().join(program);
    let package = file.parent().expect("a file is in a folder");
    let home = if program.contains("inspector/") { folder().join("inspector") } else { package.to_owned() };
    assert!(home.join("node_modules").exists(), "the packages of {program} are not installed: {ADVICE}");
    let mut command =
        tokio::process::Command::new(std::env::var_os("LAYBY_TESTS_NODE").unwrap_or_else(|| "node".into()));
    command.arg(file);
    command
}

impl Program {
    fn command(self) -> tokio::process::Command {
        match self {
            Self::Npm(program) => node(program),
            Self::Python(environment, program) => {
                let python = guests::target().join("tools").join(environment).join("bin/python");
                assert!(python.exists(), "the packages of {program} are not installed: {ADVICE}");
                let mut command = tokio::process::Command::new(python);
                command.arg(folder().join("python").join(program));
                // Its compiled files would be left in the sources.
                command.env("PYTHONDONTWRITEBYTECODE", "1");
                command
            }
        }
    }

    /// Runs the plan; the events that it printed.
    async fn drive(self, target: &str, plan: &Value) -> Vec<Value> {
        let mut command = self.command();
        command.args([target, &plan.to_string()]);
        let done = finish(command).await;
        assert_eq!(done.code, Some(0), "{done:?}");
        let lines = done.out.lines().filter(|line| line.starts_with('{'));
        lines.map(|line| serde_json::from_str(line).expect("an event is JSON")).collect()
    }

    /// Runs a table, and compares the outcome of each step; all events.
    async fn check(self, target: &str, mut plan: Value, table: Vec<Row>) -> Vec<Value> {
        plan["steps"] = table.iter().map(|row| row.step.clone()).collect();
        let events = self.drive(target, &plan).await;
        for (index, row) in table.iter().enumerate() {
            let outcome = events
                .iter()
                .find(|e| e["event"] == "outcome" && e["step"] == index)
                .unwrap_or_else(|| panic!("no outcome of {} in {events:#?}", row.step));
            row.expect.compare(outcome).unwrap_or_else(|why| {
                panic!("{}: {why}: {outcome:#}\nall of it: {events:#?}", row.step);
            });
        }
        events
    }
}

/// Runs a client to its end.
async fn finish(mut command: tokio::process::Command) -> Done {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(90), command.output()).await;
    output
        .expect("the client ends")
        .unwrap_or_else(|e| panic!("cannot start {command:?} ({e}): {ADVICE}"))
        .into()
}

/// A step of a plan, and what must come of it.
struct Row {
    step: Value,
    expect: Expect,
}

fn row(step: Value, expect: Expect) -> Row {
    Row { step, expect }
}

/// What an outcome must be.
enum Expect {
    /// A result whose first text begins so.
    Text(&'static str),
    /// The same, with `isError`.
    Error(&'static str),
    /// A JSON-RPC error with this code.
    Failed(i64),
    /// It was cancelled.
    Cancelled,
    /// A result with this value at a JSON pointer.
    At(&'static str, Value),
    /// A result.
    Done,
}

impl Expect {
    fn compare(&self, outcome: &Value) -> Result<(), String> {
        let (result, status) = (&outcome["result"], &outcome["status"]);
        let is_error = result["isError"] == true;
        let met = match self {
            Self::Text(wanted) => status == "completed" && !is_error && text(result).starts_with(wanted),
            Self::Error(wanted) => status == "completed" && is_error && text(result).starts_with(wanted),
            Self::Failed(code) => status == "failed" && outcome["error"]["code"] == *code,
            Self::Cancelled => status == "cancelled",
            Self::At(pointer, wanted) => status == "completed" && result.pointer(pointer) == Some(wanted),
            Self::Done => status == "completed",
        };
        let wanted = || match self {
            Self::Text(text) => format!("the text {text:?}"),
            Self::Error(text) => format!("isError and the text {text:?}"),
            Self::Failed(code) => format!("the error {code}"),
            Self::Cancelled => "cancelled".to_owned(),
            Self::At(pointer, value) => format!("{value} at {pointer}"),
            Self::Done => "completed".to_owned(),
        };
        if met { Ok(()) } else { Err(format!("it should be {}", wanted())) }
    }
}

/// Calls that end alike with every client: answered at once, failed, and told of on the way.
fn plain() -> Vec<Row> {
    vec![
        row(json!({ "list": "tools" }), Expect::At("/tools/0/name", json!("confirm_delete"))),
        row(json!({ "call": "greet", "arguments": { "name": "Ada" } }), Expect::Text("Hello, Ada!")),
        row(
            json!({ "call": "test_error_handling" }),
            Expect::Error("This tool intentionally returns an error"),
        ),
        row(json!({ "call": "test_tool_with_progress" }), Expect::Text("Reported progress")),
        row(json!({ "call": "no_such_tool" }), Expect::Failed(-32602)),
    ]
}

/// A call that outlives the deadline: a task where the client has tasks, else held with its connection open.
fn long() -> Row {
    row(
        json!({ "call": "slow_compute", "arguments": { "seconds": 1.5, "label": "x" } }),
        Expect::Text("Computed x"),
    )
}

/// A call that asks, with an answer of [`answers`].
fn asked(file: &str, expect: Expect) -> Row {
    row(json!({ "call": "confirm_delete", "arguments": { "filename": file } }), expect)
}

/// The events of a kind.
fn all<'e>(events: &'e [Value], kind: &str) -> Vec<&'e Value> {
    events.iter().filter(|e| e["event"] == kind).collect()
}

/// The first event of a kind.
fn event<'e>(events: &'e [Value], kind: &str) -> &'e Value {
    all(events, kind).first().copied().unwrap_or_else(|| panic!("no {kind} in {events:#?}"))
}

/// The fixtures that the conformance suite calls.
fn setup() -> Setup {
    let policy = fs::read_to_string(folder().join("../../plugins/rust/conformance/conformance.toml"));
    Setup::new().plugin("conformance", &policy.expect("the fixtures have a policy"))
}

/// A host with these.
async fn fixtures() -> Host {
    setup().start().await
}

/// The same as a program to start: its command line, as a target.
fn stdio(setup: &Setup) -> String {
    // Makes the configuration, and a folder of compiled code.
    drop(setup.command());
    let config = setup.root().join("layby.toml");
    let (layby, plugins, data) = (guests::layby(), setup.plugins(), setup.data());
    json!([layby, "stdio", "--config", config, "--plugins", plugins, "--data", data]).to_string()
}

/// What a plugin offers beside tools: lists, prompts, resources, templates, completion.
fn offers() -> Vec<Row> {
    let complete = json!({
        "complete": { "type": "ref/prompt", "name": "test_prompt_with_arguments" },
        "argument": { "name": "arg1", "value": "par" },
    });
    let prompt =
        json!({ "prompt": "test_prompt_with_arguments", "arguments": { "arg1": "one", "arg2": "two" } });
    vec![
        row(
            json!({ "list": "prompts" }),
            Expect::At("/prompts/0/name", json!("test_input_required_result_prompt")),
        ),
        row(json!({ "list": "resources" }), Expect::At("/resources/0/uri", json!("test://static-binary"))),
        row(
            json!({ "list": "templates" }),
            Expect::At("/resourceTemplates/0/uriTemplate", json!("test://template/{id}/data")),
        ),
        row(
            prompt,
            Expect::At("/messages/0/content/text", json!("Prompt with arguments: arg1='one', arg2='two'")),
        ),
        row(
            json!({ "read": "test://static-text" }),
            Expect::At("/contents/0/text", json!("This is the content of the static text resource.")),
        ),
        row(
            json!({ "read": "test://template/7/data" }),
            Expect::At("/contents/0/mimeType", json!("application/json")),
        ),
        row(complete, Expect::At("/completion/values", json!(["paris", "park", "party"]))),
        row(json!({ "prompt": "no_such_prompt" }), Expect::Failed(-32602)),
    ]
}

/// Each kind of change, told to a client that listens.
fn changes() -> Vec<Row> {
    let mut table = vec![row(json!({ "listen": ["tools", "prompts"] }), Expect::Done)];
    for (tool, what) in [("test_trigger_tool_change", "tools"), ("test_trigger_prompt_change", "prompts")] {
        table.push(row(json!({ "call": tool }), Expect::Text("Said that")));
        table.push(row(json!({ "expect": format!("notifications/{what}/list_changed") }), Expect::Done));
    }
    table
}
