//! Write Layby plugins in Rust.
//!
//! A tool is a function with one attribute; a plugin is a crate of type `cdylib` with one
//! [`plugin!`] that lists its tools:
//!
//! ```
//! use layby_plugin::prelude::*;
//!
//! /// Whom to greet.
//! #[derive(Deserialize, JsonSchema)]
//! struct Greet {
//!     /// Their name.
//!     name: String,
//! }
//!
//! /// Greets somebody.
//! #[tool(read_only)]
//! fn greet(args: Greet, call: &Call) -> Result<String> {
//!     call.check()?;
//!     Ok(format!("Hello, {}!", args.name))
//! }
//!
//! layby_plugin::plugin!(greet);
//! # fn main() {}
//! ```
//!
//! Every call runs in an instance of its own: nothing is kept from one call to the next, and
//! `static`s start anew. What a plugin reaches of files, environment and network is what its
//! operator's policy grants, through the standard library.
//!
//! Tools can be tested with the ordinary `cargo test`: [`testing::Host`] stands in for the host.

mod ask;
mod call;
mod error;
mod form;
mod result;
mod schema;
pub mod testing;
mod tool;

/// The raw interface, made from `wit/plugin.wit`.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../../wit",
        world: "plugin",
        pub_export_macro: true,
        default_bindings_module: "layby_plugin::bindings",
        runtime_path: "::layby_plugin::__private::rt",
    });
}

/// The values that cross the boundary, as the interface has them.
pub mod types {
    pub use crate::bindings::exports::layby::plugin::tools::{Tool, ToolError, ToolResult};
    pub use crate::bindings::layby::plugin::call::{
        Change, FormQuestion, InputAnswer, InputRequest, LogLevel, Question, QuestionKind, UrlQuestion,
    };
    pub use crate::bindings::layby::plugin::types::{
        Content, EmbeddedResource, Media, ProtocolError, ResourceContents, ResourceLink, ToolAnnotations,
    };
}

pub use ask::{Answer, AskError, AskMany, Form, Roots, Sampling, Url, form, roots, sampling, url};
pub use call::{Call, Cancelled};
pub use error::{Error, Result};
pub use layby_plugin_macros::tool;
pub use result::{IntoResult, Json, Structured, media};
pub use tool::Tool;

/// Everything that most plugins use.
pub mod prelude {
    pub use crate::{Answer, Call, Error, Json, Result, tool};
    pub use schemars::{self, JsonSchema};
    pub use serde::{self, Deserialize, Serialize};
}

/// What the macros write; no part of the interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::tool::{NoArguments, definition, serve, unknown};
    pub use wit_bindgen::rt;
}

/// Exports the plugin: lists its tools, by the names of their functions.
#[macro_export]
macro_rules! plugin {
    ($($tool:path),+ $(,)?) => {
        // Public, so that the tools count as used outside the sandbox too.
        #[doc(hidden)]
        #[allow(missing_debug_implementations, unreachable_pub)]
        pub struct __LaybyPlugin;

        impl $crate::bindings::exports::layby::plugin::tools::Guest for __LaybyPlugin {
            fn list_tools() -> ::std::vec::Vec<$crate::types::Tool> {
                ::std::vec![$(<$tool as $crate::Tool>::definition()),+]
            }

            fn call_tool(
                name: ::std::string::String,
                arguments: ::std::string::String,
            ) -> ::std::result::Result<$crate::types::ToolResult, $crate::types::ToolError> {
                $(
                    if name == <$tool as $crate::Tool>::NAME {
                        return <$tool as $crate::Tool>::call(&arguments);
                    }
                )+
                ::std::result::Result::Err($crate::__private::unknown(&name))
            }
        }

        #[cfg(target_family = "wasm")]
        $crate::bindings::export!(__LaybyPlugin with_types_in $crate::bindings);
    };
}

// The code that `generate!` and the macros write names this crate, also from inside it.
extern crate self as layby_plugin;
