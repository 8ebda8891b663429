//! What a replay shows: each call as it happens, and what the guest says in between.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use console::style;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::{Recorded, Verdict, line};
use crate::{
    base::{Digest, UnixMillis, neutral_line},
    capabilities::{
        Asked, Audience, Caller, Granted, Stopping, describe_answer, describe_change, describe_exchange,
        wit_call,
    },
    commands::out::Out,
    journal::{CHANGES, Call, Entry, Watcher},
    store::{Answer, QuestionKind},
};

/// A run's monotonic clock begins here, in nanoseconds.
const BEGIN_NS: u64 = 1_000_000_000;

/// Where everything is shown.
#[derive(Clone)]
pub(in crate::commands) struct Viewer(Arc<Mutex<Inner>>);

struct Inner {
    json: bool,
    quiet: bool,
    steps: Vec<Value>,
    /// Readings of one clock in a row: the first's number, and how many.
    clocks: Option<(u64, Call, u64)>,
    /// Run time, in nanoseconds.
    at: u64,
    /// The call that waits for its answer.
    open: Option<(u64, Call)>,
}

impl Viewer {
    /// For `json`, steps are kept for [`Viewer::take`]; else they are printed, unless `quiet`.
    pub(in crate::commands) fn new(json: bool, quiet: bool) -> Self {
        let inner = Inner { json, quiet, steps: Vec::new(), clocks: None, at: BEGIN_NS, open: None };
        Self(Arc::new(Mutex::new(inner)))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All steps, for one JSON object.
    pub(super) fn take(&self) -> Vec<Value> {
        let mut inner = self.lock();
        inner.end_clocks();
        std::mem::take(&mut inner.steps)
    }

    pub(super) fn heading(&self, recorded: &Recorded) {
        let header = &recorded.kept.header;
        let began = UnixMillis(header.start.wall / 1_000_000).rfc3339();
        let (plugin, tool) = (neutral_line(&recorded.plugin), neutral_line(&header.tool));
        print(&format!(
            "task {}: {tool} of {plugin} ({}), begun {began}",
            recorded.task,
            Digest(header.digest).short()
        ));
        print(&format!("arguments {}", cut(&header.arguments)));
    }

    pub(super) fn verdict(&self, recorded: &Recorded, verdict: &Verdict) {
        self.lock().end_clocks();
        let good = matches!(verdict, Verdict::Same | Verdict::Open);
        let text = line(verdict);
        print(&if good { style(text).green() } else { style(text).red() }.bold().to_string());
        if let (Some(end), true) = (&recorded.end, matches!(verdict, Verdict::OtherEnd(_))) {
            print(&format!(
                "the task had ended with {}",
                cut(&serde_json::to_string(end).unwrap_or_default())
            ));
        }
    }
}

impl Inner {
    fn step(&mut self, step: u64, call: &str, detail: &str, value: Value) {
        if self.json {
            let mut entry = json!({ "step": step, "ms": self.ms(), "call": call });
            if let (Some(entry), Value::Object(more)) = (entry.as_object_mut(), value) {
                entry.extend(more);
            }
            self.steps.push(entry);
        } else if !self.quiet {
            let at = style(format!("{:>10.3} s {step:>5}", self.seconds())).dim();
            print(&format!("{at}  {call}{}{}", if detail.is_empty() { "" } else { " " }, cut(detail)));
        }
    }

    fn said(&mut self, what: &str, text: &str) {
        self.end_clocks();
        if self.json {
            self.steps.push(json!({ "ms": self.ms(), "said": what, "text": text }));
        } else if !self.quiet {
            print(&format!("{:>20}{}", "", style(format!("{what}: {}", cut(text))).cyan()));
        }
    }

    fn end_clocks(&mut self) {
        if let Some((step, call, times)) = self.clocks.take() {
            let detail = if times > 1 { format!("{times} times") } else { String::new() };
            self.step(step, &call.to_string(), &detail, json!({ "times": times }));
        }
    }

    const fn ms(&self) -> u64 {
        self.at.saturating_sub(BEGIN_NS) / 1_000_000
    }

