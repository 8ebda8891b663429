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
//! A plugin can have prompts, resources and completions too, by [`prompt`], [`resource`], [`template`] and
//! [`complete`](macro@complete); `docs/plugins/rust.md` has a whole one:
//!
//! ```
//! use layby_plugin::prelude::*;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Note {
//!     name: String,
//! }
//!
//! /// One note.
//! #[template(uri_template = "notes:///{name}", mime_type = "text/plain")]
//! fn note(of: Note) -> Result<String> {
//!     Ok(std::fs::read_to_string(format!("/notes/{}", of.name))?)
//! }
//!
//! /// Has a note put into better words.
//! #[prompt]
//! fn improve(of: Note) -> Result<String> {
//!     Ok(format!("Put this note into better words: {}", note(of)?))
//! }
//!
//! layby_plugin::plugin! { prompts: [improve], templates: [note] }
//! # fn main() {}
//! ```
//!
//! Every call runs in an instance of its own: nothing is kept from one call to the next, and
//! `static`s start anew. What a plugin reaches of files, environment and network is what its
//! operator's policy grants, through the standard library.
//!
//! All of them can be tested with the ordinary `cargo test`: [`testing::Host`] stands in for the host.

mod ask;
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod bindings;
mod call;
mod complete;
pub mod config;
mod error;
mod form;
pub mod logging;
mod pairs;
mod prompt;
mod read;
mod resource;
mod result;
mod schema;
pub mod testing;
mod tool;
mod uri;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

/// The values that cross the boundary, as the interface has them.
pub mod types {
    pub use crate::bindings::layby::plugin::call::{
        Change, FormQuestion, InputAnswer, InputRequest, LogLevel, Question, QuestionKind, UrlQuestion,
    };
    pub use crate::bindings::layby::plugin::types::{
        Completion, CompletionReference, Content, EmbeddedResource, Media, Prompt, PromptArgument,
        PromptMessage, PromptResult, ProtocolError, RequestError, ResourceContents, ResourceInfo,
        ResourceLink, ResourceTemplate, Role, Tool, ToolAnnotations, ToolError, ToolResult,
    };
}

pub use ask::{Answer, Ask, AskError, AskMany, Form, Roots, Sampling, Url, form, roots, sampling, url};
pub use call::{Call, Cancelled};
pub use complete::{Complete, Context, IntoCompletion, Reference, starting_with};
pub use error::{Error, Result};
pub use layby_plugin_macros::{complete, plugin, prompt, resource, template, tool};
pub use prompt::{Described, IntoPrompt, Prompt, assistant, user};
pub use resource::{IntoContents, Resource, Template, text_contents};
pub use result::{IntoResult, Json, Structured, media};
#[doc(hidden)]
pub use tool::Arguments;
pub use tool::Tool;

/// Everything that most plugins use.
pub mod prelude {
    pub use crate::types::PromptMessage;
    pub use crate::{
        Answer, Call, Context, Error, Json, Result, assistant, complete, prompt, resource, template, tool,
        user,
    };
    pub use schemars::{self, JsonSchema};
    pub use serde::{self, Deserialize, Serialize};
}

/// What the macros write; no part of the interface.
#[doc(hidden)]
pub mod __private {
    pub mod complete {
        pub use crate::complete::{completes, nothing, serve};
    }
    pub mod prompt {
        pub use crate::prompt::{definition, serve};
    }
    pub mod resource {
        pub use crate::resource::{
            Attributes, resource_definition, serve_resource, serve_template, template_definition,
        };
    }
    pub use crate::tool::{NoArguments, definition, serve, unknown};
    pub use wit_bindgen::rt;
}

// The code that `generate!` and the macros write names this crate, also from inside it.
extern crate self as layby_plugin;
