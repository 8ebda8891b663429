//! One run from call to outcome: admission, deadline, promotion, cancellation.
//!
//! A run has one owner, its driver (`drive.rs`): a future from admission to settlement, which
//! also promotes. The request only waits for the driver's answer; when the request is dropped
//! (the client left), a guard tells the driver.

mod admission;
mod ask;
mod drive;
mod follow;
mod foreign;
mod keyed;
mod outcome;
mod park;
mod past;
mod places;
mod pressure;
mod resume;
mod rounds;
mod run;
mod target;

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use rmcp::model::{CallToolResult, CompletionInfo, GetPromptResult, ReadResourceResult};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument as _;

use crate::{
    base::{Digest, Fault, Millis, Principal},
    capabilities::{Asked, Request, wit_call},
    config::Config,
    engine::Stalls,
    plugins::{Plugins, Tool},
    store::{Answer as Replied, Question, Task, Vault},
    tasks::Tasks,
};

pub use ask::Client;
pub use outcome::tool_error;
pub use past::{Settings, Unread};
pub use target::{Kind, Reference, Target};

/// One request that starts a run, or comes back to one, as it comes from the wire.
#[derive(Debug)]
pub struct Call {
    /// Who calls.
    pub principal: Principal,
    /// What is wanted.
    pub target: Target,
    /// What the client declared with this request.
    pub client: Client,
    /// From `_meta["layby/idempotency-key"]` or the `Idempotency-Key` header; for tools alone.
    pub idempotency_key: Option<String>,
    /// Where progress and log messages go until the answer, if the client wants some.
    pub outlet: Option<Outlet>,
    /// How a question reaches this client.
    pub asks: Asks,
    /// What a multi round-trip request brings along.
    pub input: Input,
}

/// `inputResponses` and `requestState` of a request (MCP 2026-07-28, multi round-trip requests).
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// Answers by key, unread.
    pub responses: BTreeMap<String, Value>,
    /// The state that an `InputRequiredResult` gave.
    pub state: Option<String>,
}

/// How a question reaches the caller's client.
#[derive(Clone, Debug, Default)]
pub enum Asks {
    /// Revision 2026-07-28: in a task, or as an `InputRequiredResult`.
    #[default]
    Retry,
    /// Older revisions: pushed over the client's open stream by whoever reads this.
    Push(mpsc::Sender<Pushed>),
}

/// A question on its way to a client of an older revision.
#[derive(Debug)]
pub struct Pushed {
    /// All that is asked at once.
    pub requests: Vec<Asked>,
    /// The answers, in the same order, each checked by whoever sends it.
    pub reply: oneshot::Sender<Result<Vec<Replied>, wit_call::InputError>>,
}

/// The answer that a client's raw response gives to a question: for whoever sends [`Pushed::reply`].
///
/// # Errors
/// Why it gives none, for the client.
pub fn check_answer(asked: &Asked, response: &Value) -> Result<Replied, String> {
    let (key, request) = (asked.key.clone(), Arc::new(asked.request.clone()));
    crate::tasks::check_answer(&Question { key, round: 0, kind: asked.kind, request, answer: None }, response)
}

/// What a run tells its client before the answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// `notifications/progress`.
    Progress(Progress),
    /// `notifications/message`.
    Log(LogLine),
}

/// One log message of a plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    /// How grave.
    pub level: wit_call::LogLevel,
    /// The plugin's name.
    pub logger: String,
    /// Its text.
    pub text: String,
}

/// Where a run's notices go. A reader that is slow loses notices, never the answer.
#[derive(Clone, Debug)]
pub struct Outlet {
    /// The queue.
    pub notices: mpsc::Sender<Notice>,
    /// The client sent a progress token.
    pub progress: bool,
    /// The least level of log messages that the client asked for; none where it asked for none.
    pub log: Option<wit_call::LogLevel>,
}

