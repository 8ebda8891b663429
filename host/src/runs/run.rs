//! What a run's driver, its guest and its request share.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

use super::{Asks, Client, LogLine, Notice, Outlet, Progress, ask, past::Past, rounds::Rounds, target::Work};
use crate::{
    base::{Digest, Principal, TaskId},
    capabilities::{Asked, Audience, Caller, Flights, Granted, Stopping, wit_call},
    config::TaskRules,
    plugins::Plugins,
    store::{Answer, QuestionKind},
    tasks::Leased,
};

/// The target of what plugins write: their log and their standard streams.
pub(super) const PLUGIN_LOG: &str = "layby::plugin";

/// The target of what becomes of calls, at `debug`: `layby dev` shows it.
const CALLS_LOG: &str = "layby::calls";

/// The guest's question, on its way to the driver.
pub(super) struct Question {
    pub(super) requests: Vec<Asked>,
    /// The run had asked this when it was last seen.
    pub(super) again: bool,
    /// It is the host's own.
    pub(super) by_host: bool,
    pub(super) reply: oneshot::Sender<Result<Vec<Answer>, wit_call::InputError>>,
}

/// Whose run it is, and how it may be asked.
pub(super) struct Origin {
    pub(super) principal: Principal,
    pub(super) client: Client,
    pub(super) outlet: Option<Outlet>,
    pub(super) asks: Asks,
    /// Names the request, for its retries.
    pub(super) mark: Digest,
    /// Its client has a state that leads back to it.
    pub(super) returns: bool,
}

/// The shared part of one run.
pub(super) struct Run {
    pub(super) work: Work,
    pub(super) principal: Principal,
    pub(super) asks: Asks,
    pub(super) mark: Digest,
    returns: bool,
    /// What the request declared that it began with.
    pub(super) client: Client,
    plugins: Weak<Plugins>,
    rounds: Arc<Rounds>,
    /// The task that it has become, for the log.
    task: OnceLock<TaskId>,
    /// Set once cancellation is asked for; the guest reads it.
    cancelled: AtomicBool,
    /// The request that it began with was dropped before it had its answer.
    pub(super) gone: Arc<Notify>,
    /// Where progress goes until the answer.
    outlet: Mutex<Option<Outlet>>,
    /// The newest progress text, for the task's `statusMessage`.
    message: Mutex<Option<String>>,
    pub(super) progressed: Notify,
    missing: Mutex<ask::Missing>,
    /// What policy grants now, and when that was looked up elsewhere.
    granted: Mutex<(Arc<Granted>, Option<Instant>)>,
    /// Bytes of the instance's linear memories now.
    pub(super) meter: Arc<AtomicU64>,
    /// The guest's open question, until the driver takes it. A guest has one thread, so one place is enough.
    question: Mutex<Option<Question>>,
    /// The host's own, which come from exchanges beside the guest.
    host_questions: Mutex<VecDeque<Question>>,
    questioned: Notify,
    /// Since when and until when the guest sleeps, if it does.
    sleep: Mutex<Option<(Instant, Instant)>>,
    /// That has changed.
    pub(super) slept: Notify,
    /// Whether effects wait for a commit, and those that do.
    durable: AtomicBool,
    /// The right to act for the task that it has become.
    leased: Mutex<Option<Leased>>,
    commits: Mutex<Vec<oneshot::Sender<()>>>,
    pub(super) to_commit: Notify,
    pub(super) to_commit_soon: Notify,
    /// Its exchanges by HTTP.
    pub(super) flights: Flights,
    pub(super) past: Past,
}

