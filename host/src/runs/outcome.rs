//! From what an instance ended with to what the caller gets (design 5, the table of outcomes).

use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::Value;

use super::{
    Answer,
    run::Run,
    target::{Kind, Subject, Work, prompt_unknown, resource_unknown},
};
use crate::{
    base::{Fault, Millis},
    capabilities::{self, Abort, NotMcp, Response, Unknown, wit_types},
    plugins::Tool,
    store::End,
};

/// What an instance ended with.
pub(super) type Ended = Result<Response, Abort>;

/// What a run ended with, as its caller is told.
pub(super) enum Outcome {
    /// The plugin's own answer, or one that stands for it.
    Answer(Answer),
    Error(Fault),
    Cancelled,
    /// The task's TTL or input deadline passed.
    Stopped(End),
    /// It waits without an instance: the task goes on when the wait is over.
    Parks,
    /// Another instance goes on with the task, here or elsewhere, after `retry` where there is one.
    HandsBack {
        /// The pause before.
        retry: Option<Millis>,
    },
    /// The task has another holder, or has ended.
    Lost(Fault),
}

/// Why a guest gave no result, as its kinds of error have in common.
enum Refused {
    Protocol(wit_types::ProtocolError),
    Unsupported,
    Cancelled,
    NotFound,
}

impl From<wit_types::RequestError> for Refused {
    fn from(error: wit_types::RequestError) -> Self {
        match error {
            wit_types::RequestError::NotFound => Self::NotFound,
            wit_types::RequestError::Protocol(error) => Self::Protocol(error),
            wit_types::RequestError::Unsupported => Self::Unsupported,
            wit_types::RequestError::Cancelled => Self::Cancelled,
        }
    }
}

impl Outcome {
    pub(super) fn of(run: &Run, ended: Ended) -> Self {
        let work = &run.work;
        let answer = match ended {
            Ok(Response::Tool(answer)) => return Self::of_tool(run, answer),
            Ok(Response::Prompt(answer)) => answer
                .map(|prompt| capabilities::get_prompt_result(prompt).map(|p| Answer::Prompt(Box::new(p)))),
            Ok(Response::Resource(answer)) => answer
                .map(|contents| Ok(Answer::Resource(Box::new(capabilities::read_resource_result(contents))))),
            Ok(Response::Completion(answer)) => {
                answer.map(|values| capabilities::completion(values).map(|c| Answer::Completion(Box::new(c))))
            }
            Err(abort) => return Self::aborted(work, abort),
        };
        match answer {
            Ok(Ok(answer)) => Self::Answer(answer),
            Ok(Err(reason)) => Self::bad_result(work, &reason),
            Err(error) => Self::refused(run, error.into()),
        }
    }

    fn of_tool(run: &Run, answer: Result<wit_types::ToolResult, wit_types::ToolError>) -> Self {
        let (result, failed) = match answer {
            Ok(result) => (result, false),
            Err(wit_types::ToolError::Failed(mut result)) => {
                if capabilities::is_silent(&result) {
                    let text = format!("The {} failed and gave no message.", run.work);
                    result.content = vec![wit_types::Content::Text(text)];
                }
                (result, true)
            }
            Err(wit_types::ToolError::Protocol(error)) => {
                return Self::refused(run, Refused::Protocol(error));
            }
            Err(wit_types::ToolError::Unsupported) => return Self::refused(run, Refused::Unsupported),
            Err(wit_types::ToolError::Cancelled) => return Self::refused(run, Refused::Cancelled),
        };
        let result = match capabilities::call_tool_result(result, failed) {
            Ok(result) => result,
            Err(reason) => return Self::bad_result(&run.work, &reason),
        };
        let wrong = run.work.tool().filter(|_| !failed).and_then(|tool| {
            mismatch(tool, result.structured_content.as_ref()).map(|wrong| {
                format!("The result of {:?} does not fit its own output schema: {wrong}", tool.name)
            })
        });
        Self::Answer(Answer::Result(Box::new(match wrong {
            Some(wrong) => tool_error("output_invalid", wrong),
            None => result,
        })))
    }

    fn refused(run: &Run, refused: Refused) -> Self {
        let work = &run.work;
        match refused {
            Refused::Protocol(error) => Self::Error(protocol(work, error)),
            Refused::Unsupported => Self::Error(unsupported(run)),
            Refused::NotFound => Self::Error(match &work.subject {
                Subject::Resource(uri) => resource_unknown(uri),
                Subject::Prompt(prompt) => prompt_unknown(&prompt.name),
                _ => Fault::invalid("resource_unknown", "The plugin knows nothing of this name any more."),
            }),
            Refused::Cancelled if run.is_cancelled() => Self::Cancelled,
            Refused::Cancelled => Self::Error(Fault::internal(
                "plugin_cancelled_unasked",
                format!("The {work} said that it was cancelled, and nobody had asked for it. Call again."),
            )),
        }
    }

