//! The server's time of day, kept going between two heartbeats by the machine's own boot-time clock.

use std::sync::{Mutex, PoisonError};

use crate::base::{UnixMillis, boottime_ms};

/// What was last heard.
#[derive(Default)]
pub(super) struct ServerClock(Mutex<Option<Anchor>>);

/// The server's time at one moment of this machine's.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Anchor {
    boottime_ms: u64,
    server_ms: u64,
}

impl Anchor {
    fn at(self, boottime_ms: u64) -> u64 {
        self.server_ms.saturating_add(boottime_ms.saturating_sub(self.boottime_ms))
    }

    /// Takes in an answer that came between two moments. Where that fits what is known, nothing changes: messages take
    /// different times, and a clock must not move with them.
    fn heard(old: Option<Self>, sent: u64, received: u64, server_ms: u64) -> Self {
        match old {
            Some(old) if (old.at(sent)..=old.at(received)).contains(&server_ms) => old,
            _ => Self { boottime_ms: sent + received.saturating_sub(sent) / 2, server_ms },
        }
    }
}

impl ServerClock {
    /// The server's time now; none before it was heard.
    pub(super) fn now(&self) -> Option<UnixMillis> {
        let anchor = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        anchor.map(|anchor| UnixMillis(anchor.at(boottime_ms())))
    }

    /// The server has answered a question that was sent at `sent` (by the boot-time clock).
    pub(super) fn heard(&self, sent: u64, server_ms: u64) {
        let mut anchor = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *anchor = Some(Anchor::heard(*anchor, sent, boottime_ms(), server_ms));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_moves_only_where_the_server_has() {
        let first = Anchor::heard(None, 100, 104, 5000);
        assert_eq!(first.at(102), 5000);
        // sent, received, the server's time, the same as before
        for (sent, received, server, same) in [
            (202, 206, 5102, true),
            (202, 302, 5100, true),
            (202, 302, 5199, true),
            (202, 206, 5105, false),
            (202, 206, 5099, false),
            (202, 206, 86_405_100, false),
            (202, 206, 1, false),
        ] {
            let now = Anchor::heard(Some(first), sent, received, server);
            assert_eq!(now == first, same, "{server} between {sent} and {received}");
            assert!(now.at(received).abs_diff(server) <= received - sent, "{now:?}");
        }
    }
}
