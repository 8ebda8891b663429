//! One run from call to outcome: admission, deadline, promotion, cancellation.
//!
//! A run has one owner, its driver (`drive.rs`): a future from admission to settlement, which
//! also promotes. The request only waits for the driver's answer; when the request is dropped
//! (the client left), a guard tells the driver.

mod admission;
mod ask;
mod drive;
mod keyed;
mod outcome;
mod run;

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use rmcp::model::CallToolResult;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    base::{Fault, Millis, Principal},
    capabilities::{Asked, wit_call},
    config::{Config, Limits},
    plugins::{Plugins, Tool},
    store::{Answer as Replied, Task},
    tasks::Tasks,
};

pub use ask::Client;
pub use outcome::tool_error;

/// One `tools/call`, as it comes from the wire.
#[derive(Debug)]
pub struct Call {
    /// Who calls.
    pub principal: Principal,
    /// Public tool name.
    pub tool: String,
    /// The arguments; an absent member is an empty object.
    pub arguments: Map<String, Value>,
    /// What the client declared with this request.
    pub client: Client,
    /// From `_meta["layby/idempotency-key"]` or the `Idempotency-Key` header.
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
#[derive(Debug)]
pub enum Answer {
    /// The tool's result, also where it is an error for the model to read.
    Result(Box<CallToolResult>),
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

/// All runs of this process.
pub struct Runs {
    plugins: Arc<Plugins>,
    tasks: Arc<Tasks>,
    slots: admission::Slots,
    guests: std::sync::Mutex<Option<tokio::runtime::Runtime>>,
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
    /// Starts the guests' own runtime.
    ///
    /// # Errors
    /// Threads that cannot be started.
    pub fn start(config: &Config, plugins: Arc<Plugins>, tasks: Arc<Tasks>) -> std::io::Result<Arc<Self>> {
        let threads = match config.host.guest_threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n as usize,
        };
        let guests = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("guest")
            .enable_all()
            .build()?;
        Ok(Arc::new(Self {
            plugins,
            tasks,
            slots: admission::Slots::new(&config.host),
            guests_handle: guests.handle().clone(),
            guests: std::sync::Mutex::new(Some(guests)),
            drivers: TaskTracker::new(),
            drain: CancellationToken::new(),
            stop: CancellationToken::new(),
            fuel_slice: config.host.fuel_slice,
        }))
    }

    /// Serves one call, from admission to an answer. Cancel-safe: dropping the future means that
    /// the client left, which cancels the run unless it is a task or has an idempotency key.
    pub async fn call(self: &Arc<Self>, call: Call) -> Answer {
        let tool = self.plugins.catalog().tools.get(&call.tool).cloned();
        let key = match keyed::key_of(&call, tool.as_deref()) {
            Ok(key) => key,
            Err(fault) => return Answer::Error(fault),
        };
        // Before all else: a repeat gets its outcome also when the tool has changed or gone.
        if let Some(key) = &key {
            match self.tasks.keyed(&call.principal, &call.tool, key).await {
                Ok(None) => {}
                Ok(Some(task)) => {
                    return self.attach(&call.principal, call.client, tool.as_deref(), task).await;
                }
                Err(fault) => return Answer::Error(fault),
            }
        }
        let Some(tool) = tool else {
            // As long as a tool's name can be: what is longer is none, and need not come back whole.
            let named: String = call.tool.chars().take(128).collect();
            let text =
                format!("There is no tool {named:?}. Call tools/list for the tools that are served now.");
            return Answer::Error(Fault::invalid("tool_unknown", text).with("tool", named.into()));
        };
        if tool.plugin.policy.call_of(&tool.own_name).requires_tasks && !call.client.tasks {
            return Answer::Error(Fault::tasks_required(format!(
                "The tool {:?} always runs as a task. Declare the io.modelcontextprotocol/tasks extension.",
                tool.name
            )));
        }
        let text = match self.checked(&tool, call.arguments).await {
            Ok(text) => text,
            Err(result) => return Answer::Result(Box::new(result)),
        };
        let run =
            run::Run::new(tool, call.principal, call.client, call.outlet, Arc::downgrade(&self.plugins));
        match key {
            Some(key) => self.call_keyed(run, key, text).await,
            None => self.launch(run, text, None).await,
        }
    }

    /// Starts the driver and waits for its answer. With `held`, the run has its row already.
    async fn launch(
        self: &Arc<Self>,
        run: Arc<run::Run>,
        arguments: String,
        held: Option<crate::tasks::Held>,
    ) -> Answer {
        let (reply, answer) = oneshot::channel();
        let keyed = held.is_some();
        let quick = run.tool.pace.is_quick() && !run.tool.plugin.granted.may_block();
        let driver = drive::Driver::new(self.clone(), run.clone(), arguments, held, reply);
        let mut driver: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(driver.drive());
        let guard = run::GoneGuard::new(run, keyed);
        let ended = quick && poll_once(&mut driver);
        if !ended {
            self.drivers.spawn_on(driver, &self.guests_handle);
        }
        let answer = answer.await.unwrap_or_else(|_| {
            Answer::Error(Fault::internal(
                "host_stopping",
                "The host is shutting down. Call again when it is back.",
            ))
        });
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
        let Limits { arguments: limit, .. } = tool.plugin.policy.limits;
        if text.len() as u64 > limit.0 {
            return Err(tool_error(
                "limit_arguments",
                format!(
                    "The arguments are {} bytes of JSON; the limit of this plugin (limits.arguments) is {limit}. \
                     Send less, or split the call.",
                    text.len()
                ),
            ));
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
        let runtime = self.guests.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
    }
}

/// Polls once with a waker that does nothing; true where the future has ended. The runtime that
/// takes it over polls it again at once, so no wake-up is lost.
fn poll_once(future: &mut Pin<Box<dyn Future<Output = ()> + Send>>) -> bool {
    matches!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()))
}
