//! wasmtime: configuration, compile cache, limits, epoch ticker.

mod cache;
mod config;
mod limits;
mod ticker;

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Context;
pub use limits::{Limiter, Refusal};
pub use ticker::Stalls;
use wasmtime::component::Component;

use crate::base::Digest;

/// Names what a guest can see of this engine: canonical NaN bits, deterministic relaxed SIMD, the features of
/// `config::features`, and fuel by instruction. To be raised with any change of these: a run is resumed only under the
/// semantics that it began with.
pub const SEMANTICS: u64 = 1;

/// The one engine of this process, with its epoch ticker and compile cache.
pub struct Engine {
    wasmtime: wasmtime::Engine,
    cache: Option<cache::Cache>,
    ticker: ticker::Ticker,
}

impl Engine {
    /// Epochs tick this often, in milliseconds: the longest that a guest keeps a thread past a fuel yield.
    pub const EPOCH_MS: u64 = 10;

    /// An engine with room for `max_instances` runs at once, whose compiled code is kept below `data`
    /// (made 0700), or not kept at all.
    ///
    /// # Errors
    /// A cache folder that cannot be made or is open to others; a platform without the features needed.
    pub fn open(data: Option<&Path>, max_instances: u32) -> anyhow::Result<Arc<Self>> {
        let wasmtime = wasmtime::Engine::new(&config::config(max_instances)).map_err(|e| {
            anyhow::anyhow!("the WebAssembly engine cannot start with room for {max_instances} runs: {e:#}")
        })?;
        let cache = data.map(|data| cache::Cache::open(data, &wasmtime)).transpose()?;
        let ticker = ticker::Ticker::start(&wasmtime, Duration::from_millis(Self::EPOCH_MS))
            .context("no thread for the epoch ticker")?;
        Ok(Arc::new(Self { wasmtime, cache, ticker }))
    }

    /// The engine itself.
    pub fn wasmtime(&self) -> &wasmtime::Engine {
        &self.wasmtime
    }

    /// How long this process was not run.
    pub fn stalls(&self) -> Arc<Stalls> {
        self.ticker.stalls.clone()
    }

    /// True where a compiled form of `digest` is kept, so that [`Engine::component`] will most likely
    /// be quick (it compiles again where the form is damaged, or from another engine).
    pub fn is_compiled(&self, digest: Digest) -> bool {
        self.cache.as_ref().is_some_and(|cache| cache.has(digest))
    }

    /// Compiles `bytes`, or loads the compiled form of `digest`. Blocking, seconds of CPU: never on a request's path.
    ///
    /// # Errors
    /// Not a component, or one that needs features that are off.
    pub fn component(&self, digest: Digest, bytes: &[u8]) -> anyhow::Result<Component> {
        debug_assert_eq!(Digest::of(bytes), digest, "the digest names the bytes");
        if let Some(form) = self.cache.as_ref().and_then(|c| c.load(digest)) {
            match self.load(&form) {
                Ok(component) => return Ok(component),
                Err(e) => tracing::warn!(%digest, "the compiled form does not load, compiling again: {e:#}"),
            }
        }
        let compiled = Component::from_binary(&self.wasmtime, bytes);
        trim();
        let component = compiled.map_err(|e| not_a_component(bytes, &e))?;
        if let Some(cache) = &self.cache {
            let saved =
                component.serialize().map_err(std::io::Error::other).and_then(|c| cache.save(digest, &c));
            if let Err(e) = saved {
                // The next start compiles again; nothing else is lost.
                tracing::warn!(%digest, "the compiled form is not kept: {e}");
            }
        }
        Ok(component)
    }

    #[allow(unsafe_code)]
    fn load(&self, form: &cache::Form) -> wasmtime::Result<Component> {
        // SAFETY: the MAC of this very file under this host's own key has just been checked: these are bytes that
        // `serialize` returned under an engine with the same compatibility hash. The file is in a folder of
        // mode 0700 and is never written again (a new form takes its name by a rename). Who could still change
        // it is this process's own user, who could as well read the key and sign.
        unsafe { Component::deserialize_file(&self.wasmtime, form.path()) }
    }
}

/// Gives back what compiling took: the allocator keeps hundreds of megabytes of a large component's otherwise, in the
/// arenas of the threads that compiled.
#[allow(unsafe_code)]
fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes no pointers, and is safe to call at any time and on any thread (malloc_trim(3)).
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Says in words why `bytes` are refused.
fn not_a_component(bytes: &[u8], error: &wasmtime::Error) -> anyhow::Error {
    // The binary format's preamble: magic, then version and layer; layer 0 is a core module.
    match bytes {
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => anyhow::anyhow!(
            "it is a core WebAssembly module, not a component; build it for `wasm32-wasip2`, or wrap it with `wasm-tools component new`"
        ),
        [0, b'a', b's', b'm', ..] => anyhow::anyhow!("the component is not valid: {error:#}"),
        _ => anyhow::anyhow!("it is not WebAssembly"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn refuses_with_a_reason_and_loads_from_its_cache() {
        let data = tempfile::tempdir().unwrap();
        let engine = Engine::open(Some(data.path()), 2).unwrap();
        let compile = |bytes: &[u8]| engine.component(Digest::of(bytes), bytes);
        assert!(compile(b"hello").err().unwrap().to_string().contains("not WebAssembly"));
        let module = wat::parse_str("(module)").unwrap();
        assert!(compile(&module).err().unwrap().to_string().contains("core WebAssembly module"));
        let component = wat::parse_str("(component (core module))").unwrap();
        assert!(compile(&component[..component.len() - 1]).err().unwrap().to_string().contains("not valid"));
        let file = data.path().join(format!("compiled/{}.code", Digest::of(&component)));
        assert!(!file.exists() && !engine.is_compiled(Digest::of(&component)));
        compile(&component).unwrap();
        assert!(file.exists() && engine.is_compiled(Digest::of(&component)));
        let inode = || std::fs::metadata(&file).unwrap().ino();
        let first = inode();
        compile(&component).unwrap();
        assert_eq!(inode(), first, "loaded, and not compiled again");
        // Damage is no error: it is compiled again.
        std::fs::write(&file, [0; 100]).unwrap();
        compile(&component).unwrap();
        assert_ne!(std::fs::read(&file).unwrap(), [0; 100]);
    }

    #[test]
    fn the_ticker_ends_with_its_engine() {
        let engine = Engine::open(None, 1).unwrap();
        let weak = engine.wasmtime().weak();
        drop(engine);
        assert!(weak.upgrade().is_none());
    }
}
