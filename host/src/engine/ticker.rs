//! The thread that advances the epoch, so that running guests yield; it also sees when the process did not run.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// How long this process was not run at all: stopped by a signal or a debugger, or its container frozen. What a run may
/// take is not counted meanwhile. The time in which the machine itself slept is not in it: no clock of runs counts that.
#[derive(Debug)]
pub struct Stalls(Mutex<Seen>);

#[derive(Debug)]
struct Seen {
    /// When the ticker was last seen to run.
    beat: Instant,
    stalled: Duration,
}

impl Stalls {
    /// A ticker that is later than this was stopped: on a busy machine it is late by some milliseconds.
    const LEAST: Duration = Duration::from_millis(250);

    fn new(now: Instant) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Seen { beat: now, stalled: Duration::ZERO })))
    }

    /// All of it so far. It grows only, and counts a pause at once that has just ended, before the ticker has.
    pub fn sum(&self) -> Duration {
        self.sum_at(Instant::now())
    }

    fn sum_at(&self, now: Instant) -> Duration {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.stalled + gap(seen.beat, now)
    }

    /// The ticker runs.
    fn beat(&self, now: Instant) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let gap = gap(seen.beat, now);
        seen.stalled += gap;
        seen.beat = now;
    }
}

fn gap(beat: Instant, now: Instant) -> Duration {
    let gap = now.saturating_duration_since(beat);
    if gap > Stalls::LEAST { gap } else { Duration::ZERO }
}

/// Ticks until dropped, which ends and joins its thread.
pub(super) struct Ticker {
    pub(super) stalls: Arc<Stalls>,
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Starts ticking `engine` each `every`. The thread does not keep the engine alive.
    ///
    /// # Errors
    /// The system gives no more threads.
    pub(super) fn start(engine: &wasmtime::Engine, every: Duration) -> std::io::Result<Self> {
        let engine = engine.weak();
        let (stop, stopped) = sync_channel::<()>(0);
        let stalls = Stalls::new(Instant::now());
        let beats = stalls.clone();
        let thread = std::thread::Builder::new().name("epochs".into()).spawn(move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                beats.beat(Instant::now());
                match engine.upgrade() {
                    Some(engine) => engine.increment_epoch(),
                    None => return,
                }
            }
        })?;
        Ok(Self { stalls, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It only ticks, so it cannot have panicked.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_counts_once_and_from_the_moment_it_is_over() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let stalls = Stalls::new(start);
        let sum = |ms: u64| stalls.sum_at(at(ms)).as_millis();
        for ms in (10..=500).step_by(10) {
            stalls.beat(at(ms));
        }
        // A busy machine.
        stalls.beat(at(700));
        assert_eq!((sum(700), sum(950)), (0, 0));
        // Looked at before the ticker has.
        assert_eq!(sum(4700), 4000);
        stalls.beat(at(4701));
        assert_eq!((sum(4701), sum(4800)), (4001, 4001));
        stalls.beat(at(4711));
        stalls.beat(at(5011));
        assert_eq!(sum(5100), 4301);
    }
}
