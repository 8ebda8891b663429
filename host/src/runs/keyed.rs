//! Calls with an idempotency key (design 6): the row comes before the run, and a repeat finds it.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::{
    Answer, Client, Runs, drive::new_task, outcome::ended_answer, run::Run, target::canonical_object,
};
use crate::{
    base::{Digest, Fault, Millis, Principal},
    capabilities::Request,
    plugins::Tool,
    store::{IdempotencyKey, Status, Task},
    tasks::Admission,
};

/// Longest key. 256 bytes hold a UUID, a hash or a sensible name.
const KEY_BYTES: usize = 256;

/// The key of a call: from its metadata or header, else from the argument that policy names.
///
/// # Errors
/// `idempotency_key_invalid`.
pub(super) fn key_of(
    given: Option<&str>,
    arguments: &Map<String, Value>,
    tool: Option<&Tool>,
) -> Result<Option<IdempotencyKey>, Fault> {
    let argument = tool.map(|tool| tool.plugin.policy.call_of(&tool.own_name).idempotency_argument.as_str());
    let from_argument = || {
        let value = arguments.get(argument.filter(|name| !name.is_empty())?)?;
        value.as_str().filter(|key| !key.is_empty()).map(str::to_owned)
    };
    let Some(key) = given.map(str::to_owned).or_else(from_argument) else { return Ok(None) };
    if key.is_empty() || key.len() > KEY_BYTES || key.chars().any(char::is_control) {
        return Err(Fault::invalid(
            "idempotency_key_invalid",
            format!("An idempotency key is 1 to {KEY_BYTES} bytes without control characters."),
        ));
    }
    Ok(Some(IdempotencyKey { key, arguments: Digest::of(canonical_object(arguments).as_bytes()) }))
}

impl Runs {
    /// Admits a keyed call, or attaches to the run that came in between.
    pub(super) async fn call_keyed(
        self: &Arc<Self>,
        run: Arc<Run>,
        key: IdempotencyKey,
        request: Request,
        early: BTreeMap<String, Value>,
    ) -> Answer {
        let mut new = new_task(&run, Vec::new(), run.work.plugin.policy.limits.active_time);
        new.key = Some(key);
        // The commit must not be torn by a client that leaves: a row without a driver would wait for ever.
        let runs = self.clone();
        let started = tokio::spawn(async move {
            // Durable from here on: its journal begins before its guest does.
            let head = run.past.journal.head(|| run.past.header(&run.work, &request, run.client()));
            match runs.tasks.admit(new, head.into_iter().collect()).await {
                Ok(Admission::Fresh(held, _)) => runs.launch(run, request, Some(held), early).await,
                Ok(Admission::Repeat(task)) => {
                    let tool = run.work.tool().map(AsRef::as_ref);
                    runs.attach(&run.principal, run.client(), tool, *task).await
                }
                Err(fault) => Answer::Error(fault),
            }
        });
        started.await.unwrap_or_else(|_| {
            Answer::Error(Fault::internal(
                "host_stopping",
                "The host is shutting down. Repeat the call with the same key.",
            ))
        })
    }

    /// A repeat: the stored outcome, or the same race against the deadline, then the same handle. A tool
    /// that is gone has no settings of its own any more.
    pub(super) async fn attach(
        &self,
        principal: &Principal,
        client: Client,
        tool: Option<&Tool>,
        task: Task,
    ) -> Answer {
        let call = tool.map(|t| t.plugin.policy.call_of(&t.own_name).clone()).unwrap_or_default();
        let until = Instant::now() + client.patience(&call).duration();
        let mut task = task;
        // False where its run cannot be asked here: it asks by its task, or lives in another process.
        let mut here = !client.tasks;
        loop {
            if let Some(end) = task.end {
                return ended_answer(end);
            }
            if task.status == Status::InputRequired {
                // A run that has asked by multi round-trip requests asks a repeat the same; one with tasks gets
                // its handle.
                if here && let Some(answer) = self.join(task.id, client).await {
                    return answer;
                }
                here = false;
                if client.promotes() {
                    break;
                }
            }
            let left = Millis::from(until.saturating_duration_since(Instant::now()));
            if left == Millis(0) {
                break;
            }
            let asks = here || client.promotes();
            let is_news = |task: &Task| task.end.is_some() || (asks && task.status == Status::InputRequired);
            task = match self.tasks.wait_for(principal, task.id, left, is_news).await {
                Ok(task) => task,
                Err(fault) => return Answer::Error(fault),
            };
        }
        if !client.promotes() {
            return Answer::Error(Fault::tasks_required(
                "The call with this key still runs. Declare the io.modelcontextprotocol/tasks extension to get \
                 its handle, or repeat it later.",
            ));
        }
        match self.tasks.reveal(task.id).await {
            Ok(task) => Answer::Task(Box::new(task)),
            Err(fault) => Answer::Error(fault),
        }
    }
}
