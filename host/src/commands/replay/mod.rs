//! `layby replay`: does again, offline, what a task's journal has, and shows it.

mod export;
pub(crate) mod rehearse;
mod show;

use std::{path::PathBuf, sync::Arc, time::Instant};

use serde_json::{Value, json};

pub(crate) use export::export;

use self::{
    export::Recorded,
    show::{Shown, Viewer},
};
use super::{
    exit::{Exit, Failure},
    out::Out,
    store,
};
use crate::{
    base::{Digest, neutral_line, read_file},
    capabilities::{
        self, Abort, Began, Flights, Granted, Linked, Response, Setup, call_tool_result, journal_key,
    },
    config::Config,
    engine::{Engine, SEMANTICS},
    journal::{Header, Journal, Mismatch},
    plugins::{Problem, compile},
    runs::{Settings, Unread},
    store::{End, Vault},
};

/// Options of `layby replay`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A task's id, or a file that `layby tasks export` wrote
    #[arg(value_name = "TASK|FILE")]
    what: String,
    /// Replay against this component instead of the one that ran: the first thing that it does otherwise is shown
    #[arg(long, value_name = "NEW.wasm")]
    plugin: Option<PathBuf>,
    /// Data folder of the server [default: data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// PostgreSQL database of the servers, as postgres://USER@HOST/DATABASE [default: a file in the data folder]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Show only how it ends
    #[arg(long)]
    quiet: bool,
}

/// How a replay ended.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It did all that the journal has, and ended as the task did.
    Same,
    /// It did all that the journal has, and ended otherwise: how.
    OtherEnd(String),
    /// It did all that the journal has; the task had not ended by itself there.
    Open,
    /// It did something else.
    Diverged(Mismatch),
    /// It could not be run to the end of the journal: why.
    Broke(String),
}

/// Replays, and prints each step as it happens.
///
/// # Errors
/// No such task or file; one that has no journal, or another version's; no component to replay with.
pub(crate) fn run(args: Args, mut config: Config, out: Out) -> Result<Exit, Failure> {
    if let Some(data) = args.data {
        config.serve.data = data;
    }
    if let Some(url) = args.store {
        config.store.url = url;
    }
    store::block_on(async {
        let recorded = export::find(&args.what, &config).await?;
        let bytes = match &args.plugin {
            Some(file) => read_file(file, config.catalog.max_component)
                .map_err(|why| Failure::refused("file_unreadable", format!("{}: {why}", file.display())))?,
            None => kept_component(&recorded, &config)?,
        };
        let viewer = Viewer::new(out.json, args.quiet);
        if !out.json {
            viewer.heading(&recorded);
        }
        let engine = engine(&config)?;
        let verdict = replay(&engine, &recorded, &bytes, &viewer, &config).await?;
        if out.json {
            out.json(&report(&recorded, &bytes, &verdict, viewer.take()))?;
        } else {
            viewer.verdict(&recorded, &verdict);
        }
        Ok(if matches!(verdict, Verdict::Same | Verdict::Open) { Exit::Ok } else { Exit::Failed })
    })
}

/// The component that ran, from the data folder.
fn kept_component(recorded: &Recorded, config: &Config) -> Result<Vec<u8>, Failure> {
    let digest = Digest(recorded.kept.header.digest);
    let file = config.serve.data.join("components").join(format!("{digest}.wasm"));
    read_file(&file, config.catalog.max_component)
        .ok()
        .filter(|bytes| Digest::of(bytes) == digest)
        .ok_or_else(|| {
            let text = format!(
                "the component that ran, {digest}, is not in this data folder: name a component with --plugin"
            );
            Failure::refused("component_missing", text)
        })
}

/// An engine that takes compiled code from the data folder, where there is one: a large runtime compiles for half a minute.
pub(super) fn engine(config: &Config) -> Result<Arc<Engine>, Failure> {
    let data = Some(config.serve.data.as_path()).filter(|data| data.is_dir());
    Ok(Engine::open(data, 1)?)
}