/// A poisoned lock here only means that another thread panicked between two plain writes.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Run {
    pub(super) fn new(
        work: Work,
        origin: Origin,
        past: Past,
        plugins: Weak<Plugins>,
        rounds: Arc<Rounds>,
    ) -> Arc<Self> {
        let Origin { principal, mut client, outlet, asks, mark, returns } = origin;
        // Only a tool's call becomes a task, and no older revision has them.
        client.tasks &= work.tool().is_some() && matches!(asks, Asks::Retry);
        client.bridge &= work.tool().is_some();
        let granted = Mutex::new((work.plugin.granted.clone(), None));
        Arc::new(Self {
            work,
            principal,
            asks,
            mark,
            returns,
            client,
            plugins,
            rounds,
            task: OnceLock::new(),
            cancelled: AtomicBool::new(false),
            gone: Arc::default(),
            outlet: Mutex::new(outlet),
            message: Mutex::new(None),
            progressed: Notify::new(),
            missing: Mutex::default(),
            granted,
            meter: Arc::default(),
            question: Mutex::default(),
            host_questions: Mutex::default(),
            questioned: Notify::new(),
            sleep: Mutex::new(None),
            slept: Notify::new(),
            durable: AtomicBool::new(false),
            leased: Mutex::default(),
            commits: Mutex::default(),
            to_commit: Notify::new(),
            to_commit_soon: Notify::new(),
            flights: Flights::default(),
            past,
        })
    }

    /// Where notices go now: to the request that it began with, or to one that follows its row.
    fn outlet(&self) -> Option<Outlet> {
        let first = lock(&self.outlet).clone();
        first.or_else(|| self.rounds.outlet(self.task()?))
    }

    /// From now on the run's lines in the log name its task. A run becomes one task at most.
    pub(super) fn became(&self, task: TaskId) {
        let _ = self.task.set(task);
    }

    /// The task that it has become.
    pub(super) fn task(&self) -> Option<TaskId> {
        self.task.get().copied()
    }

    /// Logs that it is a task now.
    pub(super) fn log_task(&self) {
        self.log_call("became a task");
    }

    /// Logs that it asks; `keys` are the plugin's.
    pub(super) fn log_question(&self, keys: &[&str]) {
        self.log_call(format_args!("asks {}", keys.join(", ")));
    }

    /// Logs its end.
    pub(super) fn log_end(&self, how: &str) {
        self.log_call(how);
    }

    fn log_call(&self, what: impl std::fmt::Display) {
        let (plugin, tool) = (self.work.plugin.name.as_str(), self.work.name());
        let task = self.task().map(tracing::field::display);
        let ms = u64::try_from(self.past.began.at.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::debug!(target: CALLS_LOG, plugin, tool, task, ms, "{what}");
    }

    /// From now on the guest sees that it is to stop.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    /// The next question. Cancel-safe.
    pub(super) async fn asked(&self) -> Question {
        loop {
            // Bound to its statement: a lock in the condition would live as long as the body. The guest's first: its start is
            // in the journal, and no commit may have that without its rows.
            let mut question = lock(&self.question).take();
            question = question.or_else(|| lock(&self.host_questions).pop_front());
            if let Some(question) = question {
                return question;
            }
            self.questioned.notified().await;
        }
    }

    /// Since when and until when the guest sleeps, if it does.
    pub(super) fn sleeps(&self) -> Option<(Instant, Instant)> {
        *lock(&self.sleep)
    }

    /// From now on no effect begins before its start is committed. Said before the journal is looked at for the first
    /// commit: what was recorded without waiting is then in it.
    pub(super) fn becomes_durable(&self, leased: Leased) {
        lock(&self.leased).get_or_insert(leased);
        self.durable.store(true, Ordering::SeqCst);
    }

    /// The store has refused its row for certain: nobody else can go on with it, and its effects need no lease.
    pub(super) fn has_no_row(&self) {
        lock(&self.leased).take();
    }

    /// The effects that wait for a commit, taken.
    pub(super) fn take_commits(&self) -> Vec<oneshot::Sender<()>> {
        std::mem::take(&mut *lock(&self.commits))
    }

    /// The request has its answer: no notice may follow it.
    pub(super) fn close_outlet(&self) {
        lock(&self.outlet).take();
    }

    /// The newest progress text, taken.
    pub(super) fn take_message(&self) -> Option<String> {
        lock(&self.message).take()
    }

    pub(super) fn missing(&self) -> ask::Missing {
        *lock(&self.missing)
    }

    /// Whether these questions may be put now.
    ///
    /// # Errors
    /// What the guest gets in place of the answers.
    pub(super) fn may_put(&self, requests: &[Asked]) -> Result<(), wit_call::InputError> {
        for asked in requests {
            // What rmcp's types cannot say could never be read by a poll.
            if let Err(e) = serde_json::from_value::<rmcp::model::InputRequest>(asked.request.clone()) {
                let text = format!("{}: not a request that MCP has: {e}", asked.key);
                return Err(wit_call::InputError::Invalid(text));
            }
            let url = asked.request["params"]["url"].as_str().filter(|_| asked.kind == QuestionKind::Url);
            if !self.may_ask(asked.kind, url) {
                return Err(wit_call::InputError::Unsupported);
            }
        }
        Ok(())
    }

    /// True where this question may be put; otherwise the reason is kept.
    fn may_ask(&self, kind: QuestionKind, url: Option<&str>) -> bool {
        if !self.work.may_ask() {
            return false;
        }
        let now = lock(&self.granted).0.clone();
        let mut both = [&self.work.plugin.granted, &now].into_iter();
        let granted = both.all(|granted| ask::granted(&granted.grants.ask, kind, url));
        let may = granted && self.client.can_answer(kind, self.work.policy().model_may_answer);
        if !may {
            lock(&self.missing).note(kind, granted);
            if !granted {
                let line = match (kind, url) {
                    (QuestionKind::Url, Some(url)) => ask::url_grant(url),
                    (QuestionKind::Url, None) => "url https://HOST/".into(),
                    (QuestionKind::Form, _) => "form".into(),
                    (QuestionKind::Sampling, _) => "sampling".into(),
                    (QuestionKind::Roots, _) => "roots".into(),
                };
                tracing::warn!(
                    plugin = %self.work.plugin.name, work = %self.work,
                    "denied a question: to allow it, add {line:?} to grants.ask of this plugin's policy"
                );
            }
        }
        may
    }
}

