//! MCP over standard streams: one message a line, both eras in one process.
//!
//! Requests of 2026-07-28 are dispatched here, as over HTTP. The first `initialize` (or `ping`) without today's
//! metadata opens the older era: rmcp serves it over a pipe, and every message that is not today's goes there.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rmcp::{ErrorData, model::RequestId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::mpsc,
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Caller, Handler,
    access::Access,
    dispatch::{Desk, Envelope, Notices, Parsed, Work, invalid, parse},
    error_data,
    listen::{Places, Subscription},
    older::Older,
};
use crate::{
    base::{Fault, Principal},
    config::{ServeConfig, StdioRules},
    runs::Asks,
};

/// One process's standard streams.
pub struct Stdio {
    desk: Desk,
    places: Places,
    config: ServeConfig,
    out: mpsc::Sender<Vec<u8>>,
    /// The requests of today that are being answered, by the text of their id.
    running: Mutex<HashMap<String, CancellationToken>>,
    tasks: TaskTracker,
    /// Ends the subscriptions.
    stop: CancellationToken,
}

/// The pipe to the older era.
struct Pipe {
    lines: mpsc::Sender<Vec<u8>>,
}

/// Serves until the input ends, `stop` is cancelled, or the output is gone.
///
/// # Errors
/// Input that cannot be read.
pub async fn serve<R, W>(
    handler: Arc<Handler>,
    config: ServeConfig,
    input: R,
    output: W,
    stop: CancellationToken,
) -> io::Result<()>
where
    R: AsyncBufRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (out, lines) = mpsc::channel(StdioRules::QUEUE);
    let gone = CancellationToken::new();
    let writer = tokio::spawn(write(output, lines, gone.clone()));
    let stdio = Arc::new(Stdio {
        places: Places::new(&config),
        config,
        desk: Desk::new(handler),
        out,
        running: Mutex::default(),
        tasks: TaskTracker::new(),
        stop: stop.child_token(),
    });
    let read = stdio.clone().read(input, &stop, &gone).await;
    // Subscriptions end now; calls may be answered, for as long as their client surely still waits.
    stdio.stop.cancel();
    stdio.tasks.close();
    let drain = if stop.is_cancelled() || gone.is_cancelled() {
        Duration::ZERO
    } else {
        StdioRules::DRAIN.duration()
    };
    let _ = tokio::time::timeout(drain, stdio.tasks.wait()).await;
    for (_, running) in stdio.running().drain() {
        running.cancel();
    }
    let _ = tokio::time::timeout(StdioRules::END.duration(), stdio.tasks.wait()).await;
    drop(stdio);
    let _ = tokio::time::timeout(StdioRules::END.duration(), writer).await;
    read
}

/// Writes lines, and flushes whenever none waits.
async fn write<W: AsyncWrite + Unpin>(
    mut output: W,
    mut lines: mpsc::Receiver<Vec<u8>>,
    gone: CancellationToken,
) {
    let _gone = gone.drop_guard();
    while let Some(mut line) = lines.recv().await {
        line.push(b'\n');
        if output.write_all(&line).await.is_err() || (lines.is_empty() && output.flush().await.is_err()) {
            return;
        }
    }
    let _ = output.flush().await;
}

