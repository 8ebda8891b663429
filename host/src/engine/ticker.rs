//! The thread that advances the epoch, so that running guests yield.

use std::{
    sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    thread::JoinHandle,
    time::Duration,
};

/// Ticks until dropped, which ends and joins its thread.
pub(super) struct Ticker {
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
        let thread = std::thread::Builder::new().name("epochs".into()).spawn(move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                match engine.upgrade() {
                    Some(engine) => engine.increment_epoch(),
                    None => return,
                }
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
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
