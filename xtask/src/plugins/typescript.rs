//! Guests in TypeScript.

use anyhow::{Result, bail};

use super::Built;
use crate::tools::Environment;

/// Builds the plugins `names` of `plugins/typescript`.
pub(super) fn build(names: &[String]) -> Result<Vec<Built>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    bail!("not built yet")
}

/// The unit tests of plugins and their kit, outside the sandbox.
pub(super) fn test(_filter: Option<&str>) -> Result<()> {
    Ok(())
}

/// What makes the language's ordinary tools work; installs them where they are missing.
pub(super) fn environment() -> Result<Environment> {
    Ok(Environment::default())
}
