//! `layby call`: one tool, from the terminal.

use std::{
    collections::BTreeSet,
    io::IsTerminal,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Value, json};
use tokio::time::Instant;

mod client;
mod drive;
mod given;
mod interrupts;
mod private;
mod progress;

use client::{Client, Trouble, endpoint};
use drive::{Call, Driver, Ended, unanswered};
use interrupts::Interrupts;
use private::Private;
use progress::Display;

use super::{
    exit::{Exit, Failure},
    out::{Out, note},
    show,
};
use crate::{
    base::{Millis, neutral_line},
    config::Config,
};

/// Options of `layby call`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the tool
    tool: String,
    /// Its arguments, a JSON object; - reads it from standard input [default: {}]
    arguments: Option<String>,
    /// Server to call, such as http://127.0.0.1:7331/mcp; without it the tool runs in this process, on a private store
    #[arg(long, value_name = "URL", conflicts_with_all = ["plugins", "data"])]
    url: Option<String>,
    /// Bearer token for the server; better in the variable, which no list of processes shows
    #[arg(long, value_name = "TOKEN", env = "LAYBY_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Folder of plugins for a private run [default: plugins]
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
    /// Data folder whose compiled code a private run uses; its tasks are left alone [default: data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Answers to questions: a JSON object with, for each key, the form's content, "accept", "decline" or "dismiss"; - reads it from standard input
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
    /// How long to wait; a task then goes on without this command
    #[arg(long, value_name = "SPAN")]
    timeout: Option<Millis>,
    /// A key that makes the call run once, however often it is repeated
    #[arg(long, value_name = "KEY", requires = "url")]
    idempotency_key: Option<String>,
}

/// Calls the tool and prints how it ended.
///
/// # Errors
/// See [`Exit`].
pub(crate) fn run(
    args: Args,
    load: impl FnOnce() -> Result<Config, Failure>,
    out: Out,
) -> Result<Exit, Failure> {
    if args.arguments.as_deref() == Some("-") && args.answers.as_deref() == Some(Path::new("-")) {
        let text =
            "arguments and answers cannot both be read from standard input: put one of them into a file";
        return Err(Failure::usage("arguments_invalid", text));
    }
    let arguments = given::arguments(args.arguments.as_deref())?;
    let answers = args.answers.as_deref().map(given::answers).transpose()?.unwrap_or_default();
    let url = args.url.as_deref().map(endpoint).transpose()?;
    let config = match url {
        Some(_) => None,
        None => Some(private::config(load()?, args.plugins.as_deref(), args.data.as_deref())?),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let mut interrupts = Interrupts::new()?;
        let display = Arc::new(Display::new());
        let private = match config {
            Some(config) => Some(Private::start(config, &display, &mut interrupts).await?),
            None => None,
        };
        // A private run has nobody to tell it to.
        let token = args.token.filter(|_| private.is_none());
        let url = url.or_else(|| private.as_ref().map(|p| p.url().to_owned())).unwrap_or_default();
        let deadline = args.timeout.map(|span| Instant::now() + span.duration());
        let call = Call {
            who: String::new(),
            tool: args.tool,
            arguments,
            key: args.idempotency_key,
            deadline,
            answers,
        };
        let mut unused = call.answers.keys().cloned().collect();
        let ended =
            drive((&url, token), call, &display, &mut interrupts, private.is_some(), &mut unused).await;
        display.clear();
        if let Some(private) = private {
            private.stop().await;
        }
        ended.map(|ended| (ended, unused))
    });
    // A prompt may still sit on its thread: it must not hold the process.
    runtime.shutdown_background();
    let (ended, unused) = ended?;
    if !unused.is_empty() && matches!(ended, Ended::Result { .. }) {
        let keys: Vec<String> = unused.iter().map(|key| format!("{:?}", neutral_line(key))).collect();
        note(&format!("Nothing asked for these of --answers: {}", keys.join(", ")));
    }
    finish(ended, args.url.as_deref(), &unused, out)
}

