//! How long a handle lives.

use crate::{
    base::{Millis, UnixMillis},
    store::Task,
};

/// The TTL that `task` needs at `now`, and never less than it has: what was promised is kept.
///
/// The latest of the input deadline, the planned wake-up and the end of the active time that is left,
/// counted from creation, and the client's absence on top. An ended task has none of them, so its
/// absence counts from `now`, its end. To be asked where one of them moves: when the task begins, asks,
/// parks, goes on and ends.
pub(super) fn raised(task: &Task, now: UnixMillis) -> Millis {
    let active_until = now + task.active_left;
    let busy_until = active_until.max(task.input_deadline.max(task.wake_at).unwrap_or_default());
    task.ttl.max(busy_until.since(task.created_at) + task.absence)
}
