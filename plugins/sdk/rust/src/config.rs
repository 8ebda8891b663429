//! What the operator has set for the plugin: `grants.config` of its policy (`wasi:config/store`).

use std::{collections::BTreeMap, fmt};

use crate::testing;

/// The host could not give the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub(crate) String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the configuration cannot be read: {}", self.0)
    }
}

impl std::error::Error for ConfigError {}

/// The value of `key`, where the operator has set one.
///
/// # Errors
/// The host could not give it.
pub fn get(key: &str) -> Result<Option<String>, ConfigError> {
    testing::host::config(key)
}

/// All that is set.
///
/// # Errors
/// As [`get`].
pub fn all() -> Result<BTreeMap<String, String>, ConfigError> {
    testing::host::config_all()
}
