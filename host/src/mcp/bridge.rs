//! Bridge tools (`bridge-tools`): a client that cannot do the tasks extension gets a handle as a normal result,
//! and its model follows it with three tools of the host's own. Bound to the principal as `tasks/*` is.

use std::{collections::BTreeMap, sync::Arc};

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject, Tool, ToolAnnotations};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::Handler;
use crate::{
    base::{Fault, Millis, Principal},
    config::{BridgeRules, CallPolicy},
    runs::tool_error,
    store::{End, Question, QuestionKind, Status, Task},
};

/// The member of `_meta` that says which task a result is about.
const TASK_META: &str = "layby/task";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfTask {
    #[serde(rename = "taskId")]
    task_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answers {
    #[serde(rename = "taskId")]
    task_id: String,
    answers: BTreeMap<String, Value>,
}

impl Handler {
    /// True where `name` is a tool of the host's own.
    pub(super) fn is_bridge_tool(&self, name: &str) -> bool {
        self.bridge && BridgeRules::NAMES.contains(&name)
    }

    /// The page of `tools/list` as it is with bridging: an answer may be a handle, so no tool promises a shape
    /// of its output; the host's own tools end the last page.
    pub(super) fn bridged(&self, mut tools: Vec<Tool>, last: bool) -> Vec<Tool> {
        if !self.bridge {
            return tools;
        }
        // A plugin that had such a name before bridging was turned on.
        tools.retain(|tool| !BridgeRules::NAMES.contains(&tool.name.as_ref()));
        for tool in &mut tools {
            tool.output_schema = None;
        }
        if last {
            tools.extend([get_tool(), answer_tool(), cancel_tool()]);
        }
        tools
    }

    /// Serves one of the host's own tools. What a model can correct is a result with `isError`.
    ///
    /// # Errors
    /// What failed on the host's side.
    pub(super) async fn bridge_call(
        &self,
        principal: &Principal,
        tool: &str,
        arguments: JsonObject,
    ) -> Result<CallToolResult, Fault> {
        let done = match tool {
            BridgeRules::GET => self.look(principal, arguments).await,
            BridgeRules::ANSWER => self.answer(principal, arguments).await,
            _ => self.stop(principal, arguments).await,
        };
        match done {
            Err(fault) if fault.rpc == Fault::INVALID_PARAMS => Ok(for_model(fault)),
            done => done,
        }
    }

    /// The handle of a call that goes on as a task, for a model.
    pub(super) fn handed_out(&self, task: &Task) -> CallToolResult {
        let (id, tool) = (task.id, &task.tool);
        // A repeat may get the handle of what has ended meanwhile.
        let begins = if task.status.is_terminal() { "went on" } else { "has not ended yet. It goes on" };
        let opening = format!(
            "{tool} {begins} in the background as task {id}. Do not call {tool} again for this: that would start \
             the work once more."
        );
        self.told(task, &opening)
    }

    /// Waits a while for news: an end, or questions that the model may answer.
    async fn look(&self, principal: &Principal, arguments: JsonObject) -> Result<CallToolResult, Fault> {
        let OfTask { task_id } = read(arguments)?;
        let task = self.tasks.get(principal, &task_id).await?;
        let policy = self.policy_of(&task);
        let within = BridgeRules::WAIT.min(policy.hold);
        let is_news =
            |task: &Task| task.status.is_terminal() || task.pending().any(|q| may_answer(&policy, q));
        let task = self.tasks.wait_for(principal, task.id, within, is_news).await?;
        Ok(self.told(&task, ""))
    }

    /// Takes answers by the rules of `tasks/update`; only those to questions that policy leaves to the model.
    async fn answer(&self, principal: &Principal, arguments: JsonObject) -> Result<CallToolResult, Fault> {
        let Answers { task_id, mut answers } = read(arguments)?;
        let task = self.tasks.get(principal, &task_id).await?;
        let policy = self.policy_of(&task);
        let refused: Map<String, Value> = task
            .pending()
            .filter(|q| answers.contains_key(&q.key) && !may_answer(&policy, q))
            .map(|q| (q.key.clone(), who_answers(q).into()))
            .collect();
        if !refused.is_empty() {
            let keys: Vec<&str> = refused.keys().map(String::as_str).collect();
            let text = format!(
                "No answer was taken, because you may not answer: {}. {}",
                keys.join(", "),
                by_a_person(&task, &keys)
            );
            return Err(Fault::invalid("model_may_not_answer", text).with("reasons", Value::Object(refused)));
        }
        // Only what was looked at: a question that is put from now on is not answered unseen.
        let mut ignored = Vec::new();
        answers.retain(|key, _| {
            let open = task.pending().any(|q| q.key == *key);
            if !open {
                ignored.push(key.clone());
            }
            open
        });
        let taken = answers.len();
        self.tasks.update(principal, &task_id, answers).await?;
        let task = self.tasks.wait_for(principal, task.id, Millis(0), |_| true).await?;
        let mut opening = match taken {
            0 => "Nothing was taken: no such question is open.".to_owned(),
            1 => "The answer was taken.".to_owned(),
            n => format!("{n} answers were taken."),
        };
        if taken > 0 && !ignored.is_empty() {
            opening.push_str(&format!(" Ignored, because no such question is open: {}.", ignored.join(", ")));
        }
        Ok(self.told(&task, &opening))
    }

    /// Asks for the end of a task.
    async fn stop(&self, principal: &Principal, arguments: JsonObject) -> Result<CallToolResult, Fault> {
        let OfTask { task_id } = read(arguments)?;
        let task = self.tasks.get(principal, &task_id).await?;
        if task.status.is_terminal() {
            return Ok(self.told(&task, "The task had ended before; nothing was cancelled."));
        }
        self.tasks.cancel(principal, &task_id).await?;
        let task = self.tasks.wait_for(principal, task.id, Millis(0), |_| true).await?;
        Ok(self.told(&task, "Cancellation was asked for. The tool may take a moment to stop."))
    }

    /// The settings that the tool has now; a tool that is gone has none of its own.
    fn policy_of(&self, task: &Task) -> CallPolicy {
        let catalog = self.plugins.catalog();
        let tool = catalog.tools.get(&task.tool).filter(|tool| tool.plugin.name == task.plugin);
        tool.map(|t| t.plugin.policy.call_of(&t.own_name).clone()).unwrap_or_default()
    }

    /// How a task stands and what to do next; or its result.
    fn told(&self, task: &Task, opening: &str) -> CallToolResult {
        let policy = self.policy_of(task);
        let mut result = match &task.end {
            Some(End::Completed(value)) => match serde_json::from_value::<CallToolResult>(value.clone()) {
                // The tool's own words, as an inline call would have given them.
                Ok(result) => return with_meta(result, task),
                Err(e) => tool_error("host_failure", format!("The stored result cannot be read: {e}")),
            },
            Some(End::Failed(error)) => {
                let fault = Fault::from_json(error);
                tool_error(fault.code, format!("The task failed: {}", fault.message))
            }
            Some(End::Cancelled) => text("The task was cancelled. It has no result.".to_owned()),
            None => text(said(&[opening, &progress(task), &questions(task, &policy), &next(task, &policy)])),
        };
        let mut status = json!({
            "taskId": task.id.to_string(),
            "status": task.status.as_str(),
            "pollIntervalMs": task.poll_interval.0,
        });
        if let Some(message) = &task.status_message {
            status["statusMessage"] = message.as_str().into();
        }
        if task.status == Status::InputRequired {
            status["questions"] = task.pending().map(|q| shown(q, may_answer(&policy, q))).collect();
        }
        if let Some(End::Failed(error)) = &task.end {
            status["error"] = error.clone();
        }
        result.structured_content = Some(status);
        with_meta(result, task)
    }
}

/// True where the model may answer this question by itself.
fn may_answer(policy: &CallPolicy, question: &Question) -> bool {
    policy.model_may_answer && matches!(question.kind, QuestionKind::Form | QuestionKind::Url)
}

fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Fault> {
    serde_json::from_value(Value::Object(arguments)).map_err(|e| {
        Fault::invalid("arguments_invalid", format!("The arguments do not fit this tool's schema: {e}"))
    })
}

fn text(text: String) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

/// The parts that are not empty, as paragraphs.
fn said(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    parts.join("\n\n")
}

/// An error that the model can act on.
fn for_model(fault: Fault) -> CallToolResult {
    let mut result = tool_error(fault.code, fault.message);
    if !fault.data.is_empty() {
        result.structured_content = Some(Value::Object(fault.data));
    }
    result
}

fn with_meta(mut result: CallToolResult, task: &Task) -> CallToolResult {
    let about = json!({ "taskId": task.id.to_string(), "status": task.status.as_str() });
    result.meta.get_or_insert_with(MetaObject::default).insert(TASK_META.into(), about);
    result
}

fn progress(task: &Task) -> String {
    let status = task.status.as_str();
    match &task.status_message {
        Some(message) => format!("Task {} of {} is {status}. It says: {message}", task.id, task.tool),
        None => format!("Task {} of {} is {status}.", task.id, task.tool),
    }
}

/// What is open, each as the plugin's question.
fn questions(task: &Task, policy: &CallPolicy) -> String {
    let mut lines = Vec::new();
    for question in task.pending() {
        let params = &question.request["params"];
        let message = params["message"].as_str().unwrap_or_default();
        lines.push(match question.kind {
            QuestionKind::Form => format!(
                "- {:?}, a form: {message}\n  Its JSON schema: {}",
                question.key, params["requestedSchema"]
            ),
            QuestionKind::Url => format!(
                "- {:?}, a page to open: {message}\n  {}",
                question.key,
                params["url"].as_str().unwrap_or_default()
            ),
            QuestionKind::Sampling => format!("- {:?}, a request to a model", question.key),
            QuestionKind::Roots => format!("- {:?}, a request for the client's roots", question.key),
        });
    }
    if lines.is_empty() {
        return String::new();
    }
    lines.insert(0, format!("The plugin {:?} asks:", task.plugin));
    let may = task.pending().find(|q| may_answer(policy, q));
    if let Some(question) = may {
        let example = json!({ "taskId": task.id.to_string(), "answers": { &question.key: { "action": "accept", "content": {} } } });
        lines.push(format!(
            "Answer with {}, for example {example}. `content` must fit the form's schema; a page needs none. The action \
             may also be \"decline\" or \"cancel\".",
            BridgeRules::ANSWER
        ));
    }
    let others: Vec<&str> =
        task.pending().filter(|q| !may_answer(policy, q)).map(|q| q.key.as_str()).collect();
    if !others.is_empty() {
        lines.push(by_a_person(task, &others));
    }
    lines.join("\n")
}

/// Where questions go that are not the model's.
fn by_a_person(task: &Task, keys: &[&str]) -> String {
    format!(
        "A person has to answer {}, and you must not: with a client that declares the tasks extension, or on the \
         server with `layby tasks answer {}`. Tell the person so.",
        keys.join(", "),
        task.id
    )
}

/// Why a question is not the model's.
fn who_answers(question: &Question) -> &'static str {
    match question.kind {
        QuestionKind::Form | QuestionKind::Url => {
            "the tool's policy (call.model-may-answer) leaves it to a person"
        }
        QuestionKind::Sampling | QuestionKind::Roots => "only a client can answer this kind",
    }
}