    fn aborted(work: &Work, abort: Abort) -> Self {
        let plugin = work.plugin.name.as_str();
        match abort {
            Abort::Limit { name, value, advice } => {
                let section = if name.contains('.') { "" } else { "limits." };
                tracing::warn!(plugin, %work, limit = name, value, "a limit was hit");
                let text = format!("The {work} was stopped: it reached {section}{name} = {value}. {advice}");
                Self::Answer(work.limited(limit_code(name), text))
            }
            Abort::Trap(text) => {
                let first = text.lines().next().unwrap_or("a trap");
                tracing::warn!(plugin, %work, "trapped: {text}");
                Self::Error(Fault::internal(
                    "plugin_trap",
                    format!("The {work} of the plugin {plugin:?} crashed: {first}"),
                ))
            }
            Abort::Mismatch(mismatch) => {
                tracing::error!(plugin, %work, "cannot be resumed: {mismatch}");
                let text = format!(
                    "The {work} cannot go on where it was interrupted: it does not do again what it did before. Call again."
                );
                let fault = Fault::internal("replay_mismatch", text).with("step", mismatch.step.into());
                Self::Error(
                    fault.with("expected", mismatch.expected.into()).with("actual", mismatch.actual.into()),
                )
            }
            Abort::FileChanged { path } => {
                tracing::error!(plugin, %work, path, "cannot be resumed: what it read has changed");
                let text = format!(
                    "The {work} cannot go on where it was interrupted: it had read {path}, which is not as it was. \
                     Call again."
                );
                Self::Error(Fault::internal("file_changed", text).with("path", path.into()))
            }
            Abort::Unknown(Unknown { deed, at, .. }) => {
                let at = at.rfc3339();
                tracing::error!(plugin, %work, "interrupted while it {deed}, at {at}; the outcome is unknown");
                let text = format!(
                    "The {work} was interrupted while it {deed}, at {at}. That may have happened, or may yet, and was \
                     not done again. Look there before you call again."
                );
                let fault = Fault::internal("outcome_unknown", text).with("at", at.into());
                Self::Error(deed.facts().into_iter().fold(fault, |f, (name, fact)| f.with(name, fact.into())))
            }
            Abort::Host(text) => {
                tracing::error!(plugin, %work, "the host failed: {text}");
                Self::Error(Fault::internal(
                    "host_failure",
                    format!(
                        "The host could not run the {work}. The operator's log has the reason; call again later."
                    ),
                ))
            }
        }
    }

    fn bad_result(work: &Work, reason: &NotMcp) -> Self {
        tracing::warn!(plugin = %work.plugin.name, %work, "unusable result: {reason}");
        Self::Error(Fault::internal(
            "plugin_bad_result",
            format!("The {work} gave a result that MCP does not have: {reason}"),
        ))
    }

    /// How it went, in a word or two: `ok`, `tool error`, or the stable code.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Answer(Answer::Result(result)) if result.is_error == Some(true) => {
                let code = result.meta.as_ref().and_then(|meta| meta.get("layby/code"));
                code.and_then(Value::as_str).unwrap_or("tool error")
            }
            Self::Answer(_) => "ok",
            Self::Error(fault) | Self::Lost(fault) => fault.code,
            Self::Parks => "parked",
            Self::HandsBack { .. } => "handed back",
            Self::Cancelled => "cancelled",
            Self::Stopped(End::Failed(error)) => error["data"]["code"].as_str().unwrap_or("stopped"),
            Self::Stopped(_) => "stopped",
        }
    }

    pub(super) fn into_answer(self) -> Answer {
        match self {
            Self::Answer(answer) => answer,
            Self::Error(fault) | Self::Lost(fault) => Answer::Error(fault),
            // These settle nothing, and nobody waits for them.
            Self::Parks | Self::HandsBack { .. } => Answer::Error(super::host_stopping()),
            Self::Cancelled => cancelled(),
            // An end that somebody else decided is an error, whatever was asked.
            Self::Stopped(end) => ended_answer(end, Kind::Tool),
        }
    }

    /// How a task ends with this.
    pub(super) fn end(&self) -> End {
        match self {
            Self::Answer(Answer::Result(result)) => completed(result),
            Self::Answer(Answer::Prompt(prompt)) => completed(prompt),
            Self::Answer(Answer::Resource(contents)) => completed(contents),
            Self::Answer(Answer::Error(fault)) | Self::Error(fault) | Self::Lost(fault) => {
                End::Failed(fault.to_json())
            }
            Self::Parks | Self::HandsBack { .. } => End::Failed(super::host_stopping().to_json()),
            Self::Answer(_) => {
                End::Failed(Fault::internal("host_failure", "this kind of run is never a row").to_json())
            }
            Self::Cancelled => End::Cancelled,
            Self::Stopped(end) => end.clone(),
        }
    }
}

