//! wasmtime: configuration, compile cache, limits, epoch ticker.

use std::{path::Path, sync::Arc};

use crate::base::Digest;

/// The one engine of this process, with its epoch ticker and compile cache.
pub struct Engine {
    wasmtime: wasmtime::Engine,
}

impl Engine {
    /// Epochs tick this often, in milliseconds: the longest that a guest keeps a thread past a fuel yield.
    pub const EPOCH_MS: u64 = 10;

    /// An engine whose compiled code is kept below `data` (made 0700), or not kept at all.
    ///
    /// # Errors
    /// A cache folder that cannot be made or is open to others; a platform without the features needed.
    pub fn open(data: Option<&Path>, max_instances: u32) -> anyhow::Result<Arc<Self>> {
        let _ = (data, max_instances);
        unimplemented!()
    }

    /// The engine itself.
    pub fn wasmtime(&self) -> &wasmtime::Engine {
        &self.wasmtime
    }

    /// Compiles `bytes`, or loads the compiled form of `digest`. Blocking, seconds of CPU: never on a request's path.
    ///
    /// # Errors
    /// Not a component, or one that needs features that are off.
    pub fn component(&self, digest: Digest, bytes: &[u8]) -> anyhow::Result<wasmtime::component::Component> {
        let _ = (digest, bytes);
        unimplemented!()
    }
}