/// Runs `bytes` against the journal. `config` leads to the key under which its environment is sealed.
///
/// # Errors
/// Its header or the component cannot be used at all.
pub(super) async fn replay(
    engine: &Engine,
    recorded: &Recorded,
    bytes: &[u8],
    viewer: &Viewer,
    config: &Config,
) -> Result<Verdict, Failure> {
    let header = &recorded.kept.header;
    if header.semantics != SEMANTICS {
        let text = "the journal was recorded under other rules of WebAssembly: use the layby that wrote it";
        return Err(Failure::refused("journal_version", text));
    }
    let settings = settings(header, config)?;
    let request = settings
        .request(header)
        .ok_or_else(|| Failure::refused("journal_damaged", "its arguments cannot be read"))?;
    let digest = Digest::of(bytes);
    // Somebody may have sent it: what a host would not compile is not compiled here either.
    let component = compile(engine, digest, bytes, &config.catalog).map_err(|problem| refused(&problem))?;
    let prepared = Linked::new(engine)?
        .prepare(&component, bytes)
        .map_err(|e| Failure::refused("plugin_wrong_world", e.to_string()))?;
    // Fuel is the same only for the same component under the same compiler.
    let compare_fuel = digest.0 == header.digest && prepared.code() == header.code;
    let journal = Journal::show(
        journal_key(header.seed),
        recorded.kept.clone(),
        compare_fuel,
        Box::new(Shown::new(viewer.clone())),
    );
    // Nothing is sent, and no folder is opened.
    let grants = crate::config::Grants { http: Vec::new(), ..settings.grants };
    let setup = Setup {
        limits: settings.limits,
        grants: Granted::elsewhere(&grants).map_err(|e| Failure::refused("journal_damaged", e))?,
        caller: Arc::new(viewer.clone()),
        seed: header.seed,
        journal: journal.clone(),
        began: Began { at: Instant::now(), before: 0 },
        flights: Flights::default(),
        fuel_slice: u64::MAX,
        meter: Arc::default(),
    };
    let (ended, _) = capabilities::call(&prepared, setup, &request).await;
    Ok(judge(ended, recorded, journal.is_live()))
}

/// Why a host would not have this component.
pub(super) fn refused(problem: &Problem) -> Failure {
    Failure::refused(problem.code, format!("{}. {}", problem.reason, problem.advice))
}

/// What the run began with.
fn settings(header: &Header, config: &Config) -> Result<Settings, Failure> {
    // It matters only where there is something to open that nobody can read here.
    let found = Vault::find(config);
    let vault = found.as_ref().ok().and_then(Option::as_ref);
    Settings::read(header, vault).map_err(|why| {
        let missing = |text: String| Failure::refused("seal_key_missing", text);
        let advice =
            "name the data folder of the host that ran it with --data, or its file of keys as store.seal-key";
        match (&why, &found) {
            (Unread::Damaged(_), _) => Failure::refused("journal_damaged", why.to_string()),
            (Unread::Closed(_), _) => missing(why.to_string()),
            (Unread::NoKey, Err(e)) => missing(format!("{why}: {e:#}")),
            (Unread::NoKey, Ok(_)) => missing(format!("{why}: {advice}")),
        }
    })
}

fn judge(ended: Result<Response, Abort>, recorded: &Recorded, whole: bool) -> Verdict {
    match ended {
        Err(Abort::Mismatch(mismatch)) if mismatch.at_end => Verdict::Open,
        Err(Abort::Mismatch(mismatch)) => Verdict::Diverged(mismatch),
        Err(Abort::Host(why)) => Verdict::Broke(why),
        Err(Abort::Trap(why)) if !whole => Verdict::Broke(why),
        ended => match &recorded.end {
            None => Verdict::Open,
            Some(end) if is_by_others(end) => Verdict::Open,
            Some(end) => compare(ended, end),
        },
    }
}

/// True for an end that came from outside, wherever the run was: a replay does not meet it.
fn is_by_others(end: &End) -> bool {
    /// The codes of such errors.
    const CODES: [&str; 7] = [
        "task_expired",
        "input_timed_out",
        "interrupted",
        "not_resumable",
        "resume_crashes",
        "journal_damaged",
        "host_failure",
    ];
    match end {
        End::Cancelled => true,
        End::Failed(error) => error["data"]["code"].as_str().is_some_and(|code| CODES.contains(&code)),
        End::Completed(_) => false,
    }
}