impl Stdio {
    fn running(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn say(&self, message: impl Serialize) {
        match serde_json::to_vec(&message) {
            // The writer ends where nobody reads any more.
            Ok(line) => drop(self.out.send(line).await),
            Err(e) => tracing::error!("a message cannot be written: {e}"),
        }
    }

    async fn refuse(&self, id: Option<&RequestId>, error: ErrorData) {
        let mut message = json!({"jsonrpc": "2.0", "error": error});
        if let Some(id) = id {
            message["id"] = json!(id);
        }
        self.say(message).await;
    }

    async fn read<R: AsyncBufRead + Unpin>(
        self: Arc<Self>,
        mut input: R,
        stop: &CancellationToken,
        gone: &CancellationToken,
    ) -> io::Result<()> {
        let mut older: Option<Pipe> = None;
        let mut line = Vec::new();
        loop {
            line.clear();
            let whole = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = gone.cancelled() => return Ok(()),
                read = take_line(&mut input, &mut line, self.config.max_body.as_usize()) => read?,
            };
            match whole {
                Line::End => return Ok(()),
                Line::Whole if line.iter().all(u8::is_ascii_whitespace) => continue,
                Line::TooLong | Line::Whole => {}
            }
            // What is said here waits for a client that does not read: such a one must be left all the same.
            let handled = async {
                match whole {
                    Line::TooLong => self.too_long().await,
                    _ => self.clone().message(std::mem::take(&mut line), &mut older).await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = gone.cancelled() => return Ok(()),
                () = handled => {}
            }
        }
    }

    async fn too_long(&self) {
        let text = format!("A message is over serve.max-body = {}.", self.config.max_body);
        self.refuse(None, error_data(Fault::invalid("body_too_large", text))).await;
    }

    /// Takes one message to where it belongs.
    async fn message(self: Arc<Self>, line: Vec<u8>, older: &mut Option<Pipe>) {
        let envelope = match Envelope::read(&line) {
            Ok(envelope) => envelope,
            Err(fault) => return self.refuse(None, error_data(fault)).await,
        };
        let id = match envelope.request_id() {
            Ok(id) => id,
            Err(fault) => return self.refuse(None, error_data(fault)).await,
        };
        let modern = envelope.names_revision();
        match (envelope.method.as_deref(), id) {
            (Some("notifications/cancelled"), None) if self.cancel(&envelope) => {}
            (Some("initialize" | "ping"), Some(_)) if !modern && older.is_none() => {
                let pipe = self.open_pipe();
                // The pipe takes as many as it has room for, and is new.
                let _ = pipe.lines.send(line).await;
                *older = Some(pipe);
            }
            (Some(_), Some(id)) if modern || older.is_none() => self.request(id, line).await,
            (method, id) => match older {
                Some(pipe) => drop(pipe.lines.send(line).await),
                None if method.is_none() => {
                    let fault =
                        invalid("The message has no method: only requests and notifications are taken.");
                    self.refuse(id.as_ref(), error_data(fault)).await;
                }
                None => {}
            },
        }
    }

    /// Stops a request of today; false where there is none of this id.
    fn cancel(&self, envelope: &Envelope<'_>) -> bool {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params {
            request_id: Value,
        }
        let params = envelope.params.and_then(|p| serde_json::from_str::<Params>(p.get()).ok());
        let running = params.and_then(|p| self.running().remove(&p.request_id.to_string()));
        running.inspect(CancellationToken::cancel).is_some()
    }

    /// Serves a request of today in a task of its own. A refusal is said before the next message is read: tasks that
    /// wait to say one would be without bound.
    async fn request(self: Arc<Self>, id: RequestId, line: Vec<u8>) {
        let key = json!(id).to_string();
        let token = CancellationToken::new();
        let taken = {
            let mut running = self.running();
            if running.len() >= StdioRules::REQUESTS || running.contains_key(&key) {
                false
            } else {
                running.insert(key.clone(), token.clone());
                true
            }
        };
        if !taken {
            let text = format!(
                "A request of this id is being answered, or {} requests are: wait for their answers.",
                StdioRules::REQUESTS
            );
            return self.refuse(Some(&id), error_data(invalid(&text))).await;
        }
        let tasks = self.tasks.clone();
        tasks.spawn(async move {
            tokio::select! {
                biased;
                // What was asked to stop is not answered (MCP 2026-07-28, cancellation).
                () = token.cancelled() => {}
                outcome = self.answer(&id, &line) => if let Err(error) = outcome {
                    self.refuse(Some(&id), error).await;
                },
            }
            self.running().remove(&key);
        });
    }

