//! Calls with an idempotency key (design 6): the row comes before the run, and a repeat finds it.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Answer, Call, Client, Runs, drive::new_task, outcome::ended_answer, run::Run};
use crate::{
    base::{Digest, Fault, Principal},
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
pub(super) fn key_of(call: &Call, tool: Option<&Tool>) -> Result<Option<IdempotencyKey>, Fault> {
    let argument = tool.map(|tool| tool.plugin.policy.call_of(&tool.own_name).idempotency_argument.as_str());
    let from_argument = || {
        let value = call.arguments.get(argument.filter(|name| !name.is_empty())?)?;
        value.as_str().filter(|key| !key.is_empty()).map(str::to_owned)
    };
    let Some(key) = call.idempotency_key.clone().or_else(from_argument) else { return Ok(None) };
    if key.is_empty() || key.len() > KEY_BYTES || key.chars().any(char::is_control) {
        return Err(Fault::invalid(
            "idempotency_key_invalid",
            format!("An idempotency key is 1 to {KEY_BYTES} bytes without control characters."),
        ));
    }
    Ok(Some(IdempotencyKey { key, arguments: Digest::of(canonical_object(&call.arguments).as_bytes()) }))
}

impl Runs {
    /// Admits a keyed call, or attaches to the run that came in between.
    pub(super) async fn call_keyed(
        self: &Arc<Self>,
        run: Arc<Run>,
        key: IdempotencyKey,
        text: String,
    ) -> Answer {
        let mut new = new_task(&run, Vec::new(), run.tool.plugin.policy.limits.active_time);
        new.key = Some(key);
        // The commit must not be torn by a client that leaves: a row without a driver would wait for ever.
        let runs = self.clone();
        let started = tokio::spawn(async move {
            match runs.tasks.admit(new).await {
                Ok(Admission::Fresh(held, _)) => runs.launch(run, text, Some(held)).await,
                Ok(Admission::Repeat(task)) => {
                    runs.attach(&run.principal, run.client, Some(&run.tool), *task).await
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
        let within = if client.tasks { call.deadline } else { call.hold };
        let waits_for_input = task.status == Status::InputRequired;
        let task = if task.end.is_some() || (client.tasks && waits_for_input) {
            task
        } else {
            match self.tasks.wait_ended(principal, task.id, within).await {
                Ok(task) => task,
                Err(fault) => return Answer::Error(fault),
            }
        };
        if let Some(end) = task.end {
            return ended_answer(end);
        }
        if !client.tasks {
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

/// JSON with sorted keys, so that equal arguments have equal text.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => canonical_object(map),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        leaf => leaf.to_string(),
    }
}

fn canonical_object(map: &Map<String, Value>) -> String {
    let mut keys: Vec<_> = map.iter().collect();
    keys.sort_by_key(|(key, _)| key.as_str());
    let members: Vec<_> = keys
        .into_iter()
        .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical(value)))
        .collect();
    format!("{{{}}}", members.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::canonical;

    #[test]
    fn the_order_of_members_does_not_matter() {
        let one = json!({"b": [1, {"y": 2, "x": "é\""}], "a": null});
        let two = json!({"a": null, "b": [1, {"x": "é\"", "y": 2}]});
        assert_eq!(canonical(&one), canonical(&two));
        assert_ne!(canonical(&one), canonical(&json!({"a": null, "b": [{"x": "é\"", "y": 2}, 1]})));
    }
}
