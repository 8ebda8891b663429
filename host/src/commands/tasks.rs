//! `layby tasks`: see, answer and cancel tasks beside a running server, as the operator.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use serde_json::{Value, json};

use super::{
    ask::{AskError, Asker, Question as Asked, Reply, fitting, terminal},
    exit::{Exit, Failure},
    out::{Out, note, table},
    replay, show, store,
};
use crate::{
    base::{Clock, Principal, SystemClock, UnixMillis, neutral_line},
    config::Config,
    store::{End, Question, Status, Task, clock},
    tasks::Tasks,
};

/// Options of `layby tasks`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Data folder of the server [default: data]
    #[arg(long, value_name = "DIR", global = true)]
    data: Option<PathBuf>,
    /// PostgreSQL database of the servers, as postgres://USER@HOST/DATABASE [default: a file in the data folder]
    #[arg(long, value_name = "URL", global = true)]
    store: Option<String>,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Newest tasks first
    List {
        /// How many at most
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
        /// Only those that have not ended
        #[arg(long)]
        live: bool,
    },
    /// One task with its questions and its end
    Show {
        /// Its id
        id: String,
    },
    /// Answer what a task asks; without options, ask on the terminal
    Answer(Answer),
    /// Ask a task to stop
    Cancel {
        /// Its id
        id: String,
    },
    /// Write what a task did to a file, for `layby replay` on another machine; without grants and secrets
    Export {
        /// Its id
        id: String,
        /// The file, which must not exist
        #[arg(value_name = "FILE")]
        to: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("reply").args(["accept", "decline", "dismiss"])))]
struct Answer {
    /// Its id
    id: String,
    /// Which question, where several wait
    #[arg(long, value_name = "KEY", requires = "reply")]
    key: Option<String>,
    /// Accept, with the form's content as a JSON object
    #[arg(long, value_name = "JSON", num_args = 0..=1, default_missing_value = "{}")]
    accept: Option<String>,
    /// Decline
    #[arg(long)]
    decline: bool,
    /// Close the question without an answer
    #[arg(long)]
    dismiss: bool,
}

/// Runs one of the subcommands.
///
/// # Errors
/// See [`Exit`].
pub(crate) fn run(args: Args, mut config: Config, out: Out) -> Result<Exit, Failure> {
    if let Some(data) = args.data {
        config.serve.data = data;
    }
    if let Some(url) = args.store {
        config.store.url = url;
    }
    store::block_on(async {
        if let What::Export { id, to } = args.what {
            return replay::export(&id, &to, &config, out).await;
        }
        let store = store::open(&config).await?;
        let me = Principal::operator();
        if let What::List { limit, live } = args.what {
            let tasks = store.list(None, limit).await;
            store.close().await;
            return list(&tasks?, live, out);
        }
        let clock = clock(store.clone(), Arc::new(SystemClock)).await?;
        let tasks = Tasks::open(store, clock, &config).await?;
        let done = match args.what {
            What::List { .. } | What::Export { .. } => Ok(Exit::Ok),
            What::Show { id } => show(&tasks.get(&me, &id).await?, out),
            What::Answer(answer) => reply(&tasks, &me, answer, out).await,
            What::Cancel { id } => cancel(&tasks, &me, &id, out).await,
        };
        tasks.close().await;
        done
    })
}

fn list(tasks: &[Task], live: bool, out: Out) -> Result<Exit, Failure> {
    let shown: Vec<&Task> = tasks.iter().filter(|t| !live || !t.status.is_terminal()).collect();
    if out.json {
        out.json(&json!({"tasks": shown.iter().map(|t| brief(t)).collect::<Vec<_>>()}))?;
        return Ok(Exit::Ok);
    }
    if shown.is_empty() {
        out.text("No tasks.")?;
        return Ok(Exit::Ok);
    }
    let now = SystemClock.now();
    let rows: Vec<Vec<String>> = shown
        .iter()
        .map(|t| {
            let message = t.status_message.clone().unwrap_or_default();
            vec![t.id.to_string(), t.tool.clone(), word(t).to_owned(), age(now, t.updated_at), message]
        })
        .collect();
    out.text(&table(&["TASK", "TOOL", "STATUS", "CHANGED", "MESSAGE"], &rows))?;
    Ok(Exit::Ok)
}

