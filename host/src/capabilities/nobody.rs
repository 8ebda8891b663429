//! The caller of a plugin that only lists its tools: there is nobody to ask, and nothing to cancel.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::{Asked, Audience, Caller, Granted, Stopping, wit_call};
use crate::store::{Answer, QuestionKind};

/// Answers nothing; what the plugin logs goes to the function.
pub struct Nobody<F> {
    told: F,
    granted: Arc<Granted>,
}

impl<F> Nobody<F> {
    /// Grants nothing.
    pub fn new(told: F) -> Self {
        Self { told, granted: Arc::default() }
    }

    /// Grants this at every moment.
    #[cfg(test)]
    pub fn granting(told: F, granted: Arc<Granted>) -> Self {
        Self { told, granted }
    }
}

impl<F: Fn(&str) + Send + Sync + 'static> Caller for Nobody<F> {
    fn progress(&self, _: f64, _: Option<f64>, _: Option<String>) {}

    fn cancelled(&self) -> bool {
        false
    }

    fn supports(&self, _: QuestionKind) -> bool {
        false
    }

    fn request_input(
        &self,
        _: Vec<Asked>,
        _: bool,
    ) -> BoxFuture<'_, Result<Vec<Answer>, wit_call::InputError>> {
        Box::pin(std::future::ready(Err(wit_call::InputError::Unsupported)))
    }

    fn sleeps(&self, _: std::time::Duration) {}

    fn woke(&self) {}

    fn commit(&self) -> BoxFuture<'_, Result<(), Stopping>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn granted(&self) -> Option<Arc<Granted>> {
        Some(self.granted.clone())
    }

    fn changed(&self, _: wit_call::Change) {}

    fn log(&self, _: Audience, _: wit_call::LogLevel, message: &str) {
        (self.told)(message);
    }
}
