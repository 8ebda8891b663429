//! Drives one call to its end: request, questions, task, polls, cancellation.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, GetTaskResult, InputRequests, InputResponses, JsonObject,
    RequestMetaObject, Task, TaskPayload, TaskStatus,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    super::{
        ask::{AskError, Asker, Question, prepared, terminal},
        exit::{Exit, Failure},
        show,
    },
    client::{Client, Trouble},
    interrupts::Interrupts,
    progress::Display,
};
use crate::{
    base::{Millis, neutral_line},
    config::ClientLimits,
};

/// What to call, and how.
pub(crate) struct Call {
    /// The tool's public name.
    pub(crate) tool: String,
    /// Who asks its questions, in words.
    pub(crate) who: String,
    /// Its arguments.
    pub(crate) arguments: JsonObject,
    /// `_meta["layby/idempotency-key"]`.
    pub(crate) key: Option<String>,
    /// When to leave the task alone.
    pub(crate) deadline: Option<Instant>,
    /// Answers prepared by key.
    pub(crate) answers: BTreeMap<String, Value>,
}

/// How a call ended for this client.
#[derive(Debug)]
pub(crate) enum Ended {
    /// With MCP's `CallToolResult`.
    Result { task: Option<String>, result: Value },
    /// With a JSON-RPC error.
    Error { task: Option<String>, error: Value },
    /// Cancelled; `by_us` where Ctrl-C asked for it.
    Cancelled { task: Option<String>, by_us: bool },
    /// The task goes on: it works, or waits for answers that nobody here can give.
    Unfinished { task: String, status: TaskStatus, questions: InputRequests },
}

/// Why the questions of a round were not answered.
enum Halt {
    Interrupted,
    /// These questions have no prepared answer, and nobody is there to ask.
    Alone(InputRequests),
    Failure(Failure),
}

/// One call in progress.
pub(crate) struct Driver<'a> {
    pub(crate) client: &'a mut Client,
    pub(crate) display: &'a Display,
    pub(crate) interrupts: &'a mut Interrupts,
    pub(crate) call: Call,
    /// The server outlives this command, and so do its tasks.
    pub(crate) durable: bool,
    pub(crate) cancelling: bool,
    /// Keys of prepared answers that no question had so far.
    pub(crate) unused: BTreeSet<String>,
}