/// One `notifications/progress`.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Done so far; increases.
    pub progress: f64,
    /// Of how much.
    pub total: Option<f64>,
    /// For people.
    pub message: Option<String>,
}

/// What the caller gets.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The tool's result, also where it is an error for the model to read.
    Result(Box<CallToolResult>),
    /// A prompt's messages.
    Prompt(Box<GetPromptResult>),
    /// A resource's contents.
    Resource(Box<ReadResourceResult>),
    /// A completion's values.
    Completion(Box<CompletionInfo>),
    /// A task; its row is committed (P1).
    Task(Box<Task>),
    /// Questions for a client without tasks, by key, and the state that brings it back to the run.
    InputRequired {
        /// MCP requests, as [`crate::capabilities::Asked::request`] has them.
        requests: Vec<(String, Value)>,
        /// Sealed; opaque to the client.
        state: String,
    },
    /// A JSON-RPC error.
    Error(Fault),
}

/// The store's name of the key that seals request states.
pub const SEALING_KEY: &str = "request-state";

/// All runs of this process.
pub struct Runs {
    plugins: Arc<Plugins>,
    tasks: Arc<Tasks>,
    slots: admission::Slots,
    resumes: resume::Resumes,
    rounds: Arc<rounds::Rounds>,
    /// Seals what a run began with.
    vault: Arc<Vault>,
    /// Time that no run is charged for.
    stalls: Arc<Stalls>,
    guests: Guests,
    guests_handle: tokio::runtime::Handle,
    drivers: TaskTracker,
    /// The host ends: runs that wait for a person end now, the others may finish.
    drain: CancellationToken,
    /// The time for that is over: every run ends now.
    stop: CancellationToken,
    fuel_slice: u64,
}

/// Arguments larger than this are checked off the threads that answer HTTP.
const CHECK_INLINE_BYTES: usize = 64 * 1024;

