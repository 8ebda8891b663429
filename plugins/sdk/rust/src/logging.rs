//! Lines for the operator's log alone (`wasi:logging`). [`Call::log`](crate::Call::log) also reaches the caller's
//! client.

pub use crate::bindings::standard::wasi::logging::logging::Level;
use crate::testing;

/// Writes a line; `context` says what part of the plugin it is from, and may be empty.
pub fn log(level: Level, context: &str, message: impl AsRef<str>) {
    testing::host::note(level, context, message.as_ref());
}
