use std::fmt;

use crate::{
    Answer, AskError, AskMany, ask, testing,
    types::{Change, InputAnswer, InputRequest, LogLevel, QuestionKind},
};

/// The call that a tool, a prompt, a resource or a completion is serving: what it can tell its host,
/// and ask of it.
#[derive(Debug)]
pub struct Call(());

/// Somebody asked for this call to be cancelled; `?` ends the tool with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the call was cancelled")
    }
}

impl std::error::Error for Cancelled {}

impl Call {
    #[doc(hidden)]
    pub fn of_host() -> Self {
        Self(())
    }

    /// Says how far the call has come: `done` of `total` units (no total: `0` or less).
    /// The host drops values that do not increase, and may thin out the rest.
    pub fn progress(&self, done: f64, total: f64, message: impl Into<String>) {
        let total = (total > 0.0).then_some(total);
        let message = Some(message.into()).filter(|m| !m.is_empty());
        testing::host::report_progress(done, total, message.as_deref());
    }

    /// True once the caller has asked for cancellation. The instance is stopped by force when
    /// its grace period ends.
    pub fn cancelled(&self) -> bool {
        testing::host::check_cancelled()
    }

    /// Fails with [`Cancelled`] once the caller has asked for it: `call.check()?` before every
    /// effect that others can see, and now and then in a long loop.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.cancelled() { Err(Cancelled) } else { Ok(()) }
    }

    /// A line for the operator's log, and for the caller's client where it asked for them.
    pub fn log(&self, level: LogLevel, message: impl AsRef<str>) {
        testing::host::log(level, message.as_ref());
    }

    /// Can the caller's client answer this kind of question, and may this plugin ask it?
    pub fn supports(&self, kind: QuestionKind) -> bool {
        testing::host::supports(kind)
    }

    /// Says that a list or a resource has changed.
    pub fn changed(&self, what: &Change) {
        testing::host::changed(what);
    }

    /// Asks the caller to fill in a form, and waits for the answer, perhaps for days.
    ///
    /// `key` names the question to the client. The fields of `T` are the form's: strings,
    /// numbers, booleans, enums of unit variants, and lists of those; `Option` makes a field
    /// optional, and doc comments become the descriptions.
    pub fn ask_form<T: serde::de::DeserializeOwned + schemars::JsonSchema>(
        &self,
        key: impl Into<String>,
        message: impl Into<String>,
    ) -> Result<Answer<T>, AskError> {
        self.ask_all((ask::form::<T>(key, message),)).map(|(answer,)| answer)
    }

    /// Puts several questions at once, and waits until each is answered:
    /// a tuple or a `Vec` of [`form`](crate::form), [`url`](crate::url),
    /// [`sampling`](crate::sampling) and [`roots`](crate::roots).
    pub fn ask_all<Q: AskMany>(&self, questions: Q) -> Result<Q::Answers, AskError> {
        ask::ask_all(questions)
    }

    /// Puts questions as the interface has them.
    pub fn ask_raw(&self, requests: &[InputRequest]) -> Result<Vec<InputAnswer>, AskError> {
        testing::host::request_input(requests).map_err(AskError::from)
    }
}