/// The status, or what more there is to say of it.
fn word(task: &Task) -> &'static str {
    match task.cancel_requested {
        Some(_) if !task.status.is_terminal() => "cancelling",
        _ if task.status == Status::Working && is_parked(task) => "sleeping",
        _ => task.status.as_str(),
    }
}

/// How long ago, in one unit.
fn age(now: UnixMillis, then: UnixMillis) -> String {
    let seconds = now.since(then).0 / 1000;
    match seconds {
        0..60 => format!("{seconds}s ago"),
        60..3600 => format!("{}m ago", seconds / 60),
        3600..172_800 => format!("{}h ago", seconds / 3600),
        _ => format!("{}d ago", seconds / 86_400),
    }
}

/// True where it lives and has no instance.
fn is_parked(task: &Task) -> bool {
    !task.status.is_terminal() && task.holder.is_none()
}

fn brief(task: &Task) -> Value {
    json!({
        "taskId": task.id.to_string(), "tool": task.tool, "plugin": task.plugin, "status": task.status.as_str(),
        "statusMessage": task.status_message, "principal": task.principal.as_str(),
        "createdAt": task.created_at.rfc3339(), "lastUpdatedAt": task.updated_at.rfc3339(),
        "cancelRequested": task.cancel_requested.is_some(), "parked": is_parked(task), "resumed": task.resumed,
    })
}

/// The questions that wait for an answer.
fn open_questions(task: &Task) -> impl Iterator<Item = &Question> {
    let waits = task.status == Status::InputRequired;
    task.questions.iter().filter(move |q| waits && q.answer.is_none())
}

fn show(task: &Task, out: Out) -> Result<Exit, Failure> {
    if out.json {
        let mut value = brief(task);
        value["digest"] = json!(task.digest.to_string());
        value["ttlMs"] = json!(task.ttl.0);
        value["pollIntervalMs"] = json!(task.poll_interval.0);
        value["inputDeadline"] = json!(task.input_deadline.map(UnixMillis::rfc3339));
        value["inputRequests"] = open_questions(task)
            .map(|q| (q.key.clone(), (*q.request).clone()))
            .collect::<serde_json::Map<_, _>>()
            .into();
        match &task.end {
            Some(End::Completed(result)) => value["result"] = result.clone(),
            Some(End::Failed(error)) => value["error"] = error.clone(),
            Some(End::Cancelled) | None => {}
        }
        out.json(&value)?;
        return Ok(Exit::Ok);
    }
    let mut text = format!(
        "task      {}\ntool      {} (plugin {}, component {})\nstatus    {}\nprincipal {}\ncreated   {}\nchanged   {}\nexpires   {}\n",
        task.id,
        neutral_line(&task.tool),
        neutral_line(&task.plugin),
        task.digest.short(),
        word(task),
        neutral_line(task.principal.as_str()),
        task.created_at.rfc3339(),
        task.updated_at.rfc3339(),
        (task.created_at + task.ttl).rfc3339(),
    );
    if let Some(message) = &task.status_message {
        text.push_str(&format!("message   {}\n", neutral_line(message)));
    }
    for question in open_questions(task) {
        let asked = Asked::read(&question.request).map_or_else(|why| why, |q| q.summary());
        text.push_str(&format!("asks      {}: {}\n", neutral_line(&question.key), neutral_line(&asked)));
    }
    match &task.end {
        Some(End::Completed(result)) => text.push_str(&format!("\n{}", show::result(result, false))),
        Some(End::Failed(error)) => text.push_str(&format!("\nerror: {}\n", show::error(error))),
        Some(End::Cancelled) | None => {}
    }
    out.text(&text)?;
    Ok(Exit::Ok)
}

async fn reply(tasks: &Tasks, me: &Principal, answer: Answer, out: Out) -> Result<Exit, Failure> {
    let task = tasks.get(me, &answer.id).await?;
    let open: Vec<&Question> = open_questions(&task).collect();
    if open.is_empty() {
        let text = format!("task {} asks nothing: it is {}", task.id, word(&task));
        return Err(Failure::refused("nothing_asked", text));
    }
    let responses = if answer.accept.is_some() || answer.decline || answer.dismiss {
        let (key, response) = given(&open, &answer)?;
        BTreeMap::from([(key, response)])
    } else {
        if !terminal() {
            let text = "standard input is not a terminal: say --accept JSON, --decline or --dismiss";
            return Err(Failure::usage("answer_needed", text));
        }
        prompt(&task, &open).await?
    };
    let keys: Vec<String> = responses.keys().cloned().collect();
    tasks.update(me, &answer.id, responses).await?;
    if out.json {
        out.json(&json!({"status": "answered", "taskId": task.id.to_string(), "keys": keys}))?;
    } else {
        out.text(&format!("Answered {} of task {}.", neutral_line(&keys.join(", ")), task.id))?;
    }
    Ok(Exit::Ok)
}