/// The answer to a call whose run was cancelled before it had answered.
pub(super) fn cancelled() -> Answer {
    Answer::Error(Fault::internal("cancelled", "The call was cancelled."))
}

/// The stored form of a result.
fn completed(result: &impl serde::Serialize) -> End {
    match serde_json::to_value(result) {
        Ok(value) => End::Completed(value),
        Err(e) => End::Failed(Fault::internal("host_failure", format!("unwritable result: {e}")).to_json()),
    }
}

/// The answer that a stored end stands for.
pub(super) fn ended_answer(end: End, kind: Kind) -> Answer {
    let result = match end {
        End::Completed(result) => result,
        End::Failed(error) => return Answer::Error(Fault::from_json(&error)),
        End::Cancelled => return cancelled(),
    };
    let answer = match kind {
        Kind::Tool => serde_json::from_value(result).map(|result| Answer::Result(Box::new(result))),
        Kind::Prompt => serde_json::from_value(result).map(|prompt| Answer::Prompt(Box::new(prompt))),
        Kind::Resource => serde_json::from_value(result).map(|contents| Answer::Resource(Box::new(contents))),
    };
    answer.unwrap_or_else(|e| {
        Answer::Error(Fault::internal("host_failure", format!("A stored result cannot be read: {e}")))
    })
}

/// `structuredContent` against the output schema; a missing one does not fit either.
fn mismatch(tool: &Tool, content: Option<&Value>) -> Option<String> {
    let schema = tool.output.as_ref()?;
    match content {
        Some(content) => schema.check(content).err(),
        None => Some("it has no structured content".into()),
    }
}

/// The plugin's own protocol error; codes that MCP and JSON-RPC reserve become -32603.
fn protocol(work: &Work, error: wit_types::ProtocolError) -> Fault {
    let reserved = (-32768..=-32000).contains(&error.code);
    let rpc = match error.code {
        Fault::INVALID_PARAMS | Fault::INTERNAL => error.code,
        _ if reserved => Fault::INTERNAL,
        other => other,
    };
    let fault = work.named(Fault::new(rpc, "plugin_error", error.message));
    match error.data.as_deref().map(serde_json::from_str::<Value>) {
        Some(Ok(data)) => fault.with("data", data),
        _ => fault,
    }
}

/// The plugin cannot go on without an input: names exactly what is missing.
fn unsupported(run: &Run) -> Fault {
    let missing = run.missing();
    if let Some(required) = missing.required() {
        return Fault::missing_capability(
            required,
            format!("The {} has to ask something that your client did not declare it can answer.", run.work),
        );
    }
    let reason = match missing.grant() {
        Some(kind) => {
            format!("policy does not let this plugin ask ({kind:?}): the operator can add it to grants.ask")
        }
        None if !run.work.may_ask() => "MCP has no questions in a completion".to_owned(),
        None => "it gave no question that could not be asked".to_owned(),
    };
    Fault::internal("plugin_unsupported", format!("The {} could not go on: {reason}.", run.work))
}

/// A result that a model is to read: `isError: true`, with the stable code in `_meta`.
pub fn tool_error(code: &'static str, text: impl Into<String>) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    let mut meta = MetaObject::default();
    meta.insert("layby/code".into(), code.into());
    result.meta = Some(meta);
    result
}

/// `limit_` and the limit's name; every one is listed in `docs/errors.md`.
fn limit_code(name: &str) -> &'static str {
    match name {
        "fuel" => "limit_fuel",
        "memory" => "limit_memory",
        "active-time" => "limit_active_time",
        "output" => "limit_output",
        "questions" => "limit_questions",
        "handles" => "limit_handles",
        "open-files" => "limit_open_files",
        "http-bytes" => "limit_http_bytes",
        "limits.parked" | "host.waiting" | "host.memory" => "limit_waiting",
        _ => "limit_other",
    }
}