async fn drive(
    (url, token): (&str, Option<String>),
    mut call: Call,
    display: &Arc<Display>,
    interrupts: &mut Interrupts,
    private: bool,
    unused: &mut BTreeSet<String>,
) -> Result<Ended, Failure> {
    let connected = tokio::select! {
        connected = Client::connect(url, token, display.clone()) => connected,
        () = interrupts.next() => return Ok(Ended::Cancelled { task: None, by_us: true }),
    };
    let mut client = connected?;
    call.who = who(&client, &call.tool).await?;
    let left = std::mem::take(unused);
    let mut driver = Driver {
        client: &mut client,
        display,
        interrupts,
        call,
        durable: !private,
        cancelling: false,
        unused: left,
    };
    let ended = driver.run().await;
    *unused = driver.unused;
    if let (true, Ok(Ended::Unfinished { task, .. })) = (private, &ended) {
        // Its store ends with this process, so the task is stopped in order; it may have ended already.
        let _ = client.cancel(task).await;
    }
    client.close().await;
    ended
}

/// Who asks this tool's questions; refuses a tool that is not listed.
async fn who(client: &Client, tool: &str) -> Result<String, Failure> {
    let tools = match client.tools().await {
        Ok(tools) => tools,
        Err(Trouble::Answer(error)) => return Err(Failure::refused("tools_refused", show::error(&error))),
        Err(Trouble::Away(why) | Trouble::Odd(why)) => {
            return Err(Failure::unreachable(
                "server_unreachable",
                format!("the server lists no tools: {why}"),
            ));
        }
    };
    let Some(listed) = tools.iter().find(|t| t.name == tool) else {
        return Err(unknown_tool(tool, tools.iter().map(|t| t.name.as_ref())));
    };
    let plugin = listed.meta.as_ref().and_then(|m| m.get("layby/plugin")).and_then(Value::as_str);
    Ok(match plugin {
        Some(plugin) => format!("The plugin \"{plugin}\" (tool \"{tool}\")"),
        None => format!("The plugin of the tool \"{tool}\""),
    })
}

fn unknown_tool<'a>(tool: &str, served: impl Iterator<Item = &'a str>) -> Failure {
    let served: Vec<&str> = served.collect();
    let near = served.iter().map(|name| (strsim::jaro_winkler(tool, name), *name));
    let nearest = near.filter(|(score, _)| *score > 0.75).max_by(|a, b| a.0.total_cmp(&b.0));
    let advice = match nearest {
        Some((_, name)) => format!("Did you mean {name:?}?"),
        None if served.is_empty() => {
            "No tool is served: `layby plugins` shows what was refused, and why.".into()
        }
        None => format!("Served are: {}", served.join(", ")),
    };
    Failure::refused("tool_unknown", format!("there is no tool {tool:?}. {advice}"))
}

/// Prints the end and chooses the exit code. `url` as the person gave it; none for a private run.
fn finish(ended: Ended, url: Option<&str>, unused: &BTreeSet<String>, out: Out) -> Result<Exit, Failure> {
    let (exit, value) = summary(&ended, url.is_some(), unused);
    if out.json {
        out.json(&value)?;
        return Ok(exit);
    }
    match ended {
        Ended::Result { result, .. } => {
            out.text(&show::result(&result, !std::io::stdout().is_terminal()))?;
            if exit == Exit::Failed {
                note(&console::style("The tool reports an error.").for_stderr().red().to_string());
            }
        }
        Ended::Error { error, .. } => {
            note(&format!("{} {}", console::style("error:").for_stderr().red().bold(), show::error(&error)));
        }
        Ended::Cancelled { by_us: true, .. } => note("Cancelled."),
        Ended::Cancelled { .. } => note("The task was cancelled by somebody else."),
        Ended::Unfinished { task, questions, .. } => note(&unfinished(&task, &questions, url, unused)),
    }
    Ok(exit)
}

