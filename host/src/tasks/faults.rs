//! The errors of this room, each with its stable code (`docs/errors.md`).

use serde_json::{Value, json};

use crate::{
    base::{Fault, Millis, UnixMillis},
    store::{End, Refused, Status, Task},
};

pub(super) fn unknown() -> Fault {
    Fault::invalid("task_unknown", "there is no such task: use the taskId that tools/call returned")
}

/// A handle past its TTL: how the task had ended stays known.
pub(super) fn expired(status: Status, reason: Option<&str>, at: UnixMillis) -> Fault {
    let message = format!(
        "the task is past its TTL, and its result is gone; it had ended \"{}\": call the tool again",
        status.as_str()
    );
    let mut fault = Fault::invalid("task_expired", message)
        .with("status", status.as_str().into())
        .with("expiredAt", at.rfc3339().into());
    if let Some(reason) = reason {
        fault = fault.with("statusMessage", reason.into());
    }
    fault
}

/// Work that was still running at its TTL.
pub(super) fn expired_at_work(task: &Task) -> End {
    let message = format!("the task was stopped: it was still running at the end of its TTL of {}", task.ttl);
    End::Failed(Fault::internal("task_expired", message).to_json())
}

/// A question that nobody answered.
pub(super) fn input_timed_out(task: &Task) -> End {
    let keys: Vec<&str> = task.pending().map(|q| q.key.as_str()).collect();
    let message = format!("nobody answered in time: {}", keys.join(", "));
    End::Failed(Fault::internal("input_timed_out", message).with("keys", json!(keys)).to_json())
}

/// Answers after the input deadline.
pub(super) fn too_late() -> Fault {
    Fault::invalid("input_timed_out", "the questions have run out, and take no answers any more")
}

/// Its component may not run any more.
pub(super) fn revoked(task: &Task) -> End {
    End::Failed(Fault::revoked(task.digest).to_json())
}

/// The process that ran the task is gone.
pub(super) fn interrupted() -> End {
    let message = "the task was interrupted: the host process that ran it has stopped; call the tool again";
    End::Failed(Fault::internal("interrupted", message).to_json())
}

/// The process that ran the task is gone, and the task has done what cannot be replayed.
fn not_resumable(why: &str) -> End {
    let message = format!(
        "the task was interrupted: the host process that ran it has stopped, and it could not be resumed, because {why}; \
         call the tool again"
    );
    End::Failed(Fault::internal("not_resumable", message).to_json())
}

/// The end of a task that nobody runs and nobody can go on with.
pub(super) fn end_of_left(task: &Task) -> End {
    match &task.pinned {
        _ if task.cancel_requested.is_some() => End::Cancelled,
        Some(why) if task.pieces > 0 => not_resumable(why),
        _ => interrupted(),
    }
}

pub(crate) fn answers_invalid(reasons: Vec<(String, String)>) -> Fault {
    let text: Vec<String> = reasons.iter().map(|(key, why)| format!("{key}: {why}")).collect();
    let reasons: serde_json::Map<String, Value> =
        reasons.into_iter().map(|(key, why)| (key, why.into())).collect();
    let message = format!("no answer was taken, because some do not fit: {}", text.join("; "));
    Fault::invalid("answers_invalid", message).with("reasons", Value::Object(reasons))
}

pub(super) fn key_reused() -> Fault {
    Fault::invalid(
        "idempotency_key_reused",
        "this idempotency key was used for a call with other arguments: use a new key for a new call",
    )
}

/// `name` is the option that sets `limit`.
pub(super) fn too_many_tasks(name: &str, limit: u64) -> Fault {
    let whose = if name.starts_with("callers.") { "you have" } else { "the host has" };
    let message = format!("{whose} {limit} live tasks, the limit ({name}): try again when some have ended");
    Fault::internal("too_many_tasks", message).with("limit", limit.into()).with("name", name.into())
}

pub(super) fn too_many_waiting(name: &str, limit: u32) -> Fault {
    let message = format!(
        "{limit} runs wait for a client to repeat its request with answers, the limit ({name}): answer some of them, or \
         try again when they have run out"
    );
    Fault::internal("too_many_waiting", message).with("limit", limit.into()).with("name", name.into())
}

/// A retry that contradicts what was taken.
pub(super) fn already_answered() -> Fault {
    Fault::invalid(
        "input_already_answered",
        "These questions have other answers already, which stay. Call again without requestState for a new run.",
    )
}

pub(super) fn low_disk_space() -> Fault {
    Fault::internal(
        "low_disk_space",
        "the host has too little free space to keep another task (host.min-free-space): the operator must make space",
    )
}

pub(super) fn polling_too_fast(retry_after: Millis) -> Fault {
    Fault::invalid("polling_too_fast", "the task is polled too often: wait for its pollIntervalMs")
        .with("retryAfterMs", retry_after.0.into())
}

/// What a refused move of the run means to it: in each case it must not go on as if it had happened.
pub(super) fn refused(refused: &Refused, task: &Task) -> Fault {
    match refused {
        Refused::Ended => Fault::internal("task_ended", "the task has ended: the run must stop")
            .with("status", task.status.as_str().into()),
        Refused::Fenced => {
            Fault::internal("task_fenced", "the task is another process's now: the run must stop")
        }
        Refused::NotNow(_) if task.cancel_requested.is_some() => {
            Fault::internal("task_cancelling", "cancellation was asked for: the run must stop")
        }
        other => Fault::internal("task_not_now", other.to_string()),
    }
}
