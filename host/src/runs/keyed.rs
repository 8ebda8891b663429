//! Calls with an idempotency key (design 6): the row comes before the run, and a repeat finds it.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value};

use super::{
    Answer, Asks, Call, Runs,
    drive::new_task,
    follow::Wish,
    run::Run,
    target::{Kind, canonical_object},
};
use crate::{
    base::{Digest, Fault},
    capabilities::Request,
    plugins::Tool,
    store::{IdempotencyKey, Task},
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
            let now = runs.tasks.now();
            let header = || run.past.header(&run.work, &request, run.client, now, &runs.vault);
            let head = run.past.journal.head(header);
            match runs.tasks.admit(new, head.into_iter().collect()).await {
                Ok(Admission::Fresh(held, _)) => runs.launch(run, request, Some(held), early).await,
                Ok(Admission::Repeat(task)) => {
                    let wish = Wish {
                        principal: run.principal.clone(),
                        client: run.client,
                        kind: Kind::Tool,
                        mark: run.mark,
                        call: run.work.policy().clone(),
                        by_state: false,
                        asks: matches!(run.asks, Asks::Retry),
                    };
                    runs.follow(&wish, *task).await
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

    /// A repeat: the stored outcome, or the same race against the deadline, then the same questions or the same handle.
    /// A tool that is gone has no settings of its own any more.
    pub(super) async fn attach(&self, call: Call, tool: Option<&Tool>, task: Task) -> Answer {
        let wish = Wish {
            kind: Kind::Tool,
            mark: call.target.mark(&call.principal),
            call: tool.map(|t| t.plugin.policy.call_of(&t.own_name).clone()).unwrap_or_default(),
            principal: call.principal,
            client: call.client,
            by_state: false,
            asks: matches!(call.asks, Asks::Retry),
        };
        let place = self.rounds.follow(task.id, call.outlet);
        let answer = self.follow(&wish, task).await;
        // No notice may follow it.
        drop(place);
        answer
    }
}
