//! What the black-box tests share: a real host process, a raw client, and guests to load into it.

pub mod balance;
pub mod chameleon;
pub mod client;
pub mod command;
mod dice;
mod dns;
pub mod guests;
pub mod host;
pub mod issuer;
pub mod journal;
pub mod minisign;
pub mod older;
pub mod postgres;
mod recorder;
pub mod registry;
pub mod rows;
pub mod schema;
mod setup;
pub mod severed;
mod tls;
pub mod wait;
mod warm;

pub use balance::Balancer;
pub use client::{Client, Reply};
pub use dice::Dice;
pub use dns::Dns;
pub use host::{Host, Setup};
pub use minisign::Signer;
pub use older::Older;
pub use recorder::Recorder;
pub use severed::Severed;
pub use tls::{Authority, TlsServer};
pub use wait::eventually;

use serde_json::Value;

/// The text of a tool result's first content block.
///
/// # Panics
/// If there is none.
pub fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}"))
}

/// The stable code of an `isError` result.
pub fn result_code(result: &Value) -> &str {
    result["_meta"]["layby/code"].as_str().unwrap_or_else(|| panic!("no layby/code in {result}"))
}

/// The stable code of a JSON-RPC message that is an error.
pub fn error_code(message: &Value) -> &str {
    message["error"]["data"]["code"].as_str().unwrap_or_else(|| panic!("no error with a code: {message}"))
}
