//! When a run that waits gives up its instance. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// A wait of a run that could be resumed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    /// When it began.
    pub(super) since: Instant,
    /// When it ends by itself; none for a question.
    pub(super) until: Option<Instant>,
}

/// The moment at which the instance goes, if it goes: after `linger`, because an answer may come at once; and not where
/// a sleep is over so soon after that a replay, which computes again what took the guest `spent`, would come too late.
pub(super) fn parks_at(wait: Wait, linger: Duration, spent: Duration) -> Option<Instant> {
    let at = wait.since + linger;
    match wait.until {
        Some(until) if until <= at + spent => None,
        _ => Some(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_wait_parks_after_lingering() {
        let now = Instant::now();
        let s = Duration::from_secs;
        let wait = |until: Option<u64>| Wait { since: now, until: until.map(|n| now + s(n)) };
        assert_eq!(parks_at(wait(None), s(5), s(0)), Some(now + s(5)));
        assert_eq!(parks_at(wait(None), s(0), s(100)), Some(now), "a person is slower than any replay");
        assert_eq!(parks_at(wait(Some(60)), s(5), s(1)), Some(now + s(5)));
        assert_eq!(parks_at(wait(Some(5)), s(5), s(0)), None);
        assert_eq!(parks_at(wait(Some(6)), s(5), s(2)), None, "it would replay longer than it sleeps");
    }
}
