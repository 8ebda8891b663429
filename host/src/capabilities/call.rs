//! `layby:plugin/call`. Grant: `ask`, for questions (checked by whoever drives the run).
//! Class: `request-input` is a wait, `supports` a read; progress, log and `changed` are harmless.
//! Records: `start` and `end` of `request-input` and `supports`; the trail has the others.

use std::{future::Future, time::Instant};

use wasmtime::{
    StoreContextMut,
    component::{HasSelf, Linker},
};

use super::{
    Abort, Audience, State, answers, effects,
    questions::{self, MALFORMED_AT_ONCE},
    state::Ended,
    wit_call::{self, Change, InputAnswer, InputError, InputRequest, LogLevel},
};
use crate::{
    config::Limits,
    journal::{Call, Started},
    store::QuestionKind,
};

/// The interface as linkers name it.
const INTERFACE: &str = "layby:plugin/call@1.0.0";
/// Bytes of a progress message that are kept: it becomes one line of a task's status.
const MESSAGE: usize = 4 << 10;
/// Bytes of the URI in `changed`.
const URI: usize = 4 << 10;

/// What one run has said and asked so far.
pub(super) struct Asking {
    questions: u32,
    progress: f64,
    second: Option<Instant>,
    in_second: u32,
}

impl Default for Asking {
    fn default() -> Self {
        Self { questions: 0, progress: f64::NEG_INFINITY, second: None, in_second: 0 }
    }
}

impl Asking {
    /// True where a report is to be passed on: MCP wants progress to increase, and `per_second` bounds it.
    fn accepts(&mut self, progress: f64, per_second: u32, now: Instant) -> bool {
        if !progress.is_finite() || progress <= self.progress {
            return false;
        }
        if self.second.is_none_or(|s| now.duration_since(s).as_secs() >= 1) {
            (self.second, self.in_second) = (Some(now), 0);
        }
        if self.in_second >= per_second {
            return false;
        }
        self.in_second += 1;
        self.progress = progress;
        true
    }
}

/// Adds the interface, and again `request-input` in a form that can read the fuel.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Answers = Result<Vec<InputAnswer>, InputError>;
    type Pending<'a> = Box<dyn Future<Output = wasmtime::Result<(Answers,)>> + Send + 'a>;
    wit_call::add_to_linker::<State, HasSelf<State>>(linker, |s| s)?;
    linker.instance(INTERFACE)?.func_wrap_async(
        "request-input",
        |mut store: StoreContextMut<'_, State>, (requests,): (Vec<InputRequest>,)| -> Pending<'_> {
            Box::new(async move {
                let fuel = store.get_fuel()?;
                Ok((store.data_mut().ask(requests, fuel).await?,))
            })
        },
    )
}

impl State {
    async fn ask(
        &mut self,
        requests: Vec<InputRequest>,
        fuel: u64,
    ) -> wasmtime::Result<Result<Vec<InputAnswer>, InputError>> {
        if requests.is_empty() || requests.len() > Limits::QUESTIONS_AT_ONCE {
            return Ok(Err(InputError::Invalid(MALFORMED_AT_ONCE.into())));
        }
        let count = requests.len();
        let asked = self.asking.questions.saturating_add(count as u32);
        if asked > self.limits.questions {
            return Err(Ended(Abort::Limit {
                name: "questions",
                value: self.limits.questions.to_string(),
                advice:
                    "ask for several values in one form, or raise `limits.questions` in the plugin's policy"
                        .into(),
            })
            .into());
        }
        let mut checked = Vec::with_capacity(count);
        for (n, request) in requests.into_iter().enumerate() {
            match questions::check(request) {
                Ok(question) => checked.push(question),
                Err(reason) => return Ok(Err(InputError::Invalid(format!("request {n}: {reason}")))),
            }
        }
        self.asking.questions = asked;
        self.waited();
        let again = match self.journal.start(Call::Input, &digest(&checked), fuel).map_err(Ended::mismatch)? {
            Started::Replayed(bytes) => {
                let bad = || Ended(Abort::Host("an answer in the journal cannot be read".into()));
                return Ok(answers::decode(&bytes, count).ok_or_else(bad)?);
            }
            Started::Again => true,
            Started::Fresh => false,
        };
        let caller = self.caller.clone();
        // The caller goes by the newest that it was asked for.
        effects::granted(&*caller).await.map_err(Ended)?;
        let answers = caller.request_input(checked, again).await;
        match &answers {
            Ok(answers) if answers.len() != count => {
                let text = format!("{} answers to {count} questions", answers.len());
                return Err(Ended(Abort::Host(text)).into());
            }
            _ => {}
        }
        let answers = answers.map(|all| all.into_iter().map(answers::of).collect());
        self.journal.end(&answers::encode(&answers), self.clock.monotonic());
        Ok(answers)
    }
}

