//! The one place where capabilities are wired. WASI 0.2 is linked whole; nothing is granted by it. Then what
//! a run must see by its own rules is put over wasmtime's: clocks, polls, randomness, standard streams,
//! environment, exit, and the parts of the file system that open something or outlive a call.

use std::{
    hash::{Hash as _, Hasher as _},
    sync::Arc,
};

use siphasher::sip::SipHasher13;
use wasmtime::component::{Component, HasSelf, InstancePre, Linker};
use wasmtime_wasi::p2::bindings as p2;

use super::{
    State,
    bindings::{completions, exports::layby::plugin as own, prompts, resources},
    call, env, files, http, poll,
    reflect::Reflected,
    sockets, stdio, table,
};
use crate::engine::Engine;

/// The package whose interfaces a plugin exports.
const PACKAGE: &str = "layby:plugin/";
/// Its version that this host calls. A component of any other version of the same major number has at least
/// what this one's are asked for, and wasmtime matches such names.
const VERSION: &str = "1.0.0";
/// What the names of all of them end with, up to the minor number.
const MAJOR: &str = "@1.";
/// The interface that every plugin exports.
const TOOLS: &str = "layby:plugin/tools@1.0.0";

/// A component that is linked and type-checked, ready to instantiate.
#[derive(Clone)]
pub struct Prepared {
    pub(super) pre: InstancePre<State>,
    pub(super) tools: Tools,
    pub(super) prompts: Option<prompts::exports::layby::plugin::prompts::GuestIndices>,
    pub(super) resources: Option<resources::exports::layby::plugin::resources::GuestIndices>,
    pub(super) completions: Option<completions::exports::layby::plugin::completions::GuestIndices>,
    pins: Option<Arc<str>>,
}

/// Where a component's tools come from.
#[derive(Clone)]
pub(super) enum Tools {
    /// Its interface `tools`.
    Listed(own::tools::GuestIndices),
    /// Its functions, each of which is one.
    Reflected(Arc<Reflected>),
}

/// Why a component is not served.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// It imports what is not there, or its interfaces are not those of a plugin.
    #[error("{0}")]
    World(String),
    /// It is no plugin of the package's, and its functions cannot be tools.
    #[error("{0}")]
    Function(String),
}

/// What a component exports beside `tools`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exports {
    /// It knows nothing of the package: its functions are its tools.
    pub functions: bool,
    /// `prompts`.
    pub prompts: bool,
    /// `resources`.
    pub resources: bool,
    /// `completions`.
    pub completions: bool,
}

impl Prepared {
    /// Names the code that it was compiled to, as far as fuel depends on it: the engine's version and settings.
    pub fn code(&self) -> u64 {
        let mut hasher = SipHasher13::new();
        self.pre.component().engine().precompile_compatibility_hash().hash(&mut hasher);
        if cfg!(feature = "test-hooks") {
            // As if another version had compiled it.
            std::env::var_os("LAYBYTEST_CODE").hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The first call that it imports and that cannot be replayed, as `INTERFACE#FUNCTION`: its runs are pinned.
    pub fn pins(&self) -> Option<&str> {
        self.pins.as_deref()
    }

    /// Which optional interfaces it has.
    pub fn exports(&self) -> Exports {
        Exports {
            functions: matches!(self.tools, Tools::Reflected(_)),
            prompts: self.prompts.is_some(),
            resources: self.resources.is_some(),
            completions: self.completions.is_some(),
        }
    }

    /// What is odd about the component and no reason not to serve it, for the log.
    pub fn remarks(&self) -> &[String] {
        match &self.tools {
            Tools::Reflected(functions) => functions.remarks(),
            Tools::Listed(_) => &[],
        }
    }
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

    /// Links `component` against everything; `bytes` are what it was made from.
    ///
    /// # Errors
    /// An import that cannot be satisfied, or exports that cannot be served: the text names them.
    pub fn prepare(&self, component: &Component, bytes: &[u8]) -> Result<Prepared, Unfit> {
        let pre = self
            .linker
            .instantiate_pre(component)
            .map_err(|e| Unfit::World(format!("it imports something that this host does not have: {e:#}")))?;
        let pins = table::pins(component, self.linker.engine()).map(Arc::from);
        let Some(has) = self.exported(component)? else {
            let reflected = Reflected::of(component, bytes).map_err(Unfit::Function)?;
            let tools = Tools::Reflected(Arc::new(reflected));
            return Ok(Prepared { pre, tools, prompts: None, resources: None, completions: None, pins });
        };
        let wrong = |name: &str, e: &wasmtime::Error| {
            Unfit::World(format!(
                "its export `{PACKAGE}{name}@{VERSION}` is not the interface that this host calls: {e:#}"
            ))
        };
        let tools = own::tools::GuestIndices::new(&pre).map_err(|e| wrong("tools", &e))?;
        Ok(Prepared {
            tools: Tools::Listed(tools),
            prompts: has
                .prompts
                .then(|| prompts::exports::layby::plugin::prompts::GuestIndices::new(&pre))
                .transpose()
                .map_err(|e| wrong("prompts", &e))?,
            resources: has
                .resources
                .then(|| resources::exports::layby::plugin::resources::GuestIndices::new(&pre))
                .transpose()
                .map_err(|e| wrong("resources", &e))?,
            completions: has
                .completions
                .then(|| completions::exports::layby::plugin::completions::GuestIndices::new(&pre))
                .transpose()
                .map_err(|e| wrong("completions", &e))?,
            pre,
            pins,
        })
    }

    /// Which of the package's interfaces `component` exports; none where it exports nothing of the package. One
    /// of another version is refused, so that a plugin never serves without what its author gave it.
    fn exported(&self, component: &Component) -> Result<Option<Exports>, Unfit> {
        let kind = component.component_type();
        let names: Vec<&str> = kind.exports(self.linker.engine()).map(|(name, _)| name).collect();
        let start = |name: &str| format!("{PACKAGE}{name}{MAJOR}");
        let ours = |name: &str| names.iter().any(|n| n.starts_with(&start(name)));
        if let Some(other) = names.iter().find(|n| n.starts_with(PACKAGE) && !n.contains(MAJOR)) {
            return Err(Unfit::World(format!(
                "it exports `{other}`, and this host calls version {VERSION}; build it with this version's WIT"
            )));
        }
        if !names.iter().any(|n| n.starts_with(PACKAGE)) {
            return Ok(None);
        }
        if !ours("tools") {
            return Err(Unfit::World(format!(
                "it does not export `{TOOLS}` (it exports `{}`); build it for the world `plugin` of package `layby:plugin`",
                names.join("`, `")
            )));
        }
        Ok(Some(Exports {
            functions: false,
            prompts: ours("prompts"),
            resources: ours("resources"),
            completions: ours("completions"),
        }))
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
    http::shadow(l)?;
    sockets::shadow(l)?;
    l.allow_shadowing(false);
    Ok(())
}
