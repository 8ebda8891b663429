//! The one place where capabilities are wired. WASI 0.2 is linked whole; nothing is granted by it. Then what
//! a run must see by its own rules is put over wasmtime's: clocks, polls, randomness, standard streams,
//! environment, exit, and the parts of the file system that open something or outlive a call.

use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime_wasi::p2::bindings as p2;

use super::{State, bindings::PluginPre, call, env, files, http, poll, stdio};
use crate::engine::Engine;

/// The interface that every plugin exports.
const TOOLS: &str = "layby:plugin/tools@0.1.0";
/// Its name without the version.
const TOOLS_ANY: &str = "layby:plugin/tools";

/// A component that is linked and type-checked, ready to instantiate.
#[derive(Clone)]
pub struct Prepared {
    pub(super) pre: PluginPre<State>,
}

/// The linker with every capability; made once per engine.
pub struct Linked {
    linker: Linker<State>,
}

impl Linked {
    /// Wires every capability once.
    ///
    /// # Errors
    /// A clash of names: a bug.
    pub fn new(engine: &Engine) -> anyhow::Result<Self> {
        let mut linker = Linker::new(engine.wasmtime());
        wire(&mut linker).map_err(|e| anyhow::anyhow!("a capability cannot be linked: {e:#}"))?;
        Ok(Self { linker })
    }

    /// Links `component` against everything.
    ///
    /// # Errors
    /// An import that cannot be satisfied, or a missing export: the text names it.
    pub fn prepare(&self, component: &Component) -> anyhow::Result<Prepared> {
        let pre = self
            .linker
            .instantiate_pre(component)
            .map_err(|e| anyhow::anyhow!("it imports something that this host does not have: {e:#}"))?;
        self.check_exports(component)?;
        let pre = PluginPre::new(pre).map_err(|e| {
            anyhow::anyhow!("its export `{TOOLS}` is not the interface that this host calls: {e:#}")
        })?;
        Ok(Prepared { pre })
    }

    fn check_exports(&self, component: &Component) -> anyhow::Result<()> {
        let engine = self.linker.engine();
        if component.get_export_index(None, TOOLS).is_some() {
            return Ok(());
        }
        let kind = component.component_type();
        let names: Vec<&str> = kind.exports(engine).map(|(name, _)| name).collect();
        if let Some(other) = names.iter().find(|n| n.split('@').next() == Some(TOOLS_ANY)) {
            anyhow::bail!(
                "it exports `{other}`, and this host calls `{TOOLS}`; build it with this version's WIT"
            );
        }
        let has = if names.is_empty() { "nothing".into() } else { names.join("`, `") };
        anyhow::bail!(
            "it does not export `{TOOLS}` (it exports `{has}`); build it for the world `plugin` of package `layby:plugin`"
        )
    }
}

fn wire(l: &mut Linker<State>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(l)?;
    http::link(l)?;
    l.allow_shadowing(true);
    p2::clocks::wall_clock::add_to_linker::<State, HasSelf<State>>(l, |s| s)?;
    p2::clocks::monotonic_clock::add_to_linker::<State, HasSelf<State>>(l, |s| s)?;
    p2::random::random::add_to_linker::<State, HasSelf<State>>(l, |s| s)?;
    p2::random::insecure::add_to_linker::<State, HasSelf<State>>(l, |s| s)?;
    p2::random::insecure_seed::add_to_linker::<State, HasSelf<State>>(l, |s| s)?;
    poll::link(l)?;
    stdio::link(l)?;
    env::link(l)?;
    files::link(l)?;
    call::link(l)?;
    l.allow_shadowing(false);
    Ok(())
}