impl Runs {
    /// Starts the guests' own runtime, and goes on with the tasks that are nobody's. `sealing_key` is the store's [`SEALING_KEY`], 32 bytes or more.
    ///
    /// # Errors
    /// Threads that cannot be started; a key that is too short.
    pub fn start(
        config: &Config,
        plugins: Arc<Plugins>,
        tasks: Arc<Tasks>,
        sealing_key: &[u8],
        vault: Arc<Vault>,
        stalls: Arc<Stalls>,
    ) -> std::io::Result<Arc<Self>> {
        let threads = match config.host.guest_threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n as usize,
        };
        let seal = rounds::Seal::new(sealing_key).map_err(std::io::Error::other)?;
        let guests = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("guest")
            .enable_all()
            .build()?;
        let runs = Arc::new(Self {
            plugins,
            tasks,
            resumes: resume::Resumes::new(config.host.concurrency),
            slots: admission::Slots::new(&config.host, &config.callers),
            rounds: rounds::Rounds::new(seal),
            vault,
            stalls,
            guests_handle: guests.handle().clone(),
            guests: Guests(std::sync::Mutex::new(Some(guests))),
            drivers: TaskTracker::new(),
            drain: CancellationToken::new(),
            stop: CancellationToken::new(),
            fuel_slice: config.host.fuel_slice,
        });
        runs.start_resuming();
        Ok(runs)
    }

    /// Serves one request, from admission to an answer. Cancel-safe: dropping the future means that
    /// the client left, which cancels the run unless it is a task or has an idempotency key.
    pub async fn call(self: &Arc<Self>, mut call: Call) -> Answer {
        // No older revision has tasks, whatever its client says.
        call.client.tasks &= matches!(call.asks, Asks::Retry);
        if let (Asks::Retry, Some(state)) = (&call.asks, call.input.state.take()) {
            // Rare ways are kept out of the future of every call, which is copied as it is made.
            return Box::pin(self.again(call, &state)).await;
        }
        match call.target {
            Target::Tool { .. } => self.call_tool(call).await,
            _ => self.call_other(call).await,
        }
    }

    async fn call_tool(self: &Arc<Self>, call: Call) -> Answer {
        let Target::Tool { name, arguments } = &call.target else {
            return self.call_other(call).await;
        };
        let tool = self.plugins.catalog().tools.get(name).cloned();
        let key = match keyed::key_of(call.idempotency_key.as_deref(), arguments, tool.as_deref()) {
            Ok(key) => key,
            Err(fault) => return Answer::Error(fault),
        };
        // Before all else: a repeat gets its outcome also when the tool has changed or gone.
        if let Some(key) = &key {
            match self.tasks.keyed(&call.principal, name, key).await {
                Ok(None) => {}
                Ok(Some(task)) => return Box::pin(self.attach(call, tool.as_deref(), task)).await,
                Err(fault) => return Answer::Error(fault),
            }
        }
        let Some(tool) = tool else { return Answer::Error(target::tool_unknown(name)) };
        if tool.plugin.policy.call_of(&tool.own_name).requires_tasks && !call.client.promotes() {
            return Answer::Error(Fault::tasks_required(format!(
                "The tool {:?} always runs as a task. Declare the io.modelcontextprotocol/tasks extension.",
                tool.name
            )));
        }
        let mark = mark(&call, !tool.plugin.granted.grants.ask.is_empty());
        let Target::Tool { arguments, .. } = call.target else {
            return Answer::Error(target::tool_unknown(&tool.name));
        };
        let text = match self.checked(&tool, arguments).await {
            Ok(text) => text,
            Err(result) => return Answer::Result(Box::new(result)),
        };
        let request = Request::Tool { name: tool.own_name.clone(), arguments: text };
        let Call { principal, client, outlet, asks, input, .. } = call;
        let origin = run::Origin { principal, client, outlet, asks, mark, returns: false };
        let work = target::Work::of_tool(tool);
        let run = match self.begin(work, origin) {
            Ok(run) => run,
            Err(fault) => return Answer::Error(fault),
        };
        match key {
            Some(key) => Box::pin(self.call_keyed(run, key, request, input.responses)).await,
            None => self.launch(run, request, None, input.responses).await,
        }
    }

    /// A prompt, a resource or a completion.
    async fn call_other(self: &Arc<Self>, call: Call) -> Answer {
        let catalog = self.plugins.catalog();
        let mark = mark(&call, true);
        let found = match call.target {
            Target::Tool { name, .. } => Err(target::tool_unknown(&name)),
            Target::Prompt { name, arguments } => target::prompt(&catalog, &name, arguments),
            Target::Resource { uri } => target::resource(&catalog, uri),
            Target::Completion { reference, argument, value, context } => {
                match target::completion(&catalog, reference, argument, value, context) {
                    Ok(Ok(found)) => Ok(found),
                    Ok(Err(nothing)) => return Answer::Completion(Box::new(nothing)),
                    Err(fault) => Err(fault),
                }
            }
        };
        let (work, request) = match found {
            Ok(found) => found,
            Err(fault) => return Answer::Error(fault),
        };
        let Call { principal, client, outlet, asks, input, .. } = call;
        let origin = run::Origin { principal, client, outlet, asks, mark, returns: false };
        let run = match self.begin(work, origin) {
            Ok(run) => run,
            Err(fault) => return Answer::Error(fault),
        };
        self.launch(run, request, None, input.responses).await
    }

    /// A run that begins now.
    fn begin(&self, work: target::Work, origin: run::Origin) -> Result<Arc<run::Run>, Fault> {
        if self.plugins.is_revoked(work.plugin.digest) {
            return Err(Fault::revoked(work.plugin.digest));
        }
        let past = past::Past::none(&work.plugin)?;
        Ok(run::Run::new(work, origin, past, Arc::downgrade(&self.plugins), self.rounds.clone()))
    }

    /// Starts the driver and waits for its answer. With `held`, the run has its row already.
    async fn launch(
        self: &Arc<Self>,
        run: Arc<run::Run>,
        request: Request,
        held: Option<crate::tasks::Held>,
        early: BTreeMap<String, Value>,
    ) -> Answer {
        let (reply, answer) = oneshot::channel();
        let quick = run.work.is_quick();
        let start = drive::Start { request, held, early, reply };
        let driver = drive::Driver::new(self.clone(), run.clone(), start);
        // A caller's trace goes on in the driver, also when it outlives the request.
        let span = tracing::Span::current();
        let mut driver: Pin<Box<dyn Future<Output = ()> + Send>> = if span.is_none() {
            Box::pin(driver.drive(None))
        } else {
            Box::pin(driver.drive(None).instrument(span))
        };
        let guard = run::GoneGuard::new(run.gone.clone());
        let ended = quick && poll_once(&mut driver);
        if !ended {
            self.drivers.spawn_on(driver, &self.guests_handle);
        }
        let answer = answer.await.unwrap_or_else(|_| Answer::Error(host_stopping()));
        guard.disarm();
        answer
    }

    /// The text of arguments that are within their bound and valid; or the result that says what is wrong.
    async fn checked(
        &self,
        tool: &Arc<Tool>,
        arguments: Map<String, Value>,
    ) -> Result<String, CallToolResult> {
        let arguments = Value::Object(arguments);
        let text = arguments.to_string();
        if let Some(over) = target::over_limit(&tool.plugin, text.len()) {
            return Err(tool_error("limit_arguments", over));
        }
        let wrong = if text.len() > CHECK_INLINE_BYTES {
            let (tool, value) = (tool.clone(), arguments);
            let joined = tokio::task::spawn_blocking(move || tool.input.check(&value).err());
            match joined.await {
                Ok(None) => return Ok(text),
                Ok(Some(wrong)) => wrong,
                Err(_) => "the check of the arguments was interrupted; call again".to_owned(),
            }
        } else {
            match tool.input.check(&arguments) {
                Ok(()) => return Ok(text),
                Err(wrong) => wrong,
            }
        };
        Err(tool_error(
            "arguments_invalid",
            format!("The arguments do not fit the input schema of {:?}: {wrong}", tool.name),
        ))
    }

    /// Stops taking part: ends the runs that wait for a person, waits up to `within` for the others,
    /// then ends the rest. Their tasks are settled as interrupted.
    pub async fn close(&self, within: Millis) {
        self.drivers.close();
        self.drain.cancel();
        let drained = tokio::time::timeout(within.duration(), self.drivers.wait()).await;
        if drained.is_err() {
            tracing::info!(runs = self.drivers.len(), "stopping the runs that are left");
        }
        self.stop.cancel();
        // Each driver drops its guest and settles; the bound is for a store that does not answer.
        let _ = tokio::time::timeout(Millis::from_secs(5).duration(), self.drivers.wait()).await;
        self.guests.end();
    }
}

/// The guests' own runtime. It ends in the background: who drops it may be on a thread that must not wait, as where a second
/// signal ends a host at once.
struct Guests(std::sync::Mutex<Option<tokio::runtime::Runtime>>);

impl Guests {
    fn end(&self) {
        if let Some(runtime) = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        self.end();
    }
}

/// Polls once with a waker that does nothing; true where the future has ended. The runtime that
/// takes it over polls it again at once, so no wake-up is lost.
fn poll_once(future: &mut Pin<Box<dyn Future<Output = ()> + Send>>) -> bool {
    matches!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()))
}

/// Names a request for its retries; not worked out where its plugin may not ask anything.
fn mark(call: &Call, asks: bool) -> Digest {
    if asks { call.target.mark(&call.principal) } else { Digest([0; 32]) }
}

fn host_stopping() -> Fault {
    Fault::internal(
        "host_stopping",
        "The host gives up its runs: it shuts down, or was away from its database. Call again.",
    )
}