impl Driver<'_> {
    /// From the request to the end.
    ///
    /// # Errors
    /// The server cannot be reached, or answers what the protocol does not have; a second Ctrl-C.
    pub(crate) async fn run(&mut self) -> Result<Ended, Failure> {
        let mut params = self.params();
        for _ in 0..ClientLimits::ROUNDS {
            let response = tokio::select! {
                response = self.client.call(params.clone()) => response,
                () = self.interrupts.next() => return Ok(Ended::Cancelled { task: None, by_us: true }),
                () = at(self.call.deadline) => return Err(timed_out_inline()),
            };
            let round = match response {
                Ok(CallToolResponse::Complete(result)) => {
                    return Ok(Ended::Result { task: None, result: to_value(&result)? });
                }
                Ok(CallToolResponse::Task(created)) => return self.follow(created.task).await,
                Ok(CallToolResponse::InputRequired(round)) => round,
                Ok(_) => return Err(odd("an answer of an unknown kind")),
                Err(Trouble::Answer(error)) => return Ok(Ended::Error { task: None, error }),
                Err(Trouble::Away(reason)) => return Err(self.away(None, &reason)),
                Err(Trouble::Odd(what)) => return Err(odd(&what)),
            };
            let requests = round.input_requests.unwrap_or_default();
            let answers = match self.answers(&requests).await {
                Ok(answers) => answers,
                Err(Halt::Interrupted) => return Ok(Ended::Cancelled { task: None, by_us: true }),
                Err(Halt::Alone(open)) => return Err(nobody_to_ask(&self.call.who, &open, &self.unused)),
                Err(Halt::Failure(mut failure)) => {
                    failure.message.push_str("; the call ended with it: call again");
                    return Err(failure);
                }
            };
            params = self.params().with_input_responses(answers);
            params.request_state = round.request_state;
        }
        Err(odd(&format!("questions without end: more than {} rounds", ClientLimits::ROUNDS)))
    }

    fn params(&self) -> CallToolRequestParams {
        let mut params =
            CallToolRequestParams::new(self.call.tool.clone()).with_arguments(self.call.arguments.clone());
        if let Some(key) = &self.call.key {
            let mut meta = RequestMetaObject::default();
            meta.insert("layby/idempotency-key".into(), key.clone().into());
            params.meta = Some(meta);
        }
        params
    }

    /// Polls a task to its end, at the server's interval.
    async fn follow(&mut self, first: Task) -> Result<Ended, Failure> {
        let id = first.task_id.clone();
        self.display.remark(&format!("The call is now task {}", neutral_line(&id)));
        if let Some(message) = &first.status_message {
            self.display.status(message);
        }
        let mut answered = BTreeSet::new();
        let mut wait = interval(first.poll_interval_ms);
        let mut at_once = first.status != TaskStatus::Working;
        loop {
            if !at_once && self.wait(&id, wait).await? {
                let status = TaskStatus::Working;
                return Ok(Ended::Unfinished { task: id, status, questions: InputRequests::new() });
            }
            let got = match self.get(&id).await? {
                Ok(got) => got.task,
                Err(error) => return Ok(Ended::Error { task: Some(id), error }),
            };
            wait = interval(got.task.poll_interval_ms);
            at_once = false;
            let task = Some(id.clone());
            match got.payload {
                TaskPayload::Completed { result } => {
                    return Ok(Ended::Result { task, result: Value::Object(result) });
                }
                TaskPayload::Failed { error } => {
                    return Ok(Ended::Error { task, error: Value::Object(error) });
                }
                TaskPayload::Cancelled => return Ok(Ended::Cancelled { task, by_us: self.cancelling }),
                TaskPayload::InputRequired { input_requests } if !self.cancelling => {
                    let open: InputRequests =
                        input_requests.into_iter().filter(|(key, _)| !answered.contains(key)).collect();
                    // Empty: the server has the answers and has not applied them yet.
                    if !open.is_empty() {
                        match self.answer_task(&id, &open).await {
                            Ok(true) => answered.extend(open.into_keys()),
                            Ok(false) => {}
                            Err(Halt::Interrupted) => self.interrupted(&id).await?,
                            Err(Halt::Failure(failure)) => return Err(self.goes_on(&id, failure)),
                            Err(Halt::Alone(questions)) => {
                                let status = TaskStatus::InputRequired;
                                return Ok(Ended::Unfinished { task: id, status, questions });
                            }
                        }
                        at_once = true;
                    }
                }
                _ => self.working(got.task.status_message.as_deref()),
            }
        }
    }

    fn working(&self, message: Option<&str>) {
        match message {
            _ if self.cancelling => self.display.status("Cancelling; Ctrl-C again leaves at once"),
            Some(message) => self.display.status(message),
            None => self.display.status("Working"),
        }
    }

    /// Waits before the next poll; true where the caller's own time is up.
    async fn wait(&mut self, id: &str, span: Duration) -> Result<bool, Failure> {
        let until = Instant::now() + span;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until) => return Ok(false),
                () = at(self.call.deadline), if !self.cancelling => return Ok(true),
                () = self.interrupts.next() => self.interrupted(id).await?,
            }
            // The first Ctrl-C: the end may be near, so ask soon.
            if self.cancelling {
                tokio::time::sleep(ClientLimits::POLL_MIN.duration()).await;
                return Ok(false);
            }
        }
    }

    /// The first Ctrl-C cancels the task, the second leaves at once.
    async fn interrupted(&mut self, id: &str) -> Result<(), Failure> {
        if self.cancelling {
            let text = format!("left before task {} had stopped", neutral_line(id));
            return Err(Failure::new(Exit::Interrupted, "ctrl_c", text));
        }
        self.cancelling = true;
        self.working(None);
        let asked = tokio::select! {
            asked = self.client.cancel(id) => asked,
            () = self.interrupts.next() => {
                let text = format!("left while task {} was being cancelled", neutral_line(id));
                return Err(Failure::new(Exit::Interrupted, "ctrl_c", text));
            }
        };
        match asked {
            Ok(()) => Ok(()),
            Err(Trouble::Answer(error)) => Err(Failure::refused(
                "cancel_refused",
                format!("task {id} was not cancelled: {}", show::error(&error)),
            )),
            Err(Trouble::Away(reason)) => Err(self.away(Some(id), &reason)),
            Err(Trouble::Odd(what)) => Err(odd(&what)),
        }
    }

    /// One poll. A server that is away is asked again for a while: a task outlives its restart.
    async fn get(&mut self, id: &str) -> Result<Result<GetTaskResult, Value>, Failure> {
        let mut since = None;
        loop {
            let reason = match self.client.get(id).await {
                Ok(got) => return Ok(Ok(got)),
                Err(Trouble::Answer(error)) => return Ok(Err(error)),
                Err(Trouble::Odd(what)) => return Err(odd(&what)),
                Err(Trouble::Away(reason)) => reason,
            };
            if since.get_or_insert_with(Instant::now).elapsed() >= ClientLimits::UNREACHABLE.duration() {
                return Err(self.away(Some(id), &reason));
            }
            self.display.status(&format!("The server is away ({reason}); trying again"));
            tokio::select! {
                () = tokio::time::sleep(ClientLimits::POLL_DEFAULT.duration()) => {}
                () = self.interrupts.next() => {
                    let text = format!("left while the server was away; task {} may go on", neutral_line(id));
                    return Err(Failure::new(Exit::Interrupted, "ctrl_c", text));
                }
            }
            if self.client.is_closed() {
                // Still away: the next poll says so.
                let _ = self.client.reconnect().await;
            }
        }
    }

    /// Answers a task's questions. False where the server did not take them and they are to be asked again.
    async fn answer_task(&mut self, id: &str, open: &InputRequests) -> Result<bool, Halt> {
        let answers = self.answers(open).await?;
        let prepared = open.keys().all(|key| self.call.answers.contains_key(key));
        match self.client.update(id, answers).await {
            Ok(()) => Ok(true),
            Err(Trouble::Answer(error))
                if !prepared && show::stable_code(&error) == Some("answers_invalid") =>
            {
                self.display.remark(&show::error(&error));
                Ok(false)
            }
            Err(Trouble::Answer(error)) => {
                Err(Halt::Failure(Failure::refused("answers_invalid", show::error(&error))))
            }
            // Not known whether they arrived: the next poll tells.
            Err(Trouble::Away(_)) => Ok(false),
            Err(Trouble::Odd(what)) => Err(Halt::Failure(odd(&what))),
        }
    }

    /// Answers to all of `open`, prepared or asked for.
    async fn answers(&mut self, open: &InputRequests) -> Result<InputResponses, Halt> {
        let alone: InputRequests = open
            .iter()
            .filter(|(key, _)| !self.call.answers.contains_key(*key))
            .map(|(key, request)| (key.clone(), request.clone()))
            .collect();
        if !alone.is_empty() && !terminal() {
            return Err(Halt::Alone(alone));
        }
        let mut answers = InputResponses::new();
        for (key, request) in open {
            let request = to_value(request).map_err(Halt::Failure)?;
            let refuse = |why: String| {
                let schema = schema_of(&request).map_or_else(String::new, |s| format!("; its schema is {s}"));
                let text = format!("the answer to {:?} does not fit: {why}{schema}", neutral_line(key));
                Halt::Failure(Failure::refused("answer_invalid", text))
            };
            let question = Question::read(&request).map_err(refuse)?;
            let answer = match self.call.answers.get(key) {
                Some(given) => prepared(&question, given).map_err(refuse)?,
                None => self.ask(question).await?,
            };
            self.unused.remove(key);
            answers.insert(key.clone(), answer);
        }
        Ok(answers)
    }

    /// Asks the person, on a thread of its own: a prompt blocks.
    async fn ask(&mut self, question: Question) -> Result<Value, Halt> {
        self.display.clear();
        let asker = Asker { who: self.call.who.clone() };
        let prompt =
            tokio::task::spawn_blocking(move || asker.ask(&question).map(|reply| reply.to_json(&question)));
        let asked = tokio::select! {
            asked = prompt => asked,
            // A signal from outside: the prompt itself stays on its thread, and ends with the process.
            () = self.interrupts.next() => return Err(Halt::Interrupted),
        };
        match asked {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(AskError::Interrupted)) => {
                self.interrupts.forget_one().await;
                Err(Halt::Interrupted)
            }
            Ok(Err(AskError::Unsupported(why))) => {
                Err(Halt::Failure(Failure::refused("question_unsupported", why)))
            }
            Ok(Err(AskError::Terminal(error))) => Err(Halt::Failure(error.into())),
            Err(_) => Err(Halt::Failure(odd("the prompt failed"))),
        }
    }

    /// `failure` to answer a task's question, with what becomes of the task and what to do about it.
    fn goes_on(&self, id: &str, mut failure: Failure) -> Failure {
        if !self.durable {
            failure.message.push_str("; the private run was stopped: correct the answers and call again");
            return failure;
        }
        let task = neutral_line(id);
        failure.message.push_str(&format!(
            "; task {task} goes on waiting: answer it with `layby tasks answer {task}` or stop it with \
             `layby tasks cancel {task}`, both on the server's data folder (--data DIR)"
        ));
        failure.data["taskId"] = json!(id);
        failure
    }

    fn away(&self, task: Option<&str>, reason: &str) -> Failure {
        let task = task.map_or_else(String::new, |id| format!("; task {} may go on", neutral_line(id)));
        Failure::unreachable("server_unreachable", format!("the server does not answer: {reason}{task}"))
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// The server's interval, within our own bounds.
fn interval(poll_interval_ms: Option<u64>) -> Duration {
    let asked = poll_interval_ms.map_or(ClientLimits::POLL_DEFAULT, Millis);
    asked.clamp(ClientLimits::POLL_MIN, ClientLimits::POLL_MAX).duration()
}

fn to_value<T: serde::Serialize>(value: &T) -> Result<Value, Failure> {
    serde_json::to_value(value).map_err(|e| odd(&e.to_string()))
}

fn odd(what: &str) -> Failure {
    Failure::new(Exit::Failed, "server_odd", format!("the server broke the protocol: {}", neutral_line(what)))
}

fn timed_out_inline() -> Failure {
    Failure::new(
        Exit::Unfinished,
        "timed_out",
        "--timeout passed before the call became a task; it was cancelled",
    )
}

/// The questions `open`, with what an answer to each must be, for whoever writes a file of answers. `unused` are
/// the keys of answers that nothing asked for: one of them may be misspelt.
pub(super) fn unanswered(open: &InputRequests, unused: &BTreeSet<String>) -> String {
    let mut text = String::new();
    for (key, request) in open {
        let request = serde_json::to_value(request).unwrap_or_default();
        let asked = Question::read(&request).map_or_else(|why| why, |question| question.summary());
        text.push_str(&format!("no answer to {:?}, which asks: {}", neutral_line(key), neutral_line(&asked)));
        if let Some(schema) = schema_of(&request) {
            text.push_str(&format!(" (schema: {schema})"));
        }
        text.push_str("; ");
    }
    if !unused.is_empty() {
        let keys: Vec<String> = unused.iter().map(|key| format!("{:?}", neutral_line(key))).collect();
        text.push_str(&format!("nothing has asked for {} of --answers so far; ", keys.join(", ")));
    }
    text
}

/// A form's schema, on one line.
fn schema_of(request: &Value) -> Option<String> {
    Some(neutral_line(&request.pointer("/params/requestedSchema")?.to_string()))
}

/// Nothing goes on: the call waited in its request, and ends with it.
fn nobody_to_ask(who: &str, open: &InputRequests, unused: &BTreeSet<String>) -> Failure {
    let mut failure = Failure::new(
        Exit::Failed,
        "answer_needed",
        format!(
            "{who} asks something, and standard input is not a terminal: {}give the answers with --answers FILE",
            unanswered(open, unused)
        ),
    );
    *failure.data = json!({"inputRequests": open});
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_interval_is_kept_within_bounds() {
        assert_eq!(interval(None), Duration::from_secs(1));
        assert_eq!(interval(Some(0)), Duration::from_millis(100));
        assert_eq!(interval(Some(2500)), Duration::from_millis(2500));
        assert_eq!(interval(Some(u64::MAX)), Duration::from_secs(60));
    }
}
