//! Every option and every limit: its name, default, unit and reason. One file per area.

mod auth;
mod bridge;
mod callers;
mod catalog;
mod check;
mod client;
mod dev;
mod host;
mod listen;
mod load;
mod new;
mod policy;
mod registry;
mod stdio;
mod tasks;
mod tokens;

pub use auth::{AuthConfig, OauthConfig};
pub use bridge::BridgeRules;
pub use callers::CallerLimits;
pub use catalog::CatalogConfig;
pub use check::LONGEST;
pub use client::ClientLimits;
pub use dev::{DevProject, DevRules};
pub use host::{Config, HostLimits, ServeConfig, StoreConfig};
pub use listen::ListenRules;
pub use load::{ConfigError, load, load_policy, load_text, nearest};
pub use new::NewRules;
pub use policy::{
    CallPolicy, EarlyInput, EnvValue, FileGrant, Grants, HttpGrant, Limits, OnInputTimeout, Policy,
};
pub use registry::RegistryRules;
pub use stdio::StdioRules;
pub use tasks::TaskRules;
pub use tokens::{TokenEntry, TokenFile};