/// The call that comes next.
fn next(task: &Task, policy: &CallPolicy) -> String {
    let waits = BridgeRules::WAIT.min(policy.hold);
    format!(
        "To get its result, call {} with {}; it waits up to {waits} for news, so call it again while the task \
         goes on. To stop the task, call {}.",
        BridgeRules::GET,
        json!({ "taskId": task.id.to_string() }),
        BridgeRules::CANCEL
    )
}

fn shown(question: &Question, answerable: bool) -> Value {
    let params = &question.request["params"];
    let (kind, own) = match question.kind {
        QuestionKind::Form => ("form", Some(("schema", "requestedSchema"))),
        QuestionKind::Url => ("url", Some(("url", "url"))),
        QuestionKind::Sampling => ("sampling", None),
        QuestionKind::Roots => ("roots", None),
    };
    let mut shown = json!({ "key": question.key, "kind": kind, "answerable": answerable });
    if let Some((member, of)) = own {
        shown["message"] = params["message"].clone();
        shown[member] = params[of].clone();
    }
    shown
}

fn task_id() -> Value {
    json!({ "type": "string", "description": "The id of the task, as the call that began it returned it." })
}

fn object(properties: Value, required: &[&str]) -> Arc<JsonObject> {
    let schema = json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
    match schema {
        Value::Object(schema) => Arc::new(schema),
        _ => Arc::default(),
    }
}

