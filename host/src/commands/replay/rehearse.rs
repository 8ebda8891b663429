//! `layby plugins check`: what a new build of a plugin would do to the tasks that are under way, and what it lists
//! otherwise, before it replaces the one that serves.

use std::{collections::BTreeMap, path::PathBuf};

use serde_json::{Value, json};

use super::{Verdict, engine, export::Recorded, line, refused, replay, show::Viewer};
use crate::{
    base::{Digest, Piece, neutral_line, read_file},
    commands::{
        exit::{Exit, Failure},
        out::Out,
        store,
    },
    config::{Config, TaskRules},
    engine::Engine,
    plugins::{Stop, look},
    store::Task,
};

/// Options of `layby plugins check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The new component
    #[arg(value_name = "NEW.wasm")]
    file: PathBuf,
    /// The plugin that it is to replace [default: the file's name]
    #[arg(long)]
    name: Option<String>,
}

/// One task under way, and what the new build makes of its journal.
struct Rehearsed {
    task: String,
    tool: String,
    verdict: Verdict,
}

/// What one tool has otherwise.
#[derive(Debug, PartialEq)]
enum Change {
    Added,
    Removed,
    /// The parts that differ.
    Differs(Vec<String>),
}

/// Replays every journal of the plugin's live tasks against the new component, and compares what it lists.
///
/// # Errors
/// The file is no plugin; the data folder does not know the plugin, or cannot be used.
pub(crate) fn run(args: &Args, config: &Config, out: Out) -> Result<Exit, Failure> {
    let bytes = read_file(&args.file, config.catalog.max_component)
        .map_err(|e| Failure::refused("file_unreadable", format!("{}: {e}", args.file.display())))?;
    let stem = args.file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let name = args.name.as_deref().unwrap_or(stem);
    store::block_on(async {
        let store = store::open(config).await?;
        // This replica's, or the newest of another.
        let elsewhere = store.plugins_elsewhere().await?.into_iter().map(|other| other.row);
        let mut rows = store.plugins().await?.into_iter().chain(elsewhere);
        let row = rows.find(|row| row.name == name).ok_or_else(|| {
            let text = format!(
                "{name:?}: no plugin of this name is known in the data folder; name the one that the file is to replace with --name"
            );
            Failure::refused("plugin_unknown", text)
        })?;
        let mut under_way = Vec::new();
        for task in store.list(None, TaskRules::REHEARSED).await? {
            if task.plugin == name && !task.status.is_terminal() && task.pieces > 0 {
                let pieces = store.journal(task.id).await?;
                under_way.push((task, pieces));
            }
        }
        store.close().await;
        let engine = engine(config)?;
        let listed = listed(&engine, &bytes, config).await?;
        let changes = changes(&row.listed, &listed);
        let mut rehearsed = Vec::new();
        for (task, pieces) in under_way {
            rehearsed.push(rehearse(&engine, &task, &pieces, &bytes, config).await?);
        }
        tell(name, &bytes, &changes, &rehearsed, out)
    })
}

async fn rehearse(
    engine: &Engine,
    task: &Task,
    pieces: &[Piece],
    bytes: &[u8],
    config: &Config,
) -> Result<Rehearsed, Failure> {
    let verdict = match Recorded::of(task, pieces) {
        Ok(recorded) => match replay(engine, &recorded, bytes, &Viewer::new(false, true), config).await {
            // The others can be judged all the same.
            Err(failure) if failure.code == "seal_key_missing" => Verdict::Broke(failure.message),
            judged => judged?,
        },
        Err(failure) => Verdict::Broke(failure.message),
    };
    Ok(Rehearsed { task: task.id.to_string(), tool: task.tool.clone(), verdict })
}

/// What the new build lists, as a row of the store has it.
async fn listed(engine: &Engine, bytes: &[u8], config: &Config) -> Result<String, Failure> {
    match look(engine, Digest::of(bytes), bytes, config).await {
        Ok(looked) => match &looked.problem {
            Some(problem) => Err(refused(problem)),
            None => Ok(looked.listed()),
        },
        Err(Stop::Refused(problem)) => Err(refused(&problem)),
        Err(Stop::Failed(reason)) => Err(anyhow::anyhow!(reason).into()),
    }
}

