use serde_json::Value;

use crate::{
    Arguments, Error, Result,
    types::{self, Content, PromptArgument, PromptMessage, PromptResult, RequestError, Role},
};

/// A prompt; `#[prompt]` implements it.
pub trait Prompt {
    /// The prompt's own name.
    const NAME: &'static str;

    /// What the host shows of it.
    fn definition() -> types::Prompt;

    /// Makes the messages.
    fn get(arguments: Vec<(String, String)>) -> std::result::Result<PromptResult, RequestError>;
}

/// What a prompt may return.
pub trait IntoPrompt {
    /// The result as the host takes it.
    fn into_prompt(self) -> Result<PromptResult>;
}

/// A message of the user.
pub fn user(content: impl Into<Content>) -> PromptMessage {
    PromptMessage { role: Role::User, content: content.into() }
}

/// A message of the assistant.
pub fn assistant(content: impl Into<Content>) -> PromptMessage {
    PromptMessage { role: Role::Assistant, content: content.into() }
}

/// Messages with a description of this one result.
#[derive(Clone, Debug)]
pub struct Described {
    /// What the messages are for, with these arguments.
    pub description: String,
    /// The messages.
    pub messages: Vec<PromptMessage>,
}

impl IntoPrompt for PromptResult {
    fn into_prompt(self) -> Result<PromptResult> {
        Ok(self)
    }
}

impl IntoPrompt for Described {
    fn into_prompt(self) -> Result<PromptResult> {
        Ok(PromptResult { description: Some(self.description), messages: self.messages, meta: None })
    }
}

impl IntoPrompt for Vec<PromptMessage> {
    fn into_prompt(self) -> Result<PromptResult> {
        Ok(PromptResult { description: None, messages: self, meta: None })
    }
}

impl<const N: usize> IntoPrompt for [PromptMessage; N] {
    fn into_prompt(self) -> Result<PromptResult> {
        Vec::from(self).into_prompt()
    }
}

impl IntoPrompt for PromptMessage {
    fn into_prompt(self) -> Result<PromptResult> {
        vec![self].into_prompt()
    }
}

/// One message of the user.
impl IntoPrompt for String {
    fn into_prompt(self) -> Result<PromptResult> {
        user(self).into_prompt()
    }
}

/// One message of the user.
impl IntoPrompt for &str {
    fn into_prompt(self) -> Result<PromptResult> {
        user(self).into_prompt()
    }
}

/// A prompt's definition; `_body` is there for its types.
#[doc(hidden)]
pub fn definition<A: Arguments, T: IntoPrompt>(
    name: &str,
    title: Option<&str>,
    description: Option<&str>,
    extra: Option<&str>,
    _body: fn(A) -> Result<T>,
) -> types::Prompt {
    types::Prompt {
        name: name.to_owned(),
        title: title.map(str::to_owned),
        description: description.map(str::to_owned),
        arguments: arguments(&A::schema()),
        extra: extra.map(str::to_owned),
    }
}

/// The arguments of a prompt, out of the schema of their type.
fn arguments(schema: &str) -> Vec<PromptArgument> {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let text = |field: &Value, key: &str| field[key].as_str().map(str::to_owned);
    let required = |name: &str| schema["required"].as_array().is_some_and(|r| r.iter().any(|n| n == name));
    let fields = schema["properties"].as_object().into_iter().flatten();
    fields
        .map(|(name, field)| PromptArgument {
            name: name.clone(),
            title: text(field, "title"),
            description: text(field, "description"),
            required: required(name),
        })
        .collect()
}

/// Serves a request with a prompt's body, in the code that `#[prompt]` writes.
#[doc(hidden)]
pub fn serve<A: Arguments, T: IntoPrompt>(
    arguments: Vec<(String, String)>,
    body: fn(A) -> Result<T>,
) -> std::result::Result<PromptResult, RequestError> {
    let arguments = A::from_pairs(arguments)
        .map_err(|e| Error::protocol(Error::INVALID, format!("the arguments do not fit: {e}")));
    arguments.and_then(body).and_then(T::into_prompt).map_err(RequestError::from)
}
