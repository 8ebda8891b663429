//! Requests that were under way when their host died, and must not be sent twice: whoever can be asked decides.

use layby_tests::{Client, Host, Recorder, Setup, client::TASKS, text};
use serde_json::{Value, json};

/// Killed after the request has reached its server, and before its answer is kept.
const SENT: &str = "effect.after-send=kill";
const KEY: &str = "layby/outcome-http-0";
const AGAIN: &str = "layby/outcome-http-0-2";

/// A host that dies at `failpoint`, and the task that it dies of: one POST between two naps, by a client that declares
/// `capabilities`. The process after the next one passes no failpoint.
async fn died(server: &Recorder, failpoint: &str, call: &str, capabilities: &Value) -> (Host, String) {
    let policy = format!(
        "[call]\ndeadline = \"50ms\"\n{call}\n[grants]\nhttp = [{{ allow = \"* {}/*\" }}]",
        server.origin()
    );
    let setup = Setup::probe(&policy).config("[store]\nlease = \"1s\"\ntakeover = \"1s\"");
    let mut host = setup.env("LAYBY_FAILPOINTS", failpoint).start().await;
    let post =
        json!({ "method": "POST", "url": format!("{}/pay?token=hunter2", server.origin()), "body": "1 EUR" });
    let client = host.client_with(capabilities.clone());
    let id = client.task("fetch", json!({ "requests": [post], "nap_ms": 300 })).await;
    host.ended().await;
    (host, id)
}

/// The host's one question.
async fn asked(client: &Client, id: &str, key: &str) -> Value {
    let task = client.until(id, "the host's question", |task| task["inputRequests"][key].is_object()).await;
    assert_eq!(task["status"], "input_required");
    assert_eq!(task["inputRequests"].as_object().expect("questions").len(), 1, "{task}");
    task["inputRequests"][key]["params"].clone()
}

async fn parked(host: &Host, id: &str) {
    layby_tests::eventually("the task is parked", || async {
        let tasks = host.tasks().await;
        tasks.iter().any(|task| task["taskId"] == id && task["parked"] == true).then_some(())
    })
    .await;
}

async fn chosen(client: &Client, id: &str, key: &str, choice: &str) {
    client.accept(id, key, json!({ "choice": choice })).await.result();
}

fn answer(task: &Value) -> Value {
    let answers: Vec<Value> = serde_json::from_str(text(&task["result"])).expect("the tool's own JSON");
    answers[0].clone()
}

fn lingers() -> &'static str {
    "linger = \"60s\""
}

async fn begin(server: &Recorder, call: &str) -> (Host, String, Client) {
    let (host, id) = died(server, SENT, call, &layby_tests::client::everything()).await;
    let host = host.restart_without("LAYBY_FAILPOINTS").await;
    let client = host.client();
    (host, id, client)
}

#[tokio::test]
async fn the_question_has_the_facts_and_a_retry_sends_once_more() {
    for call in [lingers(), "linger = \"0s\""] {
        let server = Recorder::start().await;
        let (host, id, client) = begin(&server, call).await;
        let form = asked(&client, &id, KEY).await;
        let message = form["message"].as_str().expect("a message");
        let facts = [&format!("POST {}/pay,", server.origin()), "may have happened, or may yet", "at 20"];
        assert!(facts.iter().all(|fact| message.contains(fact)), "{form}");
        assert!(!form.to_string().contains("hunter2"), "{form}");
        if call != lingers() {
            parked(&host, &id).await;
        }
        let wrong = client.accept(&id, KEY, json!({ "choice": "maybe" })).await;
        assert_eq!(wrong.code(), "answers_invalid");
        assert_eq!(server.lines().len(), 1, "nothing is sent before there is an answer");
        chosen(&client, &id, KEY, "retry").await;
        let task = client.status(&id, "completed").await;
        assert_eq!(answer(&task)["body"], "ok 2", "{task}");
        assert_eq!(server.lines().len(), 2);
        let shown = host.command(&["replay", &id]).await.json();
        assert_eq!(shown["verdict"], "same", "{shown}");
        let steps = shown["steps"].as_array().expect("steps");
        let said =
            |step: &Value| step["answer"].as_str().is_some_and(|a| a.ends_with("the choice was \"retry\""));
        assert!(steps.iter().any(said), "{shown}");
    }
}

#[tokio::test]
async fn what_happened_gives_the_plugin_an_error_and_is_not_sent_again() {
    for call in [lingers(), "linger = \"0s\""] {
        let server = Recorder::start().await;
        let (host, id, client) = begin(&server, call).await;
        asked(&client, &id, KEY).await;
        if call != lingers() {
            parked(&host, &id).await;
        }
        chosen(&client, &id, KEY, "it happened").await;
        let task = client.status(&id, "completed").await;
        assert!(
            answer(&task)["error"].as_str().is_some_and(|e| e.contains("HttpResponseIncomplete")),
            "{task}"
        );
        assert_eq!(server.lines().len(), 1);
        let shown = host.command(&["replay", &id]).await.json();
        assert_eq!(shown["verdict"], "same", "{shown}");
    }
}

#[tokio::test]
async fn who_stops_or_says_no_gets_the_facts() {
    let stop = json!({ "action": "accept", "content": { "choice": "stop" } });
    for response in [stop, json!({ "action": "decline" }), json!({ "action": "cancel" })] {
        let server = Recorder::start().await;
        let (_host, id, client) = begin(&server, "linger = \"0s\"").await;
        asked(&client, &id, KEY).await;
        client.update(&id, json!({ KEY: response })).await.result();
        facts(&client.status(&id, "failed").await, &server);
        assert_eq!(server.lines().len(), 1);
    }
}

