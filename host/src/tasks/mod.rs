//! Tasks: the state machine, TTL, questions and answers, idempotency, change signals, sweeping.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;
use tokio::sync::broadcast;

use crate::{
    base::{Clock, Digest, Fault, Millis, Principal, TaskId},
    config::{CallPolicy, Config},
    store::{Answer, End, IdempotencyKey, Question, Store, Task},
};

/// What a run says of itself when it becomes a task.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// Its handle, made by the caller of [`Tasks::create`].
    pub id: TaskId,
    /// Who called.
    pub principal: Principal,
    /// Public tool name.
    pub tool: String,
    /// Plugin name.
    pub plugin: String,
    /// Component.
    pub digest: Digest,
    /// The tool's settings: TTL, poll interval and input deadline follow from them.
    pub call: CallPolicy,
    /// Active time that the run may still use.
    pub active_time: Millis,
    /// Already known progress text.
    pub status_message: Option<String>,
    /// Questions that it asks already: the task is born `input_required`.
    pub questions: Vec<Question>,
    /// Idempotency, for [`Tasks::admit`].
    pub key: Option<IdempotencyKey>,
}

/// The lease holder's view of one live task. Dropping it ends the signals, not the task.
#[derive(Debug)]
pub struct Held {
    /// The task's handle.
    pub id: TaskId,
    /// Carried by every write.
    pub fence: u64,
    signals: tokio::sync::mpsc::Receiver<Signal>,
}

impl Held {
    /// The next thing somebody asked of this task; pends while there is none. Cancel-safe.
    pub async fn signal(&mut self) -> Signal {
        match self.signals.recv().await {
            Some(s) => s,
            None => std::future::pending().await,
        }
    }
}

/// What others ask of a live task.
#[derive(Debug, Clone, PartialEq)]
pub enum Signal {
    /// Every question of the present round has its answer, in the order they were put.
    Answers(Vec<Answer>),
    /// The input deadline passed, and the tool wants to go on (`timed-out`).
    TimedOut,
    /// Cancellation was asked for (committed).
    Cancel,
    /// The TTL passed, or the input deadline of a tool that fails then: stop now; then settle with this end.
    Stop(End),
}

/// How [`Tasks::admit`] ended.
#[derive(Debug)]
pub enum Admission {
    /// A new run; its row is committed.
    Fresh(Held, Box<Task>),
    /// The same key, tool and arguments: the run there is, live or ended.
    Repeat(Box<Task>),
}

/// The tasks of this process and its store. Cheap to clone handles of: use `Arc`.
pub struct Tasks {
    #[expect(dead_code)]
    store: Arc<dyn Store>,
}

impl Tasks {
    /// Takes the store into service: registers this process, ends what dead processes left, and
    /// starts heartbeat, attention and sweep loops, which end with [`Tasks::close`].
    ///
    /// # Errors
    /// `store_…` faults where the database cannot be used.
    pub async fn open(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        config: &Config,
    ) -> Result<Arc<Self>, Fault> {
        let _ = (store, clock, config);
        unimplemented!()
    }

    // --- the run's side ---

    /// Commits a new, revealed task (P1: when this returns, a poll from anywhere resolves).
    /// Cancel-safe only inside a spawned task: see `ARCHITECTURE.md`.
    ///
    /// # Errors
    /// `too_many_tasks`, `low_disk_space`, `store_…`.
    pub async fn create(&self, new: NewTask) -> Result<(Held, Task), Fault> {
        let _ = new;
        unimplemented!()
    }

    /// Commits a keyed run before it starts, or finds its twin. Not revealed yet.
    ///
    /// # Errors
    /// `idempotency_key_reused` (other arguments), and those of [`Tasks::create`].
    pub async fn admit(&self, new: NewTask) -> Result<Admission, Fault> {
        let _ = new;
        unimplemented!()
    }

    /// Marks a keyed task as handed out, with its TTL from now on as promised.
    ///
    /// # Errors
    /// `store_…`; `task_unknown` where it is gone.
    pub async fn reveal(&self, id: TaskId) -> Result<Task, Fault> {
        let _ = id;
        unimplemented!()
    }

    /// Puts questions: the task becomes `input_required` (keys made unique over its life).
    ///
    /// # Errors
    /// `task_fenced` or `task_ended` where the run no longer owns it (the run must stop), `store_…`.
    pub async fn ask(&self, held: &Held, questions: Vec<Question>, call: &CallPolicy) -> Result<Task, Fault> {
        let _ = (held, questions, call);
        unimplemented!()
    }

    /// Says how far the run has come; written at most once per poll interval (the last one wins).
    pub fn progress(&self, held: &Held, message: String) {
        let _ = (held, message);
        unimplemented!()
    }

    /// Ends the task. Retries until the lease ends; a task that has ended already stays as it is
    /// (the returned row says how).
    ///
    /// # Errors
    /// `task_fenced`, `store_…`.
    pub async fn settle(&self, held: &Held, end: End) -> Result<Task, Fault> {
        let _ = (held, end);
        unimplemented!()
    }

    // --- the client's side: every method checks the principal; another's task reads as unknown ---

    /// The task as it is.
    ///
    /// # Errors
    /// `task_unknown`, `task_expired` (with how it had ended), `store_…`.
    pub async fn get(&self, principal: &Principal, id: &str) -> Result<Task, Fault> {
        let _ = (principal, id);
        unimplemented!()
    }

    /// Takes answers by key, all or none; unknown and answered keys are ignored. `responses` are
    /// MCP result objects (`{"action": "accept", "content": …}` for elicitation).
    ///
    /// # Errors
    /// `answers_invalid` (with the reason per key), `task_unknown`, `task_expired`, `store_…`.
    pub async fn update(
        &self,
        principal: &Principal,
        id: &str,
        responses: BTreeMap<String, Value>,
    ) -> Result<(), Fault> {
        let _ = (principal, id, responses);
        unimplemented!()
    }

    /// Asks for cancellation; committed when this returns. Of an ended task: nothing changes.
    ///
    /// # Errors
    /// `task_unknown`, `task_expired`, `store_…`.
    pub async fn cancel(&self, principal: &Principal, id: &str) -> Result<(), Fault> {
        let _ = (principal, id);
        unimplemented!()
    }

    /// Waits until the task has ended or `within` has passed; the row as it is then.
    ///
    /// # Errors
    /// As [`Tasks::get`].
    pub async fn wait_ended(&self, principal: &Principal, id: TaskId, within: Millis) -> Result<Task, Fault> {
        let _ = (principal, id, within);
        unimplemented!()
    }

    /// Every committed change of a task in this process.
    pub fn changes(&self) -> broadcast::Receiver<TaskId> {
        unimplemented!()
    }

    /// Ends the loops and hands the lease back; live tasks must have been stopped before.
    pub async fn close(&self) {
        unimplemented!()
    }
}
