//! A stand-in for the host, so that tools can be tested with the ordinary `cargo test`.
//!
//! ```
//! use layby_plugin::{Answer, prelude::*, testing::Host, types::InputAnswer};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Sure {
//!     yes: bool,
//! }
//!
//! let host = Host::new().answer(InputAnswer::Accepted(r#"{"yes":true}"#.into()));
//! let answer = host.run(|call| call.ask_form::<Sure>("sure", "Are you sure?"));
//! assert!(matches!(answer, Ok(Answer::Accepted(Sure { yes: true }))));
//! assert_eq!(host.asked().len(), 1);
//! ```

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    rc::Rc,
};

use crate::{
    Call, Complete, Context, Prompt, Resource, Template, Tool,
    logging::Level,
    types::{
        Change, Completion, EmbeddedResource, InputAnswer, InputRequest, LogLevel, PromptResult,
        RequestError, ToolError, ToolResult,
    },
};

/// A host that answers as it is told, and remembers what a tool said.
///
/// It serves the thread that is in [`run`](Host::run). Outside the sandbox and outside of `run`,
/// a call is never cancelled, and every question is unsupported.
#[derive(Clone, Debug, Default)]
pub struct Host(Rc<RefCell<State>>);

#[derive(Debug, Default)]
struct State {
    answers: VecDeque<InputAnswer>,
    /// How many more times `check-cancelled` says no; none: always.
    checks: Option<usize>,
    asked: Vec<InputRequest>,
    progress: Vec<(f64, Option<f64>, Option<String>)>,
    logged: Vec<(LogLevel, String)>,
    changed: Vec<Change>,
    config: BTreeMap<String, String>,
    noted: Vec<(Level, String, String)>,
}

#[cfg_attr(target_family = "wasm", allow(dead_code))]
mod current {
    use super::{Host, RefCell};

    std::thread_local! {
        pub(super) static HOST: RefCell<Option<Host>> = const { RefCell::new(None) };
    }
}

impl Host {
    /// A host that has no answers and cancels nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The answer to the next question that has none yet.
    #[must_use]
    pub fn answer(self, answer: InputAnswer) -> Self {
        self.0.borrow_mut().answers.push_back(answer);
        self
    }

    /// Cancels the call after `checks` checks that said no.
    #[must_use]
    pub fn cancel_after(self, checks: usize) -> Self {
        self.0.borrow_mut().checks = Some(checks);
        self
    }

    /// Sets a value of the plugin's configuration.
    #[must_use]
    pub fn config(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.borrow_mut().config.insert(key.into(), value.into());
        self
    }

    /// Runs `body` with this host behind its call.
    pub fn run<T>(&self, body: impl FnOnce(&Call) -> T) -> T {
        let before = current::HOST.replace(Some(self.clone()));
        let result = body(&Call::of_host());
        current::HOST.set(before);
        result
    }

    /// Calls a tool as the host does: with arguments as JSON text, and the result as it crosses
    /// the boundary.
    pub fn call_tool<T: Tool>(&self, arguments: &str) -> Result<ToolResult, ToolError> {
        self.run(|_| T::call(arguments))
    }

    /// Gets a prompt as the host does.
    pub fn get_prompt<P: Prompt>(&self, arguments: &[(&str, &str)]) -> Result<PromptResult, RequestError> {
        self.run(|_| P::get(pairs(arguments)))
    }

    /// Reads a resource as the host does.
    pub fn read_resource<R: Resource>(&self) -> Result<Vec<EmbeddedResource>, RequestError> {
        self.run(|_| R::read())
    }

    /// Reads a resource of a template as the host does; a URI that does not fit is not found.
    pub fn read_template<T: Template>(&self, uri: &str) -> Result<Vec<EmbeddedResource>, RequestError> {
        self.run(|_| T::read(uri)).unwrap_or(Err(RequestError::NotFound))
    }

    /// Completes a value as the host does; `context` are the arguments that are settled already.
    pub fn complete<C: Complete>(
        &self,
        value: &str,
        context: &[(&str, &str)],
    ) -> Result<Completion, RequestError> {
        self.run(|_| C::complete(value, &Context::of_host(pairs(context))))
    }

