//! What effects of all kinds have in common: the journal has their start before they begin.

use crate::journal::Journal;

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
