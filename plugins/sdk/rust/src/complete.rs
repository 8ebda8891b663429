use crate::{
    Result,
    types::{Completion, CompletionReference, RequestError},
};

/// Completes one argument; `#[complete]` implements it.
pub trait Complete {
    /// What has the argument.
    const REFERENCE: Reference;
    /// The argument's name.
    const ARGUMENT: &'static str;

    /// Completes a value.
    fn complete(value: &str, context: &Context) -> std::result::Result<Completion, RequestError>;
}

/// What a completion is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The name of a prompt.
    Prompt(&'static str),
    /// A URI template.
    Template(&'static str),
}

impl Reference {
    fn is(self, reference: &CompletionReference) -> bool {
        match (self, reference) {
            (Reference::Prompt(name), CompletionReference::Prompt(of)) => name == of,
            (Reference::Template(template), CompletionReference::ResourceTemplate(of)) => template == of,
            _ => false,
        }
    }
}

/// The arguments that are settled already.
#[derive(Clone, Debug, Default)]
pub struct Context(Vec<(String, String)>);

impl Context {
    #[doc(hidden)]
    pub fn of_host(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    /// The value of this argument, where it is settled.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }
}

/// Values in one answer; MCP's limit.
const VALUES: usize = 100;

/// What a completion may return.
pub trait IntoCompletion {
    /// The result as the host takes it.
    fn into_completion(self) -> Result<Completion>;
}

impl IntoCompletion for Completion {
    fn into_completion(self) -> Result<Completion> {
        Ok(self)
    }
}

/// All values, the most likely first; the client gets the first 100, and how many there are.
impl<T: Into<String>> IntoCompletion for Vec<T> {
    fn into_completion(self) -> Result<Completion> {
        let total = u32::try_from(self.len()).ok();
        let has_more = self.len() > VALUES;
        Ok(Completion { values: self.into_iter().take(VALUES).map(T::into).collect(), total, has_more })
    }
}

/// Those of `candidates` that begin with `value`, whatever the case of their letters.
pub fn starting_with<T: AsRef<str>>(value: &str, candidates: impl IntoIterator<Item = T>) -> Vec<String> {
    let value = value.to_lowercase();
    let fits = |candidate: &T| candidate.as_ref().to_lowercase().starts_with(&value);
    candidates.into_iter().filter(fits).map(|candidate| candidate.as_ref().to_owned()).collect()
}

/// Serves a request with a completion's body, in the code that `#[complete]` writes.
#[doc(hidden)]
pub fn serve<T: IntoCompletion>(
    value: &str,
    context: &Context,
    body: fn(&str, &Context) -> Result<T>,
) -> std::result::Result<Completion, RequestError> {
    body(value, context).and_then(T::into_completion).map_err(RequestError::from)
}

/// Does this one complete that argument?
#[doc(hidden)]
pub fn completes<T: Complete>(reference: &CompletionReference, argument: &str) -> bool {
    T::ARGUMENT == argument && T::REFERENCE.is(reference)
}

/// The answer for an argument that nothing completes.
#[doc(hidden)]
pub fn nothing() -> Completion {
    Completion { values: Vec::new(), total: Some(0), has_more: false }
}
