//! What one caller may take of the host.

use serde::{Deserialize, Serialize};

/// Bounds on one principal. They hold where callers say who they are: without authentication all are one principal, and
/// the host's own bounds are theirs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct CallerLimits {
    /// Requests that start a run, in a second: calls, prompts, resources, completions. 500: a fleet of agents behind one
    /// token, and a fraction of what a host does.
    pub calls: u32,
    /// Requests about tasks, in a second: polls, answers, cancellations. 2,000: the polls of 2,000 tasks at the usual
    /// second.
    pub polls: u32,
    /// All other requests, in a second: lists and subscriptions. 200: clients list once and are told of changes.
    pub requests: u32,
    /// Tasks that have not ended, working and waiting, at once: half of the host's, so that one caller leaves room for
    /// others.
    pub live_tasks: u32,
    /// Runs that hold a slot at once; further calls wait. 32: half of the host's, so that one caller leaves room for others.
    /// Runs that go on after a wait count, and do not wait for it themselves.
    pub running: u32,
    /// Calls that wait for a slot at once; past it a call gets `caller_busy`. 512: half of the host's queue.
    pub queued: u32,
}

impl Default for CallerLimits {
    fn default() -> Self {
        Self { calls: 500, polls: 2000, requests: 200, live_tasks: 50_000, running: 32, queued: 512 }
    }
}