impl Caller for Run {
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<String>) {
        let outlet = self.outlet();
        let text = message.clone().unwrap_or_else(|| match total {
            Some(total) => format!("{progress} of {total}"),
            None => progress.to_string(),
        });
        *lock(&self.message) = Some(text);
        self.progressed.notify_one();
        if let Some(outlet) = outlet.filter(|o| o.progress) {
            // A client that does not read loses reports, never the result.
            let _ = outlet.notices.try_send(Notice::Progress(Progress { progress, total, message }));
        }
    }

    fn cancelled(&self) -> bool {
        self.is_cancelled()
    }

    fn supports(&self, kind: QuestionKind) -> bool {
        self.may_ask(kind, None)
    }

    fn request_input(
        &self,
        requests: Vec<Asked>,
        again: bool,
    ) -> BoxFuture<'_, Result<Vec<Answer>, wit_call::InputError>> {
        Box::pin(async move {
            if self.is_cancelled() {
                return Err(wit_call::InputError::Cancelled);
            }
            // What was asked before is in the task's row, if it came that far: the driver knows.
            if !again {
                self.may_put(&requests)?;
            }
            let (reply, answer) = oneshot::channel();
            *lock(&self.question) = Some(Question { requests, again, by_host: false, reply });
            self.questioned.notify_one();
            // A driver that has ended dropped the sender: the run is being stopped.
            answer.await.unwrap_or(Err(wit_call::InputError::Cancelled))
        })
    }

    fn ask_for_host(&self, request: Asked) -> BoxFuture<'_, Result<Answer, wit_call::InputError>> {
        Box::pin(async move {
            let client = self.client;
            // Its row is the only way to it by now: by its handle, or by the state that leads back to it.
            let returns = client.promotes() || self.returns;
            if !returns || !client.can_answer(request.kind, self.work.policy().model_may_answer) {
                return Err(wit_call::InputError::Unsupported);
            }
            let (reply, answer) = oneshot::channel();
            let question = Question { requests: vec![request], again: false, by_host: true, reply };
            lock(&self.host_questions).push_back(question);
            self.questioned.notify_one();
            let answers = answer.await.unwrap_or(Err(wit_call::InputError::Cancelled))?;
            answers.into_iter().next().ok_or(wit_call::InputError::TimedOut)
        })
    }

    fn sleeps(&self, left: Duration) {
        let now = Instant::now();
        *lock(&self.sleep) = Some((now, now + left));
        self.slept.notify_one();
    }

    fn woke(&self) {
        *lock(&self.sleep) = None;
        self.slept.notify_one();
    }

    fn commit(&self) -> BoxFuture<'_, Result<(), Stopping>> {
        Box::pin(async move {
            if !self.durable.load(Ordering::SeqCst) {
                return Ok(());
            }
            let (reply, committed) = oneshot::channel();
            lock(&self.commits).push(reply);
            self.to_commit.notify_one();
            // A driver that has ended dropped the sender.
            committed.await.map_err(|_| Stopping)
        })
    }

    fn commit_soon(&self) {
        if self.durable.load(Ordering::SeqCst) {
            self.to_commit_soon.notify_one();
        }
    }

    fn may_send(&self) -> bool {
        lock(&self.leased).as_ref().is_none_or(Leased::lasts)
    }

    fn granted(&self) -> Option<Arc<Granted>> {
        // Without plugins the host ends.
        let plugins = self.plugins.upgrade();
        let now = plugins.map_or_else(
            || Some(lock(&self.granted).0.clone()),
            |plugins| plugins.granted(&self.work.plugin.name),
        );
        if let Some(now) = &now {
            *lock(&self.granted) = (now.clone(), None);
        }
        now
    }

    fn find_granted(&self) -> BoxFuture<'_, Result<Arc<Granted>, String>> {
        Box::pin(async move {
            let (known, at) = lock(&self.granted).clone();
            let (Some(plugins), true) =
                (self.plugins.upgrade(), at.is_none_or(|at| at.elapsed() > TaskRules::GRANTED.duration()))
            else {
                return Ok(known);
            };
            let now = plugins.find_granted(&self.work.plugin.name).await?;
            *lock(&self.granted) = (now.clone(), Some(Instant::now()));
            Ok(now)
        })
    }

    fn changed(&self, what: wit_call::Change) {
        if let Some(plugins) = self.plugins.upgrade() {
            plugins.changed(&self.work.plugin.name, what);
        }
    }

    fn log(&self, audience: Audience, level: wit_call::LogLevel, message: &str) {
        let outlet = if audience == Audience::Client { self.outlet() } else { None };
        if let Some(outlet) = outlet.filter(|o| o.log.is_some_and(|least| level as u8 >= least as u8)) {
            let line = LogLine { level, logger: self.work.plugin.name.clone(), text: message.to_owned() };
            let _ = outlet.notices.try_send(Notice::Log(line));
        }
        let (plugin, tool) = (self.work.plugin.name.as_str(), self.work.name());
        let task = self.task().map(tracing::field::display);
        match level {
            wit_call::LogLevel::Debug => tracing::debug!(target: PLUGIN_LOG, plugin, tool, task, "{message}"),
            wit_call::LogLevel::Info | wit_call::LogLevel::Notice => {
                tracing::info!(target: PLUGIN_LOG, plugin, tool, task, "{message}");
            }
            wit_call::LogLevel::Warning => {
                tracing::warn!(target: PLUGIN_LOG, plugin, tool, task, "{message}");
            }
            wit_call::LogLevel::Error | wit_call::LogLevel::Critical => {
                tracing::error!(target: PLUGIN_LOG, plugin, tool, task, "{message}");
            }
        }
    }
}

/// Lives in the request's future: dropped before its time, it tells the driver that the client left.
pub(super) struct GoneGuard {
    gone: Arc<Notify>,
    armed: bool,
}

impl GoneGuard {
    pub(super) const fn new(gone: Arc<Notify>) -> Self {
        Self { gone, armed: true }
    }

    pub(super) fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for GoneGuard {
    fn drop(&mut self) {
        if self.armed {
            self.gone.notify_one();
        }
    }
}
