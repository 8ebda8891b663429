//! What the rows hold. Plain data; the moves of a task are in `tasks/machine.rs`.

use std::{collections::HashSet, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::{BootId, Digest, Millis, Principal, TaskId, UnixMillis};

/// The five states of the tasks extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Being processed.
    Working,
    /// Waits for answers.
    InputRequired,
    /// Ended with a result.
    Completed,
    /// Ended with a JSON-RPC error.
    Failed,
    /// Ended because somebody asked.
    Cancelled,
}

impl Status {
    /// True for the three ends.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// The word on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// MCP's `CallToolResult`.
    Completed(Value),
    /// A JSON-RPC error object (`code`, `message`, `data`).
    Failed(Value),
    /// Stopped on request.
    Cancelled,
}

/// The kinds of question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// `elicitation/create`, form mode.
    Form,
    /// `elicitation/create`, URL mode.
    Url,
    /// `sampling/createMessage`.
    Sampling,
    /// `roots/list`.
    Roots,
}

/// One question that a run put, and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Unique over the task's life.
    pub key: String,
    /// Which `request-input` of the run it belongs to, from 0.
    pub round: u32,
    /// Its kind.
    pub kind: QuestionKind,
    /// The MCP request as the client sees it: `{"method": …, "params": …}`.
    /// Never changes once put; shared, because a task is copied on its way through the state machine.
    pub request: Arc<Value>,
    /// The answer, once there is one.
    pub answer: Option<Answer>,
}

/// An answer that has passed its question's schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A form's content, `{}` for a URL, or MCP's result object.
    Accepted(Value),
    /// The person said no.
    Declined,
    /// The person closed the question (`cancel` on the wire).
    Dismissed,
}

/// What makes a repeat recognizable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyKey {
    /// The caller's key.
    pub key: String,
    /// SHA-256 of the canonical arguments.
    pub arguments: Digest,
}

/// What a look leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Except {
    /// Tasks of these plugins.
    pub plugins: Vec<String>,
    /// These tasks.
    pub tasks: Vec<TaskId>,
}

/// One task, as one row and its question rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its handle.
    pub id: TaskId,
    /// Who called.
    pub principal: Principal,
    /// The tool's public name.
    pub tool: String,
    /// The plugin's name.
    pub plugin: String,
    /// The component that runs.
    pub digest: Digest,
    /// Where it stands.
    pub status: Status,
    /// Progress or reason, for people.
    pub status_message: Option<String>,
    /// When the call was admitted.
    pub created_at: UnixMillis,
    /// Last change of what a client can see.
    pub updated_at: UnixMillis,
    /// Life of the handle, from `created_at`.
    pub ttl: Millis,
    /// How often to ask.
    pub poll_interval: Millis,
    /// Who runs it. None: it has ended, or it lives and is nobody's (parked, or handed back), and
    /// anybody may end or claim it.
    pub holder: Option<BootId>,
    /// Grows with every change of holder; each of the holder's writes carries it.
    pub fence: u64,
    /// When cancellation was first asked for.
    pub cancel_requested: Option<UnixMillis>,
    /// When the present questions run out.
    pub input_deadline: Option<UnixMillis>,
    /// True: running out gives the plugin `timed-out`; false: it fails the task.
    pub resume_on_timeout: bool,
    /// Active time that the run could still use when this was last known (part of the TTL).
    pub active_left: Millis,
    /// How long a client may stay away after the end (part of the TTL).
    pub absence: Millis,
    /// False while a keyed run has not been promoted: no client has its handle.
    pub revealed: bool,
    /// Idempotency, where the call carried a key.
    pub key: Option<IdempotencyKey>,
    /// All questions so far, in order.
    pub questions: Vec<Question>,
    /// How it ended.
    pub end: Option<End>,
    /// Pieces of its journal. 0: it has none, and cannot be resumed. The store alone counts them.
    pub pieces: u32,
    /// Why it cannot be resumed although it has a journal, for people.
    pub pinned: Option<String>,
    /// Parked in a sleep until then.
    pub wake_at: Option<UnixMillis>,
    /// Resumes begun that since were neither live nor released in order: the first may have had others beside it, and
    /// each later one had none.
    pub attempts: u32,
    /// Not to be resumed before: the backoff after a failure of a host.
    pub retry_at: Option<UnixMillis>,
    /// Times resumed so far.
    pub resumed: u32,
    /// Time without an instance, summed up.
    pub parked_ms: Millis,
    /// Since when it has none now.
    pub parked_at: Option<UnixMillis>,
    /// Fuel that its resumes have replayed, summed up.
    pub replayed: u64,
}

impl Task {
    /// True where another process could go on with it from its journal.
    pub const fn is_resumable(&self) -> bool {
        self.pieces > 0 && self.pinned.is_none()
    }

