//! A request that comes back to a run that is a row, by its `requestState` or its idempotency key: whichever process
//! has the run, and whether or not it has an instance, the row tells what comes next.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    Answer, Call, Client, Runs, host_stopping,
    outcome::ended_answer,
    rounds::Follower,
    target::{Kind, Target},
};
use crate::{
    base::{Digest, Fault, Millis, Principal, TaskId},
    config::{CallPolicy, EarlyInput, TaskRules},
    store::{QuestionKind, Status, Task},
};

/// What a request is told of a run, and how.
pub(super) struct Wish {
    pub(super) principal: Principal,
    pub(super) client: Client,
    pub(super) kind: Kind,
    /// Names the request, for its retries.
    pub(super) mark: Digest,
    pub(super) call: CallPolicy,
    /// It came with a `requestState`, not with a key alone.
    pub(super) by_state: bool,
    /// It can be asked: it is of a revision that has `InputRequiredResult`s or tasks.
    pub(super) asks: bool,
}

/// The place of a request that waits. Where its client leaves before the answer, and nobody else waits here, nobody
/// would come back to what the run does.
struct Waits {
    runs: Arc<Runs>,
    task: TaskId,
    place: Follower,
    armed: bool,
}

impl Waits {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        // A host that stops drops requests too: their clients have not left.
        if !self.place.leave() || !self.armed || self.runs.drain.is_cancelled() {
            return;
        }
        let (runs, task) = (self.runs.clone(), self.task);
        let told = async move {
            if let Err(fault) = runs.tasks.leave(task).await {
                tracing::debug!(%task, "a run whose client left was not stopped: {fault}");
            }
        };
        self.runs.drivers.spawn_on(told, &self.runs.guests_handle);
    }
}

impl Runs {
    /// Takes what a retry says to its run, and follows the run to what comes next.
    pub(super) async fn again(self: &Arc<Self>, mut call: Call, state: &str) -> Answer {
        // Only a tool's call becomes a task.
        let kind = call.target.kind();
        call.client.tasks &= kind == Kind::Tool;
        call.client.bridge &= kind == Kind::Tool;
        let mark = call.target.mark(&call.principal);
        let named = match self.rounds.seal.open(state, &mark) {
            Ok(named) => named,
            Err(why) => {
                tracing::info!(principal = %call.principal, "a request state was refused: {why}");
                return Answer::Error(Fault::invalid(
                    "request_state_invalid",
                    "The requestState was not made for this request, or its time is over. Call again without it.",
                ));
            }
        };
        let wish = Wish {
            call: self.policy_of(&call.target),
            kind,
            principal: call.principal,
            client: call.client,
            mark,
            by_state: true,
            asks: true,
        };
        let task = TaskId(named.run);
        let waits =
            Waits { runs: self.clone(), task, place: self.rounds.follow(task, call.outlet), armed: true };
        let taken = self.tasks.retry(&wish.principal, task, named.round, call.input.responses).await;
        let answer = match taken {
            Ok(task) => self.follow(&wish, task).await,
            Err(fault) if matches!(fault.code, "task_unknown" | "task_expired") => {
                Answer::Error(Fault::invalid(
                    "request_state_lost",
                    "The run that asked is gone, and its outcome is kept no longer. Call again without requestState and \
                     inputResponses.",
                ))
            }
            Err(fault) => Answer::Error(fault),
        };
        waits.disarm();
        answer
    }

    /// The race of a request against its run's next question, its end, and the time that a response may be held.
    pub(super) async fn follow(&self, wish: &Wish, mut task: Task) -> Answer {
        let began = Instant::now();
        let hold = began + wish.call.hold.duration();
        let mut until = began + wish.client.patience(&wish.call).duration();
        loop {
            if let Some(answer) = self.told(wish, &task).await {
                return answer;
            }
            let left = Millis::from(until.saturating_duration_since(Instant::now()));
            if left == Millis(0) {
                let over = match wish.client.promotes() {
                    true => self.handed_out(task).await,
                    false => self.given_up(wish, task).await,
                };
                match over {
                    Ok(Next::Answer(answer)) => return answer,
                    Ok(Next::Look(row)) => task = *row,
                    Err((fault, _)) if Instant::now() >= hold => return Answer::Error(fault),
                    // The work must not be lost by a store that fails for a moment.
                    Err((fault, row)) => {
                        tracing::warn!(task = %row.id, "holding a call on, its row cannot be changed: {fault}");
                        until = hold.min(Instant::now() + TaskRules::STORE_RETRY.duration());
                        task = *row;
                    }
                }
                continue;
            }
            let is_news =
                |task: &Task| task.end.is_some() || wish.asks && task.status == Status::InputRequired;
            let row = tokio::select! {
                biased;
                () = self.stop.cancelled() => return Answer::Error(host_stopping()),
                row = self.tasks.wait_for(&wish.principal, task.id, left, is_news) => row,
            };
            task = match row {
                Ok(row) => row,
                Err(fault) if fault.code.starts_with("store_") && Instant::now() < hold => {
                    tracing::debug!(task = %task.id, "following a run on, its row cannot be read: {fault}");
                    tokio::time::sleep(TaskRules::STORE_RETRY.duration()).await;
                    continue;
                }
                Err(fault) => return Answer::Error(fault),
            };
        }
    }

