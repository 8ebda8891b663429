//! Ctrl-C: the first asks the call to stop, the second leaves at once.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::super::exit::Failure;

/// Counts Ctrl-C.
pub(crate) struct Interrupts {
    signal: Signal,
}

impl Interrupts {
    /// Takes SIGINT over from the default, which would end the process at once.
    ///
    /// # Errors
    /// The operating system gives no signal handler.
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self { signal: signal(SignalKind::interrupt())? })
    }

    /// Returns at the next Ctrl-C. Cancel-safe.
    pub(crate) async fn next(&mut self) {
        if self.signal.recv().await.is_none() {
            // The runtime is going down: nothing more can be pressed.
            std::future::pending::<()>().await;
        }
    }

    /// Forgets a Ctrl-C that a prompt has reported already: it raises the signal, too.
    pub(crate) async fn forget_one(&mut self) {
        let _ = tokio::time::timeout(std::time::Duration::from_millis(50), self.next()).await;
    }
}
