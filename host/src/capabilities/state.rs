//! The data of one store: what the host side of a run needs, made cheaply, and the rest on first use.

use std::sync::{Arc, Mutex};

use chacha20::{
    ChaCha20Rng,
    rand_core::{Rng, SeedableRng},
};
use wasmtime_wasi::{ResourceTable, WasiCtx, WasiCtxView, WasiView};

use super::{
    Abort, Caller, Granted, Setup,
    call::Asking,
    clock::RunClock,
    denied::Denied,
    files::Files,
    http::{Flights, Http},
    poll::Timers,
    random::{KEY_STREAM, Random},
    stdio::Capture,
};
use crate::{
    config::Limits,
    engine::Limiter,
    journal::{Journal, Mismatch},
};

/// The data of one store.
pub struct State {
    pub(super) limiter: Limiter,
    pub(super) limits: Limits,
    pub(super) granted: Arc<Granted>,
    pub(super) caller: Arc<dyn Caller>,
    pub(super) journal: Journal,
    pub(super) table: ResourceTable,
    pub(super) clock: RunClock,
    pub(super) timers: Timers,
    pub(super) asking: Asking,
    pub(super) denied: Denied,
    pub(super) http: Option<Box<Http>>,
    pub(super) files: Option<Box<Files>>,
    /// The end of a write is not committed yet: it is before the guest says anything to anybody.
    pub(super) owes: bool,
    pub(super) flights: Flights,
    pub(super) fuel_slice: u64,
    seed: [u8; 32],
    random: Option<Box<Random>>,
    capture: Option<Arc<Mutex<Capture>>>,
    wasi: Option<Box<WasiCtx>>,
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(http) = &self.http {
            http.stop();
        }
    }
}

impl State {
    /// The state that one instance starts with.
    pub(super) fn new(setup: Setup) -> Self {
        let Setup { limits, grants, caller, seed, journal, began, flights, fuel_slice, meter } = setup;
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles as usize);
        Self {
            limiter: Limiter::new(limits.memory.0, meter),
            journal,
            table,
            clock: RunClock::new(began),
            timers: Timers::default(),
            asking: Asking::default(),
            denied: Denied::default(),
            http: None,
            files: None,
            owes: false,
            flights,
            granted: grants,
            limits,
            caller,
            fuel_slice,
            seed,
            random: None,
            capture: None,
            wasi: None,
        }
    }

    /// The run's random streams.
    pub(super) fn random(&mut self) -> &mut Random {
        self.random.get_or_insert_with(|| Box::new(Random::new(self.seed)))
    }

    /// Where standard output, standard error and log messages go.
    pub(super) fn capture(&mut self) -> &Arc<Mutex<Capture>> {
        self.capture.get_or_insert_with(|| {
            Arc::new(Mutex::new(Capture::new(self.caller.clone(), self.limits.stderr)))
        })
    }

    /// The same, where the guest has used it.
    pub(super) fn captured(&self) -> Option<&Arc<Mutex<Capture>>> {
        self.capture.as_ref()
    }
}

impl WasiView for State {
    /// What is left to wasmtime's own WASI: the (denied) sockets. Its clocks, random sources, files and their
    /// streams are shadowed (`link.rs`).
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let ctx = self.wasi.get_or_insert_with(|| {
            let mut ctx = WasiCtx::builder();
            ctx.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
            Box::new(ctx.build())
        });
        WasiCtxView { ctx, table: &mut self.table }
    }
}

/// The key of a run's journal, from its seed.
pub fn journal_key(seed: [u8; 32]) -> [u8; 16] {
    let mut key = [0; 16];
    let mut rng = ChaCha20Rng::from_seed(seed);
    rng.set_stream(KEY_STREAM);
    rng.fill_bytes(&mut key);
    key
}

/// A host function's decision to end the run.
#[derive(Debug, thiserror::Error)]
#[error("the run ends: {0:?}")]
pub(super) struct Ended(pub Abort);

impl Ended {
    /// The guest does not what its journal has.
    pub(super) fn mismatch(mismatch: Mismatch) -> Self {
        Self(Abort::Mismatch(mismatch))
    }
}