/// The end of the replay against the task's.
fn compare(ended: Result<Response, Abort>, end: &End) -> Verdict {
    let result = match ended {
        Ok(Response::Tool(Ok(result))) => call_tool_result(result, false).ok(),
        // The host says something in its place.
        Ok(Response::Tool(Err(capabilities::wit_types::ToolError::Failed(result))))
            if capabilities::is_silent(&result)
                && matches!(end, End::Completed(then) if then["isError"] == true) =>
        {
            return Verdict::Same;
        }
        Ok(Response::Tool(Err(capabilities::wit_types::ToolError::Failed(result)))) => {
            call_tool_result(result, true).ok()
        }
        Ok(Response::Prompt(Ok(prompt))) => {
            let prompt = capabilities::get_prompt_result(prompt).ok();
            return same(prompt.and_then(|prompt| serde_json::to_value(prompt).ok()), end);
        }
        Ok(Response::Resource(Ok(contents))) => {
            return same(serde_json::to_value(capabilities::read_resource_result(contents)).ok(), end);
        }
        Ok(_) => None,
        Err(abort) => {
            let failed = matches!(end, End::Failed(_))
                || matches!(end, End::Completed(result) if result["isError"] == true);
            return if failed { Verdict::Same } else { Verdict::OtherEnd(format!("{abort:?}")) };
        }
    };
    same(result.and_then(|result| serde_json::to_value(result).ok()), end)
}

/// The result of the replay against the task's.
fn same(now: Option<Value>, end: &End) -> Verdict {
    match (now, end) {
        // Here it would be rewritten as well: nothing else has this code.
        (Some(now), End::Completed(then))
            if then["_meta"]["layby/code"] == "output_invalid" && now["isError"] != true =>
        {
            Verdict::Same
        }
        (Some(now), End::Completed(then)) if bare(now.clone()) == bare(then.clone()) => Verdict::Same,
        (Some(now), _) => Verdict::OtherEnd(bare(now).to_string()),
        (None, End::Failed(_)) => Verdict::Same,
        (None, _) => Verdict::OtherEnd("an error instead of a result".to_owned()),
    }
}

/// A result without what the host adds to it.
fn bare(mut result: Value) -> Value {
    if let Some(result) = result.as_object_mut() {
        result.remove("_meta");
        result.remove("resultType");
    }
    result
}

fn report(recorded: &Recorded, bytes: &[u8], verdict: &Verdict, steps: Vec<Value>) -> Value {
    let (word, detail) = match verdict {
        Verdict::Same => ("same", json!({})),
        Verdict::Open => ("open", json!({})),
        Verdict::OtherEnd(end) => ("other_end", json!({ "end": end })),
        Verdict::Broke(why) => ("broke", json!({ "reason": why })),
        Verdict::Diverged(m) => {
            ("diverged", json!({ "step": m.step, "expected": m.expected, "actual": m.actual }))
        }
    };
    json!({
        "task": recorded.task, "plugin": recorded.plugin, "tool": recorded.kept.header.tool,
        "recorded": Digest(recorded.kept.header.digest).to_string(), "replayed": Digest::of(bytes).to_string(),
        "verdict": word, "detail": detail, "steps": steps,
    })
}

/// One line about a verdict, neutral.
pub(super) fn line(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Same => "the same end, with the same result".to_owned(),
        Verdict::Open => "all of the journal; the task had not ended by itself there".to_owned(),
        Verdict::OtherEnd(end) => format!("all of the journal, and another end: {}", neutral_line(end)),
        Verdict::Broke(why) => {
            format!("not to its end: {}", neutral_line(why.lines().next().unwrap_or_default()))
        }
        Verdict::Diverged(m) => {
            format!("diverges at step {}: the journal has {}, this did {}", m.step, m.expected, m.actual)
        }
    }
}
