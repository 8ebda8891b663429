//! How long a handle lives.

use crate::{
    base::{Millis, UnixMillis},
    store::Task,
};

/// The TTL that `task` needs at `now`, and never less than it has: what was promised is kept.
///
/// The latest of the input deadline and the end of the active time that is left, counted from
/// creation, and the client's absence on top. (Planned wake-ups join them with durable runs.) An
/// ended task has neither, so its absence counts from `now`, its end. To be asked where one of them
/// moves: when the task begins, asks, goes on and ends.
pub(super) fn raised(task: &Task, now: UnixMillis) -> Millis {
    let active_until = now + task.active_left;
    let busy_until = task.input_deadline.map_or(active_until, |d| d.max(active_until));
    task.ttl.max(busy_until.since(task.created_at) + task.absence)
}