/// What the mark of `request-input` covers.
fn digest(questions: &[super::Asked]) -> Vec<u8> {
    let mut out = Vec::new();
    for q in questions {
        for part in [q.key.as_bytes(), q.request.to_string().as_bytes()] {
            out.extend((part.len() as u64).to_le_bytes());
            out.extend(part);
        }
    }
    out
}

impl State {
    /// Nobody is told anything before what it may be about is committed.
    async fn speaks(&mut self) {
        if std::mem::take(&mut self.owes) {
            effects::committed(&*self.caller).await;
        }
    }
}

impl wit_call::Host for State {
    async fn report_progress(
        &mut self,
        progress: f64,
        total: Option<f64>,
        message: Option<String>,
    ) -> wasmtime::Result<()> {
        self.journal.note("progress", &progress.to_bits().to_le_bytes());
        let accepted = self.asking.accepts(progress, self.limits.progress, Instant::now());
        if accepted && self.journal.speaks() {
            self.speaks().await;
            let message = message.map(|mut m| {
                m.truncate(m.floor_char_boundary(MESSAGE));
                m
            });
            self.caller.progress(progress, total.filter(|t| t.is_finite()), message);
        }
        Ok(())
    }

    async fn check_cancelled(&mut self) -> wasmtime::Result<bool> {
        // No entry: a replay answers false, and a run that saw true does not wait any more.
        self.journal.note("check-cancelled", &[]);
        Ok(self.journal.is_live() && self.caller.cancelled())
    }

    async fn log(&mut self, level: LogLevel, message: String) -> wasmtime::Result<()> {
        self.speaks().await;
        self.write_log(Audience::Client, level, &message);
        Ok(())
    }

    async fn supports(&mut self, kind: wit_call::QuestionKind) -> wasmtime::Result<bool> {
        let kind = match kind {
            wit_call::QuestionKind::Form => QuestionKind::Form,
            wit_call::QuestionKind::Url => QuestionKind::Url,
            wit_call::QuestionKind::Sampling => QuestionKind::Sampling,
            wit_call::QuestionKind::Roots => QuestionKind::Roots,
        };
        if let Started::Replayed(answer) =
            self.journal.start(Call::Supports, &[kind as u8], 0).map_err(Ended::mismatch)?
        {
            return Ok(answer == [1]);
        }
        effects::granted(&*self.caller).await.map_err(Ended)?;
        let supported = self.caller.supports(kind);
        self.journal.end(&[u8::from(supported)], self.clock.monotonic());
        Ok(supported)
    }

    async fn changed(&mut self, what: Change) -> wasmtime::Result<()> {
        self.journal.note("changed", &[]);
        match &what {
            Change::Contents(uri) if uri.len() > URI => Ok(()),
            _ => {
                if self.journal.is_live() {
                    self.speaks().await;
                    self.caller.changed(what);
                }
                Ok(())
            }
        }
    }

    async fn request_input(
        &mut self,
        requests: Vec<InputRequest>,
    ) -> wasmtime::Result<Result<Vec<InputAnswer>, InputError>> {
        self.ask(requests, 0).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn progress_is_finite_increasing_and_bounded() {
        let now = Instant::now();
        let mut a = Asking::default();
        assert!(!a.accepts(f64::NAN, 2, now));
        assert!(!a.accepts(f64::INFINITY, 2, now));
        assert!(a.accepts(-1.0, 2, now));
        assert!(!a.accepts(-1.0, 2, now));
        assert!(a.accepts(0.5, 2, now));
        assert!(!a.accepts(0.7, 2, now), "the third within a second");
        assert!(a.accepts(0.6, 2, now + Duration::from_secs(1)), "what was dropped does not count");
        assert!(!a.accepts(0.1, 2, now + Duration::from_secs(5)));
    }
}
