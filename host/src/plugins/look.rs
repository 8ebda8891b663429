//! A component by itself, as a host without a policy for it would judge it; for `layby inspect`.

use super::{
    check::{self, Stop},
    compile::compile,
    declare::{self, Declared},
    problem::Problem,
};
use crate::{
    base::Digest,
    capabilities::{Exports, Linked, Listing},
    config::{Config, Policy},
    engine::Engine,
};

/// What a component has to offer.
#[derive(Debug, Default)]
pub struct Looked {
    /// Which optional interfaces it exports.
    pub exports: Exports,
    /// The call for which its runs cannot be resumed, where there is one.
    pub pins: Option<String>,
    /// What it lists, as it says it.
    pub listing: Listing,
    /// The first thing that a host refuses in what it lists.
    pub problem: Option<Problem>,
}

impl Looked {
    /// What it lists, as a plugin's row has it.
    pub fn listed(&self) -> String {
        Declared::from(self.listing.clone()).to_row()
    }
}

/// Compiles and links `bytes`, and lists as a host does, with the budget and the checks of `config.catalog`.
///
/// # Errors
/// Why a host refuses it before anything is listed, or what failed on our side.
pub async fn look(engine: &Engine, digest: Digest, bytes: &[u8], config: &Config) -> Result<Looked, Stop> {
    let linked = Linked::new(engine).map_err(|e| Stop::Failed(format!("{e:#}")))?;
    look_by(engine, &linked, digest, bytes, config).await
}

/// The same with a linker of `engine` that is there already.
///
/// # Errors
/// As [`look`].
pub(crate) async fn look_by(
    engine: &Engine,
    linked: &Linked,
    digest: Digest,
    bytes: &[u8],
    config: &Config,
) -> Result<Looked, Stop> {
    let component = compile(engine, digest, bytes, &config.catalog)?;
    let prepared = linked.prepare(&component, bytes).map_err(|e| Problem::unfit(&e))?;
    check::remark("inspected", &prepared);
    let (bounds, slice) = (&config.catalog, config.host.fuel_slice);
    let listing = check::listing("inspected", digest, &prepared, bounds, slice).await?;
    let built = declare::build(&Declared::from(listing.clone()), &Policy::default(), bounds, true);
    let pins = prepared.pins().map(str::to_owned);
    Ok(Looked { exports: prepared.exports(), pins, listing, problem: built.err() })
}

/// Checks lists as a row of the store has them, and `values` against every schema that is in them.
///
/// # Errors
/// They are not of that form, or the first thing that cannot be served.
#[cfg(feature = "fuzzing")]
pub(crate) fn declared(row: &str, values: &[serde_json::Value], config: &Config) -> Result<usize, String> {
    let declared = Declared::from_row(row).map_err(|e| e.to_string())?;
    assert_eq!(Declared::from_row(&declared.to_row()).ok().as_ref(), Some(&declared));
    let built = declare::build(&declared, &Policy::default(), &config.catalog, true);
    let built = built.map_err(|problem| format!("{}: {}", problem.code, problem.reason))?;
    for tool in &built.tools {
        assert!(declare::is_name(&tool.name), "{:?}", tool.name);
        for value in values {
            for schema in std::iter::once(&tool.input).chain(&tool.output) {
                assert_ne!(schema.check(value).err().as_deref(), Some(""));
            }
        }
    }
    let uris = built.resources.iter().map(|resource| resource.uri.as_str());
    for uri in uris.chain(values.iter().filter_map(serde_json::Value::as_str)) {
        let _ = built.templates.iter().filter(|template| template.uris.fits(uri)).count();
    }
    Ok(built.tools.len())
}