    /// Answers a request of today; an error is the caller's to tell.
    async fn answer(&self, id: &RequestId, line: &[u8]) -> Result<(), ErrorData> {
        let envelope = Envelope::read(line).map_err(error_data)?;
        let method = envelope.method.as_deref().unwrap_or_default();
        let parsed = parse(method, envelope.params, line).map_err(error_data)?;
        parsed.check_required().map_err(error_data)?;
        parsed.check_optional()?;
        if method != "server/discover" {
            self.settled().await;
        }
        let outlet = parsed.outlet();
        let with_tasks = parsed.meta.client_capabilities().is_some_and(|c| c.supports_tasks());
        let Parsed { meta, work, .. } = parsed;
        let request = match work {
            Work::Listen(filter) => {
                let (handler, stop) = (self.desk.handler(), self.stop.clone());
                let principal = Principal::local();
                let opened = Subscription::open(
                    handler,
                    &self.places,
                    id.clone(),
                    principal,
                    filter,
                    with_tasks,
                    stop,
                );
                self.tell(opened.await.map_err(error_data)?).await;
                return Ok(());
            }
            Work::Answer(request) => request,
        };
        let mut caller = Caller {
            access: Access::all(Principal::local()),
            idempotency_key: None,
            outlet: None,
            asks: Asks::Retry,
        };
        let result = match outlet {
            None => self.desk.answer(id.clone(), meta, request, caller).await?,
            Some((outlet, notices)) => {
                caller.outlet = Some(outlet);
                self.told(notices, self.desk.answer(id.clone(), meta, request, caller)).await?
            }
        };
        self.say(json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
        Ok(())
    }

    /// Says what a call tells until it has its answer.
    async fn told<T>(&self, mut notices: Notices, call: impl Future<Output = T>) -> T {
        let mut call = std::pin::pin!(call);
        let outcome = loop {
            tokio::select! {
                biased;
                Some(notice) = notices.queue.recv() => self.notice(&notices, &notice).await,
                outcome = &mut call => break outcome,
            }
        };
        while let Ok(late) = notices.queue.try_recv() {
            self.notice(&notices, &late).await;
        }
        outcome
    }

    async fn notice(&self, notices: &Notices, notice: &crate::runs::Notice) {
        if let Some(message) = notices.message(notice) {
            self.say(message).await;
        }
    }

    /// Says what a subscription tells, to its end. A client that is long behind is let go, and told so.
    async fn tell(&self, mut subscription: Subscription) {
        let patience = self.config.write_timeout.duration() / 2;
        while let Some(message) = subscription.next().await {
            let start = Instant::now();
            self.say(message).await;
            if start.elapsed() > patience {
                subscription.end(Subscription::SLOW);
            }
        }
    }

    /// Waits, with a bound, until every plugin is served or refused: a client asks for the tools once, at its start.
    async fn settled(&self) {
        settled(self.desk.handler()).await;
    }

    /// Starts rmcp's service for the older era on a pipe.
    fn open_pipe(self: &Arc<Self>) -> Pipe {
        let (lines, mut queue) = mpsc::channel::<Vec<u8>>(StdioRules::QUEUE);
        let (near, far) = tokio::io::duplex(StdioRules::PIPE.as_usize());
        let (from_service, mut to_service) = tokio::io::split(near);
        let older = Older::new(self.desk.handler().clone());
        let (stdio, handler) = (self.clone(), self.desk.handler().clone());
        self.tasks.spawn(async move {
            let service = async {
                match rmcp::serve_server(older, tokio::io::split(far)).await {
                    Ok(running) => drop(running.waiting().await),
                    Err(e) => tracing::warn!("the client did not begin in order: {e}"),
                }
            };
            let feed = async {
                let mut first = true;
                while let Some(mut line) = queue.recv().await {
                    // rmcp bounds no requests: a client that does not read its answers gets no more of them.
                    if stdio.out.reserve().await.is_err() {
                        break;
                    }
                    line.push(b'\n');
                    if to_service.write_all(&line).await.is_err() {
                        break;
                    }
                    if std::mem::take(&mut first) {
                        settled(&handler).await;
                    }
                }
                let _ = to_service.shutdown().await;
            };
            let answers = async {
                let mut answers = BufReader::new(from_service).split(b'\n');
                while let Ok(Some(line)) = answers.next_segment().await {
                    if stdio.out.send(line).await.is_err() {
                        break;
                    }
                }
            };
            tokio::join!(service, feed, answers);
        });
        Pipe { lines }
    }
}

async fn settled(handler: &Handler) {
    let mut catalog = handler.plugins().watch();
    let settled = catalog.wait_for(|c| !c.report.iter().any(|entry| entry.compiling));
    if tokio::time::timeout(StdioRules::SETTLE.duration(), settled).await.is_err() {
        tracing::warn!("some plugins are still being compiled: lists are not whole yet");
    }
}

enum Line {
    Whole,
    TooLong,
    End,
}

/// Takes the next line, without its end; of one that is too long nothing is kept.
async fn take_line<R: AsyncBufRead + Unpin>(
    input: &mut R,
    line: &mut Vec<u8>,
    most: usize,
) -> io::Result<Line> {
    let mut too_long = false;
    loop {
        let some = input.fill_buf().await?;
        if some.is_empty() {
            return Ok(match (too_long, line.is_empty()) {
                (true, _) => Line::TooLong,
                (false, true) => Line::End,
                (false, false) => Line::Whole,
            });
        }
        let end = some.iter().position(|b| *b == b'\n');
        let part = &some[..end.unwrap_or(some.len())];
        too_long |= line.len() + part.len() > most;
        if !too_long {
            line.extend_from_slice(part);
        }
        let taken = end.map_or(some.len(), |end| end + 1);
        input.consume(taken);
        if end.is_some() {
            return Ok(if too_long { Line::TooLong } else { Line::Whole });
        }
    }
}