    /// The answer that the row holds for this request, if it holds one.
    async fn told(&self, wish: &Wish, task: &Task) -> Option<Answer> {
        let promotes = wish.client.promotes();
        if let Some(end) = &task.end {
            // An equal repeat gets an equal answer.
            let had_handle = wish.by_state && task.revealed && promotes;
            return Some(match had_handle {
                true => Answer::Task(Box::new(task.clone())),
                false => ended_answer(end.clone(), wish.kind),
            });
        }
        if task.status != Status::InputRequired || !wish.asks {
            return None;
        }
        let kinds = || task.pending().map(|q| q.kind);
        if promotes && (task.revealed || !by_retry(wish.client, &wish.call, kinds())) {
            // What it asks it asks in its task. Where that cannot be written now, the time goes on.
            return match self.tasks.reveal(task.id).await {
                Ok(task) if task.revealed => Some(Answer::Task(Box::new(task))),
                Ok(task) => Some(ended_answer(task.end?, wish.kind)),
                Err(fault) => {
                    tracing::warn!(task = %task.id, "the handle of a call is not given out yet: {fault}");
                    tokio::time::sleep(TaskRules::STORE_RETRY.duration()).await;
                    None
                }
            };
        }
        match super::ask::lacking(wish.client, kinds()) {
            None => Some(self.rounds.ask(task, &wish.mark, self.tasks.now())),
            Some(required) => Some(Answer::Error(Fault::missing_capability(
                required,
                "This run asks something that your client did not declare it can answer.",
            ))),
        }
    }

    /// The deadline of a request whose client can follow a task.
    async fn handed_out(&self, task: Task) -> Result<Next, (Fault, Box<Task>)> {
        match self.tasks.reveal(task.id).await {
            Ok(task) if task.revealed => Ok(Next::Answer(Answer::Task(Box::new(task)))),
            // It has ended meanwhile.
            Ok(task) => Ok(Next::Look(Box::new(task))),
            Err(fault) => Err((fault, Box::new(task))),
        }
    }

    /// The end of `hold`: nobody waits any more, and where nobody can come back the run is stopped.
    async fn given_up(&self, wish: &Wish, task: Task) -> Result<Next, (Fault, Box<Task>)> {
        let goes_on = task.key.is_some() || task.revealed;
        if !goes_on {
            let row = self.tasks.leave(task.id).await.map_err(|fault| (fault, Box::new(task)))?;
            if row.cancel_requested.is_none() {
                // It has just ended, or asked.
                return Ok(Next::Look(Box::new(row)));
            }
        }
        let (hold, kind) = (wish.call.hold, wish.kind);
        let fault = match (kind, goes_on) {
            (Kind::Tool, true) => Fault::tasks_required(
                "The call still runs. Declare the io.modelcontextprotocol/tasks extension to get its handle, or repeat it \
                 later.",
            ),
            (Kind::Tool, false) => Fault::tasks_required(format!(
                "The call did not end within {hold} (call.hold), and was stopped. Declare the \
                 io.modelcontextprotocol/tasks extension, and a call that takes long becomes a task."
            )),
            _ => Fault::internal(
                "held_too_long",
                format!("The request did not end within {hold} (call.hold), and was stopped."),
            ),
        };
        Ok(Next::Answer(Answer::Error(fault)))
    }

    /// How calls of a target are held now. One that is gone has no settings of its own any more.
    fn policy_of(&self, target: &Target) -> CallPolicy {
        let catalog = self.plugins.catalog();
        let found = match target {
            Target::Tool { name, .. } => {
                catalog.tools.get(name).map(|t| t.plugin.policy.call_of(&t.own_name).clone())
            }
            Target::Prompt { name, .. } => catalog.prompts.get(name).map(|p| p.plugin.policy.call.clone()),
            Target::Resource { uri } => catalog.resource(uri).map(|p| p.policy.call.clone()),
            Target::Completion { .. } => None,
        };
        found.unwrap_or_default()
    }
}

/// What the end of a request's time comes to.
enum Next {
    Answer(Answer),
    /// The row has something new.
    Look(Box<Task>),
}

/// True where questions of these kinds go to this client by an `InputRequiredResult`, and not by a task. What a client
/// cannot answer its model does, through the task (bridge tools).
pub(super) fn by_retry(client: Client, call: &CallPolicy, kinds: impl Iterator<Item = QuestionKind>) -> bool {
    directly(client, kinds) && (!client.tasks || call.early_input == EarlyInput::Mrtr)
}

/// True where the client answers all of these itself.
pub(super) fn directly(client: Client, mut kinds: impl Iterator<Item = QuestionKind>) -> bool {
    !client.bridge || kinds.all(|kind| client.answers(kind))
}