fn facts(task: &Value, server: &Recorder) {
    let data = &task["error"]["data"];
    assert_eq!(data["code"], "outcome_unknown", "{task}");
    assert_eq!((&data["method"], &data["url"]), (&json!("POST"), &json!(format!("{}/pay", server.origin()))));
    assert!(data["at"].as_str().is_some_and(|at| at.starts_with("20")), "{task}");
    assert!(!task.to_string().contains("hunter2"));
}

#[tokio::test]
async fn who_has_no_forms_gets_the_facts_at_once() {
    for (failpoint, sent) in [("effect.after-start-commit=kill", 0), (SENT, 1)] {
        let server = Recorder::start().await;
        let tasks = json!({ "elicitation": { "url": {} }, "extensions": { TASKS: {} } });
        let (host, id) = died(&server, failpoint, lingers(), &tasks).await;
        let host = host.restart_without("LAYBY_FAILPOINTS").await;
        facts(&host.client_with(tasks).status(&id, "failed").await, &server);
        assert_eq!(server.lines().len(), sent, "{failpoint}");
    }
}

#[tokio::test]
async fn an_answer_outlives_a_crash_and_each_sending_is_asked_for_anew() {
    let server = Recorder::start().await;
    let (host, id) = died(&server, SENT, "linger = \"0s\"", &layby_tests::client::everything()).await;
    let mut host = host.restart().await;
    asked(&host.client(), &id, KEY).await;
    chosen(&host.client(), &id, KEY, "retry").await;
    // Sent again, and killed again before the answer is kept.
    assert_eq!(host.ended().await, None);
    assert_eq!(server.lines().len(), 2);
    let mut host = host.restart_with("LAYBY_FAILPOINTS", "effect.before-start=kill").await;
    asked(&host.client(), &id, AGAIN).await;
    assert_eq!(server.lines().len(), 2);
    chosen(&host.client(), &id, AGAIN, "retry").await;
    // Killed between the answer and what follows from it: that follows all the same, and nobody is asked again.
    assert_eq!(host.ended().await, None);
    assert_eq!(server.lines().len(), 2);
    let host = host.restart_without("LAYBY_FAILPOINTS").await;
    let task = host.client().status(&id, "completed").await;
    assert_eq!(answer(&task)["body"], "ok 3", "{task}");
    assert_eq!(server.lines().len(), 3);
}

#[tokio::test]
async fn nobody_in_time_sends_nothing() {
    for (on, code) in [("fail", "input_timed_out"), ("resume", "outcome_unknown")] {
        let server = Recorder::start().await;
        let call = format!("linger = \"0s\"\ninput-deadline = \"1s\"\non-input-timeout = \"{on}\"");
        let (_host, id, client) = begin(&server, &call).await;
        asked(&client, &id, KEY).await;
        let task = client.status(&id, "failed").await;
        assert_eq!(task["error"]["data"]["code"], code, "{task}");
        assert_eq!(server.lines().len(), 1);
    }
}

#[tokio::test]
async fn a_task_that_asks_this_can_be_cancelled() {
    for call in ["linger = \"60s\"\ngrace = \"100ms\"", "linger = \"0s\""] {
        let server = Recorder::start().await;
        let (_host, id, client) = begin(&server, call).await;
        asked(&client, &id, KEY).await;
        client.cancel(&id).await.result();
        client.status(&id, "cancelled").await;
        assert_eq!(server.lines().len(), 1);
    }
}

/// A client without tasks is asked as it was before: by its next retry.
#[tokio::test]
async fn a_client_that_comes_back_by_a_state_is_asked_too() {
    let server = Recorder::start().await;
    let policy = format!("[grants]\nask = [\"form\"]\nhttp = [{{ allow = \"* {}/*\" }}]", server.origin());
    let setup = Setup::probe(&policy).config("[store]\nlease = \"1s\"\ntakeover = \"1s\"");
    let mut host = setup.env("LAYBY_FAILPOINTS", SENT).start().await;
    let post = json!({ "method": "POST", "url": format!("{}/pay", server.origin()), "body": "1 EUR" });
    let arguments = json!({ "requests": [post], "ask": true });
    let plain = |host: &Host| host.client_with(json!({ "elicitation": { "form": {} } }));
    let retry = |state: &Value, key: &str, content: Value| {
        json!({
            "name": "fetch", "arguments": arguments, "requestState": state,
            "inputResponses": { key: { "action": "accept", "content": content } },
        })
    };
    let first = plain(&host).call("fetch", arguments.clone()).await;
    let answered = retry(&first.result()["requestState"], "more", json!({ "value": "yes" }));
    let client = plain(&host);
    assert!(client.try_send(&client.body("tools/call", answered.clone())).await.is_err(), "its host dies");
    host.ended().await;
    let host = host.restart_without("LAYBY_FAILPOINTS").await;
    let asked = plain(&host).request("tools/call", answered.clone()).await;
    // On a busy machine it was resumed more than once, and the key says so.
    let (key, form) = asked.result()["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert!(key.starts_with(KEY), "{}", asked.message);
    assert!(
        form["params"]["message"].as_str().is_some_and(|text| text.contains("POST")),
        "{}",
        asked.message
    );
    assert_eq!(server.lines().len(), 1, "nothing is sent before there is an answer");
    let chosen = retry(&asked.result()["requestState"], key, json!({ "choice": "retry" }));
    let end = plain(&host).request("tools/call", chosen).await;
    assert!(text(end.result()).contains("\"status\":200"), "{}", end.message);
    assert_eq!(server.lines().len(), 2);
}
