//! What goes to a client of an older revision while its call runs: progress, log messages and questions.

use std::{pin::pin, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use rmcp::{
    ErrorData, RoleServer,
    model::{ErrorCode, RequestId, ServerNotification, ServerRequest},
    service::{Peer, PeerRequestOptions, RequestContext, ServiceError},
};
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{error_data, notification};
use crate::{
    base::Fault,
    capabilities::{Asked, wit_call},
    runs::{Asks, Notice, Outlet, Pushed, check_answer},
    store::Answer,
};

/// Notices that wait for a slow client; later ones are dropped, the result never is.
const NOTICES: usize = 64;

/// How long one notification may wait for a slow client. After that it gets none any more.
const TELL: Duration = Duration::from_secs(5);

/// Goes with one call, in the task that serves it: rmcp sends a question over the stream of the request whose
/// task asks it.
pub(super) struct Companion {
    peer: Peer<RoleServer>,
    stopped: CancellationToken,
    token: Option<Value>,
    notices: mpsc::Receiver<Notice>,
    questions: mpsc::Receiver<Pushed>,
    silent: bool,
}

impl Companion {
    /// A companion, and what the run is given of it.
    pub(super) fn new(ctx: &RequestContext<RoleServer>, log: wit_call::LogLevel) -> (Self, Outlet, Asks) {
        let (told, notices) = mpsc::channel(NOTICES);
        // A run asks one round at a time.
        let (ask, questions) = mpsc::channel(1);
        let token = ctx.meta.0.get("progressToken").cloned();
        let outlet = Outlet { notices: told, progress: token.is_some(), log: Some(log) };
        let (peer, stopped) = (ctx.peer.clone(), ctx.ct.clone());
        (Self { peer, stopped, token, notices, questions, silent: false }, outlet, Asks::Push(ask))
    }

    /// Serves the call, tells what it tells, and asks what it asks. A client that cancels, or whose session ends,
    /// drops the call.
    pub(super) async fn attend<T>(
        mut self,
        call: impl Future<Output = Result<T, ErrorData>>,
    ) -> Result<T, ErrorData> {
        let mut call = pin!(call);
        let mut asking: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
        let stopped = self.stopped.clone();
        loop {
            tokio::select! {
                biased;
                () = stopped.cancelled() => {
                    let gone = Fault::internal("host_stopping", "The request was cancelled, or its session ended.");
                    return Err(error_data(gone));
                }
                Some(notice) = self.notices.recv() => self.tell(&notice).await,
                Some(pushed) = self.questions.recv() => {
                    asking.push(put(self.peer.clone(), pushed).boxed());
                }
                Some(()) = asking.next(), if !asking.is_empty() => {}
                outcome = &mut call => {
                    while let Ok(late) = self.notices.try_recv() {
                        self.tell(&late).await;
                    }
                    return outcome;
                }
            }
        }
    }

    async fn tell(&mut self, notice: &Notice) {
        let message = notification(self.token.as_ref(), notice).filter(|_| !self.silent);
        let Some(Ok(message)) = message.map(ServerNotification::deserialize) else { return };
        let sent = tokio::time::timeout(TELL, self.peer.send_notification(message)).await;
        self.silent = !matches!(sent, Ok(Ok(())));
    }
}

/// Puts all questions of a round, and hands their answers to the run; withdraws them where the run ends first.
async fn put(peer: Peer<RoleServer>, pushed: Pushed) {
    let Pushed { requests, mut reply } = pushed;
    let withdrawn = CancellationToken::new();
    let answers = {
        let all = requests.iter().map(|asked| ask(&peer, asked, &withdrawn));
        let mut all = pin!(futures::future::try_join_all(all));
        tokio::select! {
            answers = &mut all => answers,
            () = reply.closed() => {
                withdrawn.cancel();
                all.await
            }
        }
    };
    // The run may have ended meanwhile.
    let _ = reply.send(answers);
}

/// Puts one question to the client. The run bounds the wait (`call.push-wait`).
async fn ask(
    peer: &Peer<RoleServer>,
    asked: &Asked,
    withdrawn: &CancellationToken,
) -> Result<Answer, wit_call::InputError> {
    let request = ServerRequest::deserialize(&asked.request)
        .map_err(|e| invalid(asked, &format!("MCP has no such request: {e}")))?;
    let options = PeerRequestOptions::no_options();
    let handle = peer.send_cancellable_request(request, options).await.map_err(|e| failed(asked, e))?;
    let id = handle.id.clone();
    let result = tokio::select! {
        result = handle.await_response() => result.map_err(|e| failed(asked, e))?,
        () = withdrawn.cancelled() => {
            withdraw(peer, id).await;
            return Err(wit_call::InputError::Cancelled);
        }
    };
    let result = serde_json::to_value(result);
    let result = result.map_err(|e| invalid(asked, &e.to_string()))?;
    check_answer(asked, &result).map_err(|reason| invalid(asked, &format!("the client's answer: {reason}")))
}

fn invalid(asked: &Asked, reason: &str) -> wit_call::InputError {
    wit_call::InputError::Invalid(format!("{}: {reason}", asked.key))
}

/// A question that got no answer.
fn failed(asked: &Asked, error: ServiceError) -> wit_call::InputError {
    match error {
        ServiceError::McpError(e) if e.code == ErrorCode::METHOD_NOT_FOUND => {
            wit_call::InputError::Unsupported
        }
        ServiceError::McpError(e) => invalid(asked, &format!("the client refused it: {}", e.message)),
        ServiceError::UnexpectedResponse => invalid(asked, "the client's answer is of another kind"),
        _ => wit_call::InputError::Cancelled,
    }
}

/// Tells the client that nobody waits for its answer any more.
async fn withdraw(peer: &Peer<RoleServer>, id: RequestId) {
    let params = json!({"requestId": id, "reason": "The call that asked has ended."});
    let cancelled = json!({"method": "notifications/cancelled", "params": params});
    if let Ok(cancelled) = ServerNotification::deserialize(cancelled) {
        let _ = tokio::time::timeout(TELL, peer.send_notification(cancelled)).await;
    }
}
