//! The crate `rmcp` as a client: tasks by hand, questions by its handler.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use layby_tests::{Host, client};
use rmcp::{
    ClientHandler, RoleClient, ServiceError,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientCapabilities, ClientConfig,
        ElicitRequestParams, ElicitResult, ElicitationAction, ErrorData, GetTaskParams, Implementation,
        InputRequest, ProtocolVersion, SubscriptionFilter, TaskPayload, UpdateTaskParams,
    },
    service::{ClientLifecycleMode, ClientServiceExt as _, RequestContext, RunningService},
    transport::{StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig},
};
use serde_json::{Value, json};

use super::fixtures;

/// Answers every form with the same.
#[derive(Clone)]
struct Handler {
    tasks: bool,
    answer: Option<Value>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Handler {
    fn new(tasks: bool, answer: Option<Value>) -> Self {
        Self { tasks, answer, asked: Arc::default() }
    }

    fn elicited(&self) -> ElicitResult {
        match &self.answer {
            Some(content) => {
                let mut result = ElicitResult::new(ElicitationAction::Accept);
                result.content = Some(content.clone());
                result
            }
            None => ElicitResult::new(ElicitationAction::Decline),
        }
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let builder = ClientCapabilities::builder().enable_elicitation();
        let capabilities = if self.tasks { builder.enable_tasks().build() } else { builder.build() };
        ClientConfig::new(capabilities, Implementation::new("layby-tests", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.asked.lock().unwrap().push(format!("{request:?}"));
        Ok(self.elicited())
    }
}

type Running = RunningService<RoleClient, Handler>;

async fn connect(host: &Host, handler: Handler) -> Running {
    let config = StreamableHttpClientTransportConfig::with_uri(host.url());
    let transport = StreamableHttpClientTransport::with_client(client::http(), config);
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    handler
        .serve_with_lifecycle(transport, ClientLifecycleMode::Discover { preferred_versions })
        .await
        .unwrap()
}

fn call(tool: &'static str, arguments: Value) -> CallToolRequestParams {
    CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone())
}

/// Polls a task to its end, or to what the test waits for; answers what it asks.
async fn follow(client: &Running, id: &str, cancel: bool) -> TaskPayload {
    for _ in 0..300 {
        let task = client.peer().get_task(GetTaskParams::new(id)).await.unwrap().task;
        match task.payload {
            TaskPayload::Working => {}
            TaskPayload::InputRequired { input_requests } if !cancel => {
                let mut answers = BTreeMap::new();
                for (key, request) in input_requests {
                    assert!(matches!(request, InputRequest::Elicitation(_)), "{request:?}");
                    answers.insert(key, serde_json::to_value(client.service().elicited()).unwrap());
                }
                client.peer().update_task(UpdateTaskParams::new(id, answers)).await.unwrap();
            }
            TaskPayload::InputRequired { .. } => {}
            ended => return ended,
        }
        if cancel {
            client.peer().cancel_task(CancelTaskParams::new(id)).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the task {id} has not ended")
}

async fn task(client: &Running, tool: &'static str, arguments: Value) -> String {
    match client.peer().call_tool_once(call(tool, arguments)).await.unwrap() {
        CallToolResponse::Task(created) => created.task.task_id,
        other => panic!("no task: {other:?}"),
    }
}

fn said(payload: &TaskPayload) -> String {
    match payload {
        TaskPayload::Completed { result } => result["content"][0]["text"].as_str().unwrap().to_owned(),
        other => panic!("not completed: {other:?}"),
    }
}

#[tokio::test]
async fn rmcp_follows_tasks() {
    let host = fixtures().await;
    let client = connect(&host, Handler::new(true, Some(json!({ "confirm": true })))).await;
    let tools = client.list_all_tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "greet"));
    let greeted = client.call_tool(call("greet", json!({ "name": "Ada" }))).await.unwrap();
    assert_eq!(serde_json::to_value(greeted).unwrap()["content"][0]["text"], "Hello, Ada!");

    let id = task(&client, "slow_compute", json!({ "seconds": 1.5, "label": "x" })).await;
    assert!(said(&follow(&client, &id, false).await).starts_with("Computed x"));
    let id = task(&client, "confirm_delete", json!({ "filename": "old.txt" })).await;
    assert_eq!(said(&follow(&client, &id, false).await), "Deleted old.txt");
    let id = task(&client, "slow_compute", json!({ "seconds": 60 })).await;
    assert!(matches!(follow(&client, &id, true).await, TaskPayload::Cancelled));
    let id = task(&client, "protocol_error_job", json!({})).await;
    let failed = follow(&client, &id, false).await;
    assert!(matches!(&failed, TaskPayload::Failed { error } if error["code"] == -32603), "{failed:?}");

    let missing = client.call_tool(call("no_such_tool", json!({}))).await.unwrap_err();
    assert!(matches!(&missing, ServiceError::McpError(e) if e.code.0 == -32602), "{missing:?}");
    client.cancel().await.unwrap();

    let client = connect(&host, Handler::new(true, None)).await;
    let id = task(&client, "confirm_delete", json!({ "filename": "old.txt" })).await;
    assert_eq!(said(&follow(&client, &id, false).await), "Kept old.txt");
}

#[tokio::test]
async fn rmcp_answers_in_rounds_and_uses_prompts_and_resources() {
    let host = fixtures().await;
    let client = connect(&host, Handler::new(false, Some(json!({ "confirm": true })))).await;
    let deleted = client.call_tool(call("confirm_delete", json!({ "filename": "old.txt" }))).await.unwrap();
    assert_eq!(serde_json::to_value(deleted).unwrap()["content"][0]["text"], "Deleted old.txt");
    assert_eq!(client.service().asked.lock().unwrap().len(), 1);
    let failed = client.call_tool(call("protocol_error_job", json!({}))).await.unwrap_err();
    assert!(matches!(&failed, ServiceError::McpError(e) if e.code.0 == -32603), "{failed:?}");
    assert!(client.list_all_prompts().await.unwrap().iter().any(|p| p.name == "test_simple_prompt"));
    assert!(client.list_all_resources().await.unwrap().iter().any(|r| r.uri == "test://static-text"));
    let mut changes =
        client.peer().listen(SubscriptionFilter::builder().tools_list_changed().build()).await.unwrap();
    client.call_tool(call("test_trigger_tool_change", json!({}))).await.unwrap();
    let change =
        tokio::time::timeout(Duration::from_secs(10), changes.next()).await.expect("a change is told");
    assert!(change.unwrap().is_some());
}