/// The tools that differ, by name.
fn changes(before: &str, after: &str) -> BTreeMap<String, Change> {
    let tools = |text: &str| -> BTreeMap<String, Value> {
        let listed: Value = serde_json::from_str(text).unwrap_or_default();
        let tools = listed.get("tools").unwrap_or(&listed).as_array().cloned().unwrap_or_default();
        tools.into_iter().filter_map(|t| Some((t.get("name")?.as_str()?.to_owned(), t))).collect()
    };
    let (before, after) = (tools(before), tools(after));
    let mut changes = BTreeMap::new();
    for (name, tool) in &after {
        match before.get(name) {
            None => drop(changes.insert(name.clone(), Change::Added)),
            Some(old) if old == tool => {}
            Some(old) => drop(changes.insert(name.clone(), Change::Differs(parts(old, tool)))),
        }
    }
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        changes.insert(name.clone(), Change::Removed);
    }
    changes
}

/// The members that two objects do not have alike.
fn parts(old: &Value, new: &Value) -> Vec<String> {
    let members = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let (old, new) = (members(old), members(new));
    let mut names: Vec<String> = old.keys().chain(new.keys()).cloned().collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| old.get(name) != new.get(name));
    names
}

const fn good(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Same | Verdict::Open)
}

fn tell(
    name: &str,
    bytes: &[u8],
    changes: &BTreeMap<String, Change>,
    rehearsed: &[Rehearsed],
    out: Out,
) -> Result<Exit, Failure> {
    let diverging = rehearsed.iter().filter(|r| !good(&r.verdict)).count();
    if out.json {
        let tools: Vec<Value> = changes
            .iter()
            .map(|(tool, change)| match change {
                Change::Added => json!({ "tool": tool, "change": "added" }),
                Change::Removed => json!({ "tool": tool, "change": "removed" }),
                Change::Differs(parts) => json!({ "tool": tool, "change": "differs", "parts": parts }),
            })
            .collect();
        let tasks: Vec<Value> = rehearsed
            .iter()
            .map(|r| json!({ "taskId": r.task, "tool": r.tool, "goesOn": good(&r.verdict), "detail": line(&r.verdict) }))
            .collect();
        out.json(&json!({ "plugin": name, "digest": Digest::of(bytes).to_string(), "tools": tools, "tasks": tasks }))?;
    } else {
        let mut text = String::new();
        for (tool, change) in changes {
            let what = match change {
                Change::Added => "new".to_owned(),
                Change::Removed => "gone".to_owned(),
                Change::Differs(parts) => format!("other {}", parts.join(", ")),
            };
            text.push_str(&format!("tool {}: {what}\n", neutral_line(tool)));
        }
        if changes.is_empty() {
            text.push_str("the same tools\n");
        }
        for r in rehearsed {
            let mark = if good(&r.verdict) { "goes on" } else { "would not go on" };
            text.push_str(&format!(
                "task {} ({}): {mark}: {}\n",
                r.task,
                neutral_line(&r.tool),
                line(&r.verdict)
            ));
        }
        text.push_str(&format!(
            "{} of {} tasks under way could go on with this build. They finish on the build that they began with in any case.",
            rehearsed.len() - diverging,
            rehearsed.len()
        ));
        out.text(&text)?;
    }
    Ok(if diverging == 0 { Exit::Ok } else { Exit::Failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_compared_by_name_and_part() {
        let tool =
            |name: &str, text: &str| json!({ "name": name, "description": text, "input_schema": "{}" });
        let before = json!({ "tools": [tool("a", "x"), tool("b", "x"), tool("c", "x")] }).to_string();
        let after = json!({ "tools": [tool("a", "x"), tool("b", "y"), tool("d", "x")] }).to_string();
        let found = changes(&before, &after);
        let expected = [
            ("b", Change::Differs(vec!["description".into()])),
            ("c", Change::Removed),
            ("d", Change::Added),
        ];
        assert_eq!(found, expected.map(|(name, change)| (name.to_owned(), change)).into());
        assert!(changes(&before, &before).is_empty());
    }
}