fn get_tool() -> Tool {
    let hints =
        ToolAnnotations::with_title("Look at a task").read_only(true).idempotent(true).open_world(false);
    let text = "Returns the result of a task that a tool call went on as, if it has ended. While it has not, waits \
                a while, and then tells its status and what it asks. Call it again until the task has ended.";
    Tool::new(BridgeRules::GET, text, object(json!({ "taskId": task_id() }), &["taskId"])).annotate(hints)
}

fn answer_tool() -> Tool {
    let hints = ToolAnnotations::with_title("Answer a task")
        .read_only(false)
        .destructive(false)
        .idempotent(true)
        .open_world(false);
    let text = "Answers questions of a task that waits for input, by their keys. Either all answers are taken, or \
                none. Answer only what you know or the user told you.";
    let answer = json!({
        "type": "object",
        "properties": {
            "action": {
                "enum": ["accept", "decline", "cancel"],
                "description": "accept: answer it; decline: say no; cancel: close it without a choice.",
            },
            "content": { "type": "object", "description": "With accept: the form's fields, by its schema." },
        },
        "required": ["action"],
    });
    let answers = json!({ "type": "object", "description": "The answers, by the questions' keys.", "additionalProperties": answer });
    let schema = object(json!({ "taskId": task_id(), "answers": answers }), &["taskId", "answers"]);
    Tool::new(BridgeRules::ANSWER, text, schema).annotate(hints)
}

fn cancel_tool() -> Tool {
    let hints = ToolAnnotations::with_title("Cancel a task")
        .read_only(false)
        .destructive(true)
        .idempotent(true)
        .open_world(false);
    let text =
        "Asks a task to stop. What it has done stays done. A task that has ended already stays as it is.";
    Tool::new(BridgeRules::CANCEL, text, object(json!({ "taskId": task_id() }), &["taskId"])).annotate(hints)
}
