use serde::de::DeserializeOwned;

use crate::{
    Error, IntoResult, Result, pairs, read, schema,
    types::{self, ProtocolError, ToolAnnotations, ToolError, ToolResult},
};

/// A tool; `#[tool]` implements it.
pub trait Tool {
    /// The tool's own name.
    const NAME: &'static str;

    /// What the host shows of it.
    fn definition() -> types::Tool;

    /// Serves one call.
    fn call(arguments: &str) -> std::result::Result<ToolResult, ToolError>;
}

/// No arguments: an object, whatever is in it.
pub(crate) const NO_ARGUMENTS: &str = r#"{"type":"object","properties":{}}"#;

/// A tool's definition; `_body` is there for its types.
#[doc(hidden)]
pub fn definition<A: Arguments, T: IntoResult>(
    name: &str,
    title: Option<&str>,
    description: &str,
    annotations: ToolAnnotations,
    (schema, extra): (Option<&str>, Option<&str>),
    _body: fn(A) -> Result<T>,
) -> types::Tool {
    types::Tool {
        name: name.to_owned(),
        title: title.map(str::to_owned),
        description: description.to_owned(),
        input_schema: schema.map_or_else(A::schema, str::to_owned),
        output_schema: T::output_schema(),
        annotations,
        extra: extra.map(str::to_owned),
    }
}

/// The arguments of a tool or a prompt, or a template's variables: any type with a schema, or none.
#[doc(hidden)]
pub trait Arguments: Sized {
    fn schema() -> String;
    fn read(json: &str) -> Result<Self>;
    /// From names and texts; the error is the reason.
    fn from_pairs(pairs: Vec<(String, String)>) -> std::result::Result<Self, String>;
}

/// The arguments of a tool that takes none.
#[doc(hidden)]
#[derive(Debug)]
pub struct NoArguments;

impl Arguments for NoArguments {
    fn schema() -> String {
        NO_ARGUMENTS.to_owned()
    }

    fn read(_json: &str) -> Result<Self> {
        Ok(Self)
    }

    fn from_pairs(_pairs: Vec<(String, String)>) -> std::result::Result<Self, String> {
        Ok(Self)
    }
}

impl<T: DeserializeOwned + schemars::JsonSchema> Arguments for T {
    fn schema() -> String {
        schema::of_arguments::<T>()
    }

    fn read(json: &str) -> Result<Self> {
        read::json(json).map_err(|e| Error::failed(format!("the arguments do not fit: {e}")))
    }

    fn from_pairs(pairs: Vec<(String, String)>) -> std::result::Result<Self, String> {
        pairs::read(pairs).map_err(|e| e.to_string())
    }
}

/// Serves a call with a tool's body, in the code that `#[tool]` writes.
#[doc(hidden)]
pub fn serve<A: Arguments, T: IntoResult>(
    arguments: &str,
    body: fn(A) -> Result<T>,
) -> std::result::Result<ToolResult, ToolError> {
    A::read(arguments).and_then(body).and_then(T::into_result).map_err(ToolError::from)
}

/// The answer to a name that the plugin does not have.
#[doc(hidden)]
pub fn unknown(name: &str) -> ToolError {
    ToolError::Protocol(ProtocolError {
        code: -32602,
        message: format!("this plugin has no tool `{name}`"),
        data: None,
    })
}