fn unfinished(
    task: &str,
    questions: &rmcp::model::InputRequests,
    url: Option<&str>,
    unused: &BTreeSet<String>,
) -> String {
    let task = neutral_line(task);
    if questions.is_empty() {
        return match url {
            Some(_) => format!("--timeout passed; task {task} goes on."),
            None => "--timeout passed; the private run was stopped.".into(),
        };
    }
    let open = unanswered(questions, unused);
    match url {
        Some(_) => format!(
            "error: {open}standard input is not a terminal. Task {task} goes on waiting: answer with `layby tasks answer {task}` \
             on the server's data folder, or call again with --answers FILE (answer_needed)"
        ),
        None => format!(
            "error: {open}standard input is not a terminal, and a private run ends with this command: give the answers \
             with --answers FILE, or call a running server with --url and use `layby tasks answer` (answer_needed)"
        ),
    }
}

/// The exit code, and what `--json` prints.
fn summary(ended: &Ended, durable: bool, unused: &BTreeSet<String>) -> (Exit, Value) {
    let (exit, mut value, task) = match ended {
        Ended::Result { task, result } => {
            let failed = result.get("isError").and_then(Value::as_bool) == Some(true);
            let exit = if failed { Exit::Failed } else { Exit::Ok };
            (exit, json!({"status": "completed", "result": result}), task.as_ref())
        }
        Ended::Error { task, error } => {
            let code = error.get("code").and_then(Value::as_i64);
            let refused = task.is_none() && matches!(code, Some(-32602 | -32601 | -32022..=-32020));
            let exit = if refused { Exit::Refused } else { Exit::Failed };
            (exit, json!({"status": "failed", "error": error}), task.as_ref())
        }
        Ended::Cancelled { task, by_us } => {
            let exit = if *by_us { Exit::Interrupted } else { Exit::Failed };
            (exit, json!({"status": "cancelled"}), task.as_ref())
        }
        Ended::Unfinished { task, status, questions } => {
            let exit = if durable { Exit::Unfinished } else { Exit::Failed };
            let mut value = json!({"status": status});
            if !questions.is_empty() {
                value["inputRequests"] = json!(questions);
                let open = unanswered(questions, unused);
                let message = format!("{open}standard input is not a terminal");
                value["error"] = json!({"code": "answer_needed", "message": message});
            }
            (exit, value, Some(task))
        }
    };
    if let Some(task) = task {
        value["taskId"] = json!(task);
    }
    if !unused.is_empty() {
        value["unusedAnswers"] = json!(unused);
    }
    (exit, value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_end_has_its_exit_code() {
        let exit = |ended| summary(&ended, true, &BTreeSet::new()).0;
        assert_eq!(exit(Ended::Result { task: None, result: json!({"content": []}) }), Exit::Ok);
        assert_eq!(exit(Ended::Result { task: None, result: json!({"isError": true}) }), Exit::Failed);
        assert_eq!(exit(Ended::Error { task: None, error: json!({"code": -32602}) }), Exit::Refused);
        assert_eq!(exit(Ended::Error { task: None, error: json!({"code": -32603}) }), Exit::Failed);
        assert_eq!(
            exit(Ended::Error { task: Some("t".into()), error: json!({"code": -32602}) }),
            Exit::Failed
        );
        assert_eq!(exit(Ended::Cancelled { task: None, by_us: true }), Exit::Interrupted);
        assert_eq!(exit(Ended::Cancelled { task: None, by_us: false }), Exit::Failed);
        let status = rmcp::model::TaskStatus::Working;
        let unfinished = Ended::Unfinished { task: "t".into(), status, questions: BTreeMap::new() };
        let (code, value) = summary(&unfinished, true, &BTreeSet::new());
        assert_eq!(code, Exit::Unfinished);
        assert_eq!(value, json!({"status": "working", "taskId": "t"}));
    }

    #[test]
    fn an_unknown_tool_names_the_nearest() {
        let near = unknown_tool("tidi", ["tidy", "search"].into_iter());
        assert!(near.message.contains("\"tidy\""), "{near}");
        let far = unknown_tool("zzz", ["tidy", "search"].into_iter());
        assert!(far.message.contains("tidy, search"), "{far}");
    }
}
