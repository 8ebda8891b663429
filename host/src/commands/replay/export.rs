//! A journal outside its store: found by its task, or carried in a file.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    base::{Blob, Piece, TaskId, read_file},
    commands::{
        exit::{Exit, Failure},
        out::{Out, note},
        store,
    },
    config::{Config, FileGrant, Grants, TaskRules},
    journal::Kept,
    runs::Settings,
    store::{End, Task},
};

/// What is replayed.
pub(in crate::commands) struct Recorded {
    pub(in crate::commands) task: String,
    pub(in crate::commands) plugin: String,
    pub(in crate::commands) kept: Kept,
    /// How the task ended, if it has.
    pub(in crate::commands) end: Option<End>,
}

/// The file's JSON.
#[derive(Serialize, Deserialize)]
struct File {
    /// What this is; the journal has a version of its own.
    layby: Kind,
    task: String,
    plugin: String,
    end: Option<End>,
    /// Base64.
    pieces: Vec<String>,
    /// Large answers that pieces name, in Base64; older exports have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    blobs: Vec<String>,
}

#[derive(Serialize, Deserialize)]
enum Kind {
    #[serde(rename = "journal")]
    Journal,
}

impl Recorded {
    /// Of a task and its pieces.
    ///
    /// # Errors
    /// There is no journal, or it is damaged.
    pub(in crate::commands) fn of(task: &Task, pieces: &[Piece]) -> Result<Self, Failure> {
        if pieces.is_empty() {
            let text = format!(
                "{}: the task has no journal: what it did was over the limit `journal` before it was a task",
                task.id
            );
            return Err(Failure::refused("no_journal", text));
        }
        let kept = Kept::open(pieces).map_err(|e| Failure::refused("journal_damaged", e.to_string()))?;
        Ok(Self { task: task.id.to_string(), plugin: task.plugin.clone(), kept, end: task.end.clone() })
    }
}

/// The task of this id, or what is in the file of this name.
///
/// # Errors
/// Neither is there; what is there cannot be read.
pub(super) async fn find(what: &str, config: &Config) -> Result<Recorded, Failure> {
    if let Ok(id) = what.parse::<TaskId>() {
        return of_task(id, config).await;
    }
    let bytes = read_file(Path::new(what), TaskRules::EXPORT)
        .map_err(|why| Failure::refused("file_unreadable", format!("{what}: {why}")))?;
    let bad =
        |why: String| Failure::refused("not_an_export", format!("{what}: not an exported journal: {why}"));
    let file: File = serde_json::from_slice(&bytes).map_err(|e| bad(e.to_string()))?;
    let decoded = |texts: &[String]| {
        let parts = texts.iter().map(|text| STANDARD.decode(text));
        parts.collect::<Result<Vec<_>, _>>().map_err(|e| bad(e.to_string()))
    };
    let mut pieces: Vec<Piece> = decoded(&file.pieces)?.into_iter().map(Piece::from).collect();
    let blobs = decoded(&file.blobs)?.into_iter().map(Blob::of);
    if let Some(piece) = pieces.first_mut() {
        // It does not matter which has them.
        piece.blobs = blobs.collect();
    }
    let kept = Kept::open(&pieces).map_err(|e| bad(e.to_string()))?;
    Ok(Recorded { task: file.task, plugin: file.plugin, kept, end: file.end })
}

async fn of_task(id: TaskId, config: &Config) -> Result<Recorded, Failure> {
    let store = store::open(config).await?;
    let task = store.get(id).await;
    let pieces = store.journal(id).await;
    store.close().await;
    let task = task?.ok_or_else(|| {
        Failure::refused(
            "task_unknown",
            format!("{id}: no such task in this data folder; `layby tasks list` has them"),
        )
    })?;
    Recorded::of(&task, &pieces?)
}

/// Writes a task's journal to a file, without grants and secrets.
///
/// # Errors
/// As [`find`]; the file is there already, or cannot be written.
pub(crate) async fn export(id: &str, to: &Path, config: &Config, out: Out) -> Result<Exit, Failure> {
    let id: TaskId = id.parse().map_err(|_| {
        Failure::usage("task_unknown", format!("{id:?} is no task's id; `layby tasks list` has them"))
    })?;
    let recorded = of_task(id, config).await?;
    let mut header = recorded.kept.header.clone();
    let mut settings = Settings::read_without_values(&header)
        .map_err(|e| Failure::refused("journal_damaged", e.to_string()))?;
    // Which folders there were is a part of what its guest sees; where they are on this machine is not.
    let files = settings.grants.files.iter().cloned();
    let files = files.map(|file| FileGrant { host: PathBuf::new(), ..file }).collect();
    settings.grants = Grants { files, ..Grants::default() };
    header.policy =
        serde_json::to_string(&settings).map_err(|e| Failure::refused("journal_damaged", e.to_string()))?;
    let pieces = recorded.kept.with(&header);
    let file = File {
        layby: Kind::Journal,
        task: recorded.task,
        plugin: recorded.plugin,
        end: recorded.end,
        pieces: pieces.iter().map(|piece| STANDARD.encode(&piece.bytes)).collect(),
        blobs: pieces.iter().flat_map(|piece| &piece.blobs).map(|b| STANDARD.encode(&b.bytes)).collect(),
    };
    let text =
        serde_json::to_string(&file).map_err(|e| Failure::refused("journal_damaged", e.to_string()))?;
    let written =
        fs::File::create_new(to).and_then(|mut f| f.write_all(text.as_bytes()).and_then(|()| f.sync_all()));
    written.map_err(|e| Failure::refused("file_unwritable", format!("{}: {e}", to.display())))?;
    if out.json {
        out.json(&Value::from_iter([("file", Value::from(to.display().to_string()))]))?;
    } else {
        note(&format!(
            "{}: the journal, with the call's arguments and all answers, without grants. `layby replay {}` shows it.",
            to.display(),
            to.display()
        ));
    }
    Ok(Exit::Ok)
}