    /// Of one that is nobody's: resumes of it alone that ended with their process.
    pub const fn crashes(&self) -> u32 {
        self.attempts.saturating_sub(1)
    }
}

#[cfg(test)]
impl Task {
    /// A working task for tests to vary.
    pub(crate) fn blank() -> Self {
        Self {
            id: TaskId::new(),
            principal: Principal::local(),
            tool: "t".into(),
            plugin: "p".into(),
            digest: Digest::of(b"c"),
            status: Status::Working,
            status_message: None,
            created_at: UnixMillis(0),
            updated_at: UnixMillis(0),
            ttl: Millis(0),
            poll_interval: Millis(0),
            holder: None,
            fence: 1,
            cancel_requested: None,
            input_deadline: None,
            resume_on_timeout: false,
            active_left: Millis(0),
            absence: Millis(0),
            revealed: true,
            key: None,
            questions: Vec::new(),
            end: None,
            pieces: 0,
            pinned: None,
            wake_at: None,
            attempts: 0,
            retry_at: None,
            resumed: 0,
            parked_ms: Millis(0),
            parked_at: None,
            replayed: 0,
        }
    }
}

/// A change that the state machine does not allow, as a stable reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The task has ended: terminal is final.
    #[error("the task has ended")]
    Ended,
    /// The writer no longer holds the task.
    #[error("the task has another holder")]
    Fenced,
    /// Nothing to do: the change is not an error, and the row is as it would be after it.
    #[error("nothing changes")]
    Unchanged,
    /// Answers that do not fit; the reason per key.
    #[error("the answers do not fit")]
    Answers(Vec<(String, String)>),
    /// A move that the state does not have.
    #[error("{0}")]
    NotNow(&'static str),
}

/// What is left of a task past its TTL.
#[derive(Clone, Debug, PartialEq)]
pub struct Tombstone {
    /// Its handle.
    pub id: TaskId,
    /// Whose it was.
    pub principal: Principal,
    /// How it had ended.
    pub status: Status,
    /// Why, for people.
    pub reason: Option<String>,
    /// When its TTL ran out.
    pub expired_at: UnixMillis,
}

/// One process's claim to be alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The process.
    pub boot: BootId,
    /// The operating system's boot (`/proc/sys/kernel/random/boot_id`): leases of another are over.
    pub os_boot: uuid::Uuid,
    /// Its end, in milliseconds of `CLOCK_BOOTTIME`.
    pub until_boottime_ms: u64,
}

/// What is known of one plugin name: what a restart needs to decide the same, and what
/// `layby plugins` shows beside a running server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginRow {
    /// The file's stem.
    pub name: String,
    /// The component that serves, or served last; none where none ever did.
    pub digest: Option<Digest>,
    /// The component that this policy's grants were given to. Another one under the same policy
    /// text serves without grants. Kept while the policy file outlives its component.
    pub granted: Option<Digest>,
    /// The text of its policy file, empty where it has none.
    pub policy: String,
    /// True where this version serves without grants (changed bytes under an old policy).
    pub without_grants: bool,
    /// Public names of its tools: nobody else may take them.
    pub tools: Vec<String>,
    /// Public names of its prompts; its own as well.
    pub prompts: Vec<String>,
    /// URIs of its resources; its own as well.
    pub resources: Vec<String>,
    /// Its URI templates; its own as well.
    pub templates: Vec<String>,
    /// What it listed, as JSON text; empty where no version serves.
    pub listed: String,
    /// When this version was adopted.
    pub adopted_at: UnixMillis,
    /// The newest refused candidate, if any: JSON of `plugins::Refusal`.
    pub refusal: Option<String>,
}

impl PluginRow {
    /// Each name that is its own, with its kind: 0 tools, 1 prompts, 2 resources, 3 templates.
    pub fn names(&self) -> impl Iterator<Item = (usize, &str)> {
        [&self.tools, &self.prompts, &self.resources, &self.templates]
            .into_iter()
            .enumerate()
            .flat_map(|(kind, names)| names.iter().map(move |name| (kind, name.as_str())))
    }

    /// True where both own a name.
    pub fn shares_name(&self, other: &Self) -> bool {
        let mine: HashSet<(usize, &str)> = self.names().collect();
        other.names().any(|name| mine.contains(&name))
    }
}

/// A component that no process may run any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// The component.
    pub digest: Digest,
    /// Since when.
    pub at: UnixMillis,
    /// Why, in the operator's words.
    pub reason: Option<String>,
}

/// A plugin on another replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The replica.
    pub replica: uuid::Uuid,
    /// False for one that was not heard of for so long ([`crate::config::StoreConfig::NAMES_HELD`]) that it counts no more.
    pub lives: bool,
    /// The plugin there.
    pub row: PluginRow,
}
