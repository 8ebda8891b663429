//! Reading configuration: layers, and errors that name the nearest known key.

use std::path::{Path, PathBuf};

use super::{Config, Policy};

/// Why a configuration or policy file is refused.
#[derive(Debug, thiserror::Error)]
#[error("{origin}: {reason}")]
pub struct ConfigError {
    /// File (with line and column where known), variable or option.
    pub origin: String,
    /// What is wrong and what to write instead.
    pub reason: String,
}

/// `layby.toml` (or `file`), then `LAYBY_SECTION_KEY` variables, over the defaults.
///
/// # Errors
/// A file that cannot be read, is not TOML, or has an unknown key or a bad value.
pub fn load(file: Option<&Path>, env: &dyn Fn() -> Vec<(String, String)>) -> Result<Config, ConfigError> {
    let _ = (file, env);
    unimplemented!()
}

/// A policy from the text of a policy file, over `defaults`. `folder` is where relative paths start.
///
/// # Errors
/// As [`load`].
pub fn load_policy(
    text: &str,
    origin: &Path,
    folder: &PathBuf,
    defaults: &Config,
) -> Result<Policy, ConfigError> {
    let _ = (text, origin, folder, defaults);
    unimplemented!()
}
