//! What effects of all kinds have in common: they are granted when they begin, and the journal has their start before.

use std::sync::Arc;

use super::{Abort, Caller, Granted};
use crate::journal::Journal;

/// What policy grants now.
///
/// # Errors
/// Nobody can say: the host's failure, and not the run's.
pub(super) async fn granted(caller: &dyn Caller) -> Result<Arc<Granted>, Abort> {
    match caller.granted() {
        Some(granted) => Ok(granted),
        None => caller.find_granted().await.map_err(Abort::Host),
    }
}

/// Returns once all that is recorded is committed, where the run is a task; never where it is being stopped. Before an
/// effect, so that it is known to have begun; and after one that must not happen twice, so that whatever its guest does or
/// says next comes after what is known of it.
pub(super) async fn committed(caller: &dyn Caller) {
    if caller.commit().await.is_err() {
        std::future::pending().await
    }
}

/// Says, where it is dropped, that nothing was done of an effect, although its start is recorded.
pub(super) struct Unsent<'a> {
    journal: &'a Journal,
    k: u32,
}

impl<'a> Unsent<'a> {
    /// Of the effect numbered `k`.
    pub(super) const fn new(journal: &'a Journal, k: u32) -> Self {
        Self { journal, k }
    }

    /// From now on it may have happened.
    pub(super) fn leaves(self) {
        std::mem::forget(self);
    }
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        self.journal.answered(self.k, &[]);
    }
}
