//! Fixed bounds of subscriptions: they protect the host, and no client should depend on them.

use crate::base::{ByteSize, Millis};

/// Bounds of one `subscriptions/listen`.
#[derive(Clone, Copy, Debug)]
pub struct ListenRules;

impl ListenRules {
    /// Resources, and tasks, that one subscription may watch: far more than one agent follows at once.
    pub const WATCHED: usize = 256;
    /// Longest URI of a watched resource: what browsers and proxies carry.
    pub const URI: ByteSize = ByteSize::kib(2);
    /// How often watched tasks are read without a signal: another process may run them. As slow as a client
    /// that polls.
    pub const LOOK: Millis = Millis::from_secs(5);
}
