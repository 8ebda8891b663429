//! The time of day that all processes on one store agree on.

use std::sync::Arc;

use super::Store;
use crate::base::{Clock, UnixMillis};

/// The clock that tasks go by: the store's, where it has one ([`Store::now`]), else `local`. So a host whose own clock is
/// wrong, or jumps, neither ends other hosts' tasks before their time nor makes some that are over at once.
pub fn clock(store: Arc<dyn Store>, local: Arc<dyn Clock>) -> Arc<dyn Clock> {
    Arc::new(StoreClock { store, local })
}

struct StoreClock {
    store: Arc<dyn Store>,
    local: Arc<dyn Clock>,
}

impl Clock for StoreClock {
    fn now(&self) -> UnixMillis {
        self.store.now(self.local.now())
    }
}
