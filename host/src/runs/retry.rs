//! A request that brings a `requestState`: it goes back to the run that asked.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::{mpsc, oneshot};

use super::{
    Answer, Call, Client, Runs,
    rounds::{Found, Retry, Verdict},
    run::{GoneGuard, Requests},
};
use crate::base::{Fault, TaskId};

impl Runs {
    /// Hands a retry to its run, or gives what that run answered.
    pub(super) async fn again(self: &Arc<Self>, call: Call, state: &str) -> Answer {
        let mark = call.target.mark(&call.principal);
        let named = match self.rounds.seal.open(state, &mark) {
            Ok(named) => named,
            Err(why) => {
                tracing::info!(principal = %call.principal, "a request state was refused: {why}");
                return Answer::Error(Fault::invalid(
                    "request_state_invalid",
                    "The requestState was not made for this request, or its time is over. Call again without it.",
                ));
            }
        };
        let (round, responses) = (Some(named.round), call.input.responses);
        // A run that ends while it is told leaves its answer; one look more finds it.
        for _ in 0..2 {
            match self.rounds.find(named.run) {
                Some(Found::Ended(ended)) => {
                    let (ledger, answer) = &*ended;
                    return match (ledger.judge(round, &responses), answer) {
                        (Verdict::Attach, Answer::Task(_)) if !call.client.promotes() => {
                            Answer::Error(no_tasks())
                        }
                        (Verdict::Attach, answer) => answer.clone(),
                        (Verdict::Answers(_) | Verdict::Stale, _) => Answer::Error(stale()),
                    };
                }
                Some(Found::Live(requests, retries)) => {
                    let (client, outlet) = (call.client, call.outlet.clone());
                    let make = |reply| Retry { round, responses: responses.clone(), client, outlet, reply };
                    if let Some(answer) = tell(requests, &retries, make).await {
                        return answer;
                    }
                }
                None => break,
            }
        }
        Answer::Error(Fault::invalid(
            "request_state_lost",
            "The run that asked is gone: the host was restarted, or the run gave way to others. Call again \
             without requestState and inputResponses.",
        ))
    }

    /// A repeat of a keyed call whose run waits here for a retry: it gets the questions again.
    pub(super) async fn join(&self, task: TaskId, client: Client) -> Option<Answer> {
        let (requests, retries) = self.rounds.of_task(task)?;
        let make = |reply| Retry { round: None, responses: BTreeMap::new(), client, outlet: None, reply };
        tell(requests, &retries, make).await
    }
}

/// Hands a retry to a driver and waits. Cancel-safe: dropped, the client has left.
async fn tell(
    requests: Arc<Requests>,
    retries: &mpsc::Sender<Retry>,
    make: impl FnOnce(oneshot::Sender<Answer>) -> Retry,
) -> Option<Answer> {
    let guard = GoneGuard::new(requests);
    let (reply, answer) = oneshot::channel();
    let answer = match retries.send(make(reply)).await {
        Ok(()) => answer.await.ok(),
        Err(_) => None,
    };
    guard.disarm();
    answer
}

/// Answers that contradict what was taken.
pub(super) fn stale() -> Fault {
    Fault::invalid(
        "input_already_answered",
        "These questions have other answers already, which stay. Call again without requestState for a new run.",
    )
}

/// The run has become a task, and this client cannot follow one.
pub(super) fn no_tasks() -> Fault {
    Fault::tasks_required(
        "This run has become a task. Declare the io.modelcontextprotocol/tasks extension to get its handle.",
    )
}