/// The one answer that the options give.
fn given(open: &[&Question], answer: &Answer) -> Result<(String, Value), Failure> {
    let keys = || neutral_line(&open.iter().map(|q| q.key.as_str()).collect::<Vec<_>>().join(", "));
    let question = match (&answer.key, open) {
        (Some(key), _) => open.iter().find(|q| q.key == *key).ok_or_else(|| {
            Failure::refused("question_unknown", format!("no open question {key:?}; open are: {}", keys()))
        })?,
        (None, [only]) => only,
        (None, _) => {
            let text = format!("several questions are open: say which with --key: {}", keys());
            return Err(Failure::usage("key_needed", text));
        }
    };
    let content = answer.accept.as_deref().map(super::json::read).transpose();
    let content =
        content.map_err(|e| Failure::usage("accept_invalid", format!("--accept is not JSON: {e}")))?;
    let refuse = |why: String| {
        Failure::refused("answer_invalid", format!("the question {:?}: {why}", neutral_line(&question.key)))
    };
    let asked = Asked::read(&question.request).map_err(refuse)?;
    let reply = match content {
        // A program's question takes MCP's result object itself.
        Some(content) if matches!(asked, Asked::Other { .. }) => {
            return Ok((question.key.clone(), content));
        }
        Some(Value::Object(content)) => Reply::Accept(content),
        Some(_) => return Err(refuse("--accept must be an object with the form's values".to_owned())),
        None if answer.decline => Reply::Decline,
        None => Reply::Dismiss,
    };
    Ok((question.key.clone(), fitting(&asked, &reply).map_err(refuse)?))
}

/// Asks every open question on the terminal.
async fn prompt(task: &Task, open: &[&Question]) -> Result<BTreeMap<String, Value>, Failure> {
    let asker = Asker { who: format!("The plugin \"{}\" (tool \"{}\")", task.plugin, task.tool) };
    let mut questions = Vec::new();
    for question in open {
        match Asked::read(&question.request) {
            Ok(asked) => questions.push((question.key.clone(), asked)),
            Err(why) => note(&format!("{}: {}", neutral_line(&question.key), neutral_line(&why))),
        }
    }
    let asked = tokio::task::spawn_blocking(move || {
        let mut answers = BTreeMap::new();
        for (key, question) in questions {
            answers.insert(key, asker.ask(&question)?.to_json(&question));
        }
        Ok::<_, AskError>(answers)
    });
    match asked.await {
        Ok(Ok(answers)) => Ok(answers),
        Ok(Err(AskError::Interrupted)) => {
            Err(Failure::new(Exit::Interrupted, "ctrl_c", "nothing was answered; the task goes on waiting"))
        }
        Ok(Err(AskError::Unsupported(why))) => {
            Err(Failure::refused("question_unsupported", format!("{why}: answer it with --accept JSON")))
        }
        Ok(Err(AskError::Terminal(error))) => Err(error.into()),
        Err(_) => Err(Failure::new(Exit::Failed, "command_failed", "the prompt failed")),
    }
}

async fn cancel(tasks: &Tasks, me: &Principal, id: &str, out: Out) -> Result<Exit, Failure> {
    let before = tasks.get(me, id).await?;
    tasks.cancel(me, id).await?;
    let ended = before.status.is_terminal();
    if out.json {
        let status = if ended { before.status.as_str() } else { "cancelling" };
        out.json(&json!({"status": status, "taskId": before.id.to_string()}))?;
    } else if ended {
        out.text(&format!("Task {} had ended already: {}.", before.id, before.status.as_str()))?;
    } else {
        out.text(&format!(
            "Task {} is asked to stop; `layby tasks show {}` tells when it has.",
            before.id, before.id
        ))?;
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
#[path = "tasks_tests.rs"]
mod tests;
