//! Fixed bounds of `layby stdio`: one client, which started this process.

use crate::base::{ByteSize, Millis};

/// Bounds of one process's standard streams.
#[derive(Clone, Copy, Debug)]
pub struct StdioRules;

impl StdioRules {
    /// Requests that are answered at once; the next is refused. Far more than one agent has open.
    pub const REQUESTS: usize = 1024;
    /// Messages that wait for a client that does not read; then whoever has more waits too.
    pub const QUEUE: usize = 64;
    /// Bytes between the two eras: a few messages.
    pub const PIPE: ByteSize = ByteSize::kib(64);
    /// How long the first list may wait for plugins that are being compiled: half of the common time-out of 60 s.
    pub const SETTLE: Millis = Millis::from_secs(30);
    /// How long calls may still be answered once the input has ended: clients send SIGTERM after 2 s.
    pub const DRAIN: Millis = Millis(1500);
    /// How long the end of what was cancelled, and of the output, may take.
    pub const END: Millis = Millis(1000);
}
