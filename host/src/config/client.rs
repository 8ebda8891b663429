//! Bounds of the client in `layby call`, and on what it reads. Fixed: they protect the person at the terminal, and no
//! server should depend on them.

use crate::base::{ByteSize, Millis};

/// Bounds of the client.
pub struct ClientLimits;

impl ClientLimits {
    /// Poll interval where the server names none. 1 s, as the tasks extension's own examples.
    pub const POLL_DEFAULT: Millis = Millis::from_secs(1);
    /// Shortest wait between two polls, whatever the server says: it must not make us flood it.
    pub const POLL_MIN: Millis = Millis(100);
    /// Longest wait between two polls, so that a person sees the end within a minute.
    pub const POLL_MAX: Millis = Millis::from_secs(60);
    /// How long a server may be away while a task runs. 60 s is a restart with a cold compile cache.
    pub const UNREACHABLE: Millis = Millis::from_secs(60);
    /// How long connecting may take.
    pub const CONNECT: Millis = Millis::from_secs(10);
    /// How long closing may take, so that the server hears of a cancelled call.
    pub const CLOSE: Millis = Millis::from_secs(2);
    /// Rounds of questions in one call before the client gives up on a server that never stops asking.
    pub const ROUNDS: u32 = 100;
    /// Largest file of `--answers`. Forms are filled in by hand: 1 MiB holds thousands.
    pub const ANSWERS: ByteSize = ByteSize::mib(1);
    /// Arguments from standard input. 16 MiB is more than a server takes in one request by default (4 MiB).
    pub const ARGUMENTS: ByteSize = ByteSize::mib(16);
}