    /// What was said to have changed so far.
    pub fn changed(&self) -> Vec<Change> {
        self.0.borrow().changed.clone()
    }

    /// The questions that were put so far.
    pub fn asked(&self) -> Vec<InputRequest> {
        self.0.borrow().asked.clone()
    }

    /// The progress that was reported so far: done, total, message.
    pub fn progress(&self) -> Vec<(f64, Option<f64>, Option<String>)> {
        self.0.borrow().progress.clone()
    }

    /// What was logged so far.
    pub fn logged(&self) -> Vec<(LogLevel, String)> {
        self.0.borrow().logged.clone()
    }

    /// What was written for the operator alone so far: level, context, message.
    pub fn noted(&self) -> Vec<(Level, String, String)> {
        self.0.borrow().noted.clone()
    }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The host's functions: the real ones in the sandbox, the stand-in elsewhere.
pub(crate) mod host {
    #[cfg(target_family = "wasm")]
    pub(crate) use crate::bindings::layby::plugin::call::{
        changed, check_cancelled, log, report_progress, request_input, supports,
    };

    #[cfg(target_family = "wasm")]
    pub(crate) use standard::*;

    #[cfg(not(target_family = "wasm"))]
    pub(crate) use native::*;

    #[cfg(target_family = "wasm")]
    mod standard {
        use std::collections::BTreeMap;

        pub(crate) use crate::bindings::standard::wasi::logging::logging::log as note;
        use crate::{bindings::standard::wasi::config::store, config::ConfigError};

        fn wrong(error: store::Error) -> ConfigError {
            let (store::Error::Upstream(why) | store::Error::Io(why)) = error;
            ConfigError(why)
        }

        pub(crate) fn config(key: &str) -> Result<Option<String>, ConfigError> {
            store::get(key).map_err(wrong)
        }

        pub(crate) fn config_all() -> Result<BTreeMap<String, String>, ConfigError> {
            Ok(store::get_all().map_err(wrong)?.into_iter().collect())
        }
    }

    #[cfg(not(target_family = "wasm"))]
    mod native {
        use std::collections::BTreeMap;

        use crate::{
            bindings::layby::plugin::call::InputError,
            config::ConfigError,
            logging::Level,
            testing::{State, current::HOST},
            types::{Change, InputAnswer, InputRequest, LogLevel, QuestionKind},
        };

        fn with<T>(or: T, body: impl FnOnce(&mut State) -> T) -> T {
            HOST.with_borrow(|host| host.as_ref().map_or(or, |host| body(&mut host.0.borrow_mut())))
        }

        pub(crate) fn report_progress(done: f64, total: Option<f64>, message: Option<&str>) {
            with((), |host| host.progress.push((done, total, message.map(str::to_owned))));
        }

        pub(crate) fn check_cancelled() -> bool {
            with(false, |host| match &mut host.checks {
                None => false,
                Some(0) => true,
                Some(left) => {
                    *left -= 1;
                    false
                }
            })
        }

        pub(crate) fn log(level: LogLevel, message: &str) {
            with((), |host| host.logged.push((level, message.to_owned())));
        }

        pub(crate) fn supports(_kind: QuestionKind) -> bool {
            with(false, |host| !host.answers.is_empty())
        }

        pub(crate) fn changed(what: &Change) {
            with((), |host| host.changed.push(what.clone()));
        }

        pub(crate) fn note(level: Level, context: &str, message: &str) {
            with((), |host| host.noted.push((level, context.to_owned(), message.to_owned())));
        }

        pub(crate) fn config(key: &str) -> Result<Option<String>, ConfigError> {
            Ok(with(None, |host| host.config.get(key).cloned()))
        }

        pub(crate) fn config_all() -> Result<BTreeMap<String, String>, ConfigError> {
            Ok(with(BTreeMap::new(), |host| host.config.clone()))
        }

        pub(crate) fn request_input(requests: &[InputRequest]) -> Result<Vec<InputAnswer>, InputError> {
            with(Err(InputError::Unsupported), |host| {
                host.asked.extend_from_slice(requests);
                if host.answers.len() < requests.len() {
                    return Err(InputError::Unsupported);
                }
                Ok(host.answers.drain(..requests.len()).collect())
            })
        }
    }
}
