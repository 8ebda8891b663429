use std::{any::Any, fmt::Display};

use crate::{
    AskError, Cancelled,
    types::{Content, ProtocolError, RequestError, ToolError, ToolResult},
};

/// What a tool returns: `Ok` with anything that is [`IntoResult`](crate::IntoResult). Prompts,
/// resources and completions likewise, with [`IntoPrompt`](crate::IntoPrompt),
/// [`IntoContents`](crate::IntoContents) and [`IntoCompletion`](crate::IntoCompletion).
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// How a call ends when it does not succeed.
///
/// `?` turns every error that can be displayed into [`Error::Failed`] with its text, so that the
/// model reads why; [`AskError`] and [`Cancelled`] become the case that the host expects of them.
#[derive(Debug)]
pub enum Error {
    /// The tool ran and failed: a result with `isError: true`. Where a prompt, a resource or a
    /// completion ends with it, a JSON-RPC error with its text.
    Failed(ToolResult),
    /// The call cannot be served: a JSON-RPC error.
    Protocol(ProtocolError),
    /// The caller's client cannot give an input that the tool needs.
    Unsupported,
    /// The tool saw that it was cancelled, and stopped.
    Cancelled,
    /// There is no such resource or prompt, or no longer: `found.ok_or(Error::NotFound)?`. A tool
    /// that ends with it has failed.
    NotFound,
}

impl Error {
    /// JSON-RPC's code for arguments that cannot be served.
    pub const INVALID: i32 = -32602;
    /// JSON-RPC's code for any other error.
    pub const INTERNAL: i32 = -32603;

    /// A failure that the model is to read.
    pub fn failed(text: impl Into<String>) -> Self {
        Error::Failed(ToolResult {
            content: vec![Content::Text(text.into())],
            structured_content: None,
            meta: None,
        })
    }

    /// A JSON-RPC error. `code` is outside -32768 to -32000, or -32602 or -32603.
    pub fn protocol(code: i32, message: impl Into<String>) -> Self {
        Error::Protocol(ProtocolError { code, message: message.into(), data: None })
    }
}

impl<E: Display + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        let any: &dyn Any = &error;
        if any.is::<Cancelled>() {
            return Error::Cancelled;
        }
        match any.downcast_ref() {
            Some(AskError::Cancelled) => Error::Cancelled,
            Some(AskError::Unsupported) => Error::Unsupported,
            // The alternate form has the causes too, where the error's type knows them.
            _ => Error::failed(format!("{error:#}")),
        }
    }
}

impl From<Error> for ToolError {
    fn from(error: Error) -> Self {
        match error {
            Error::Failed(result) => ToolError::Failed(result),
            Error::Protocol(error) => ToolError::Protocol(error),
            Error::Unsupported => ToolError::Unsupported,
            Error::Cancelled => ToolError::Cancelled,
            Error::NotFound => Error::failed("not found").into(),
        }
    }
}

impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        match error {
            Error::Failed(result) => {
                let texts = result.content.iter().filter_map(|content| match content {
                    Content::Text(text) => Some(text.as_str()),
                    _ => None,
                });
                let message = texts.collect::<Vec<_>>().join("\n");
                RequestError::Protocol(ProtocolError { code: Error::INTERNAL, message, data: None })
            }
            Error::Protocol(error) => RequestError::Protocol(error),
            Error::Unsupported => RequestError::Unsupported,
            Error::Cancelled => RequestError::Cancelled,
            Error::NotFound => RequestError::NotFound,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn text_of(error: Error) -> String {
        match error {
            Error::Failed(result) => match result.content.as_slice() {
                [Content::Text(text)] => text.clone(),
                other => panic!("not one text: {other:?}"),
            },
            other => panic!("not failed: {other:?}"),
        }
    }

    fn open() -> Result<()> {
        std::fs::read("/no/such/file")?;
        Ok(())
    }

    #[test]
    fn a_question_mark_keeps_the_text() {
        assert!(text_of(open().unwrap_err()).contains("No such file"));
        assert_eq!(text_of("plain text".into()), "plain text");
        assert_eq!(text_of(AskError::TimedOut.into()), "no answer came in time");
    }

    #[test]
    fn the_hosts_own_errors_keep_their_case() {
        assert!(matches!(Cancelled.into(), Error::Cancelled));
        assert!(matches!(AskError::Cancelled.into(), Error::Cancelled));
        assert!(matches!(AskError::Unsupported.into(), Error::Unsupported));
    }
}