    fn seconds(&self) -> f64 {
        Duration::from_nanos(self.at.saturating_sub(BEGIN_NS)).as_secs_f64()
    }
}

/// The journal's watcher.
pub(super) struct Shown(Viewer);

impl Shown {
    pub(super) const fn new(viewer: Viewer) -> Self {
        Self(viewer)
    }
}

impl Watcher for Shown {
    fn entry(&mut self, step: u64, entry: &Entry) {
        let mut inner = self.0.lock();
        match entry {
            Entry::Clock(call, ns) => {
                if *call == Call::Monotonic {
                    inner.at = *ns;
                }
                match &mut inner.clocks {
                    Some((_, same, times)) if same == call => *times += 1,
                    _ => {
                        inner.end_clocks();
                        inner.clocks = Some((step, *call, 1));
                    }
                }
            }
            Entry::Again(call, hash) => {
                inner.end_clocks();
                inner.step(step, &call.to_string(), &format!("(answer {hash:08x})"), json!({}));
            }
            Entry::Start(call, _, fuel) => {
                inner.end_clocks();
                inner.open = Some((step, *call));
                let detail = if *fuel > 0 { format!("({fuel} fuel left)") } else { String::new() };
                inner.step(step, &call.to_string(), &detail, json!({ "fuelLeft": fuel }));
            }
            Entry::End(answer, at) => {
                inner.at = *at;
                let call = inner.open.take().map_or(Call::Ready, |(_, call)| call);
                let text = describe_answer(call, answer);
                inner.step(step, "→", &text, json!({ "answers": call.to_string(), "answer": text }));
            }
            Entry::Sent(k, hash, _) if *k >= CHANGES => {
                inner.end_clocks();
                let n = k - CHANGES;
                inner.step(step, "file change", &format!("{n} begun ({hash:016x})"), json!({ "change": n }));
            }
            Entry::Answered(k, answer) if *k >= CHANGES => {
                inner.end_clocks();
                let (n, text) = (k - CHANGES, describe_change(answer));
                let detail = format!("{n} done: {text}");
                inner.step(step, "file change", &detail, json!({ "change": n, "answer": text }));
            }
            Entry::Sent(k, hash, _) => {
                inner.end_clocks();
                inner.step(step, "http", &format!("{k} sent ({hash:016x})"), json!({ "exchange": k }));
            }
            Entry::Answered(k, answer) => {
                inner.end_clocks();
                let text = describe_exchange(answer);
                let detail = format!("{k} answered: {text}");
                inner.step(step, "http", &detail, json!({ "exchange": k, "answer": text }));
            }
        }
    }

    fn note(&mut self, _: &'static str, _: &[u8]) {}
}

impl Caller for Viewer {
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<String>) {
        let of = total.map(|total| format!(" of {total}")).unwrap_or_default();
        let message = message.map(|message| format!(", {message}")).unwrap_or_default();
        self.lock().said("progress", &format!("{progress}{of}{message}"));
    }

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
        // Never reached: where the journal ends the guest is stopped.
        Box::pin(std::future::ready(Err(wit_call::InputError::Cancelled)))
    }

    fn sleeps(&self, _: Duration) {}

    fn woke(&self) {}

    fn commit(&self) -> BoxFuture<'_, Result<(), Stopping>> {
        Box::pin(std::future::ready(Err(Stopping)))
    }

    fn granted(&self) -> Option<Arc<Granted>> {
        // Nothing is done live.
        Some(Arc::default())
    }

    fn changed(&self, _: wit_call::Change) {
        self.lock().said("changed", "");
    }

    fn log(&self, _: Audience, level: wit_call::LogLevel, message: &str) {
        self.lock().said(
            match level {
                wit_call::LogLevel::Debug => "debug",
                wit_call::LogLevel::Info => "info",
                wit_call::LogLevel::Notice => "notice",
                wit_call::LogLevel::Warning => "warning",
                wit_call::LogLevel::Error => "error",
                wit_call::LogLevel::Critical => "critical",
            },
            message,
        );
    }
}

/// One neutral line of a bounded length.
fn cut(text: &str) -> String {
    const MOST: usize = 300;
    let line = neutral_line(text);
    match line.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

fn print(text: &str) {
    // A reader that has seen enough is nothing to tell.
    let _ = Out::default().text(text);
}
