//! Bridge tools: long calls of clients that cannot do tasks (`bridge-tools`).

use std::time::{Duration, Instant};

use layby_tests::{Client, Host, Older, Reply, Setup, chameleon, client::TASKS, result_code, text};
use serde_json::{Value, json};

const GET: &str = "layby_task_get";
const ANSWER: &str = "layby_task_answer";
const CANCEL: &str = "layby_task_cancel";

const QUICK: &str = "[call]\ndeadline = \"200ms\"\nhold = \"2s\"\ngrace = \"300ms\"\nmodel-may-answer = ";

/// A host with bridging, and a client that can do nothing.
async fn host(model_may_answer: bool) -> (Host, Client) {
    let host =
        Setup::probe(&format!("{QUICK}{model_may_answer}")).config("bridge-tools = true").start().await;
    let client = host.client_with(json!({}));
    (host, client)
}

/// The task that a normal result is about.
fn id(reply: &Reply) -> String {
    let result = reply.result();
    assert_eq!(result["resultType"], "complete", "{result}");
    let id = result["structuredContent"]["taskId"].as_str().unwrap_or_else(|| panic!("no task: {result}"));
    assert_eq!(result["_meta"]["layby/task"]["taskId"], id);
    assert_eq!(result["_meta"]["layby/task"]["status"], result["structuredContent"]["status"]);
    id.to_owned()
}

async fn look(client: &Client, id: &str) -> Reply {
    client.call(GET, json!({ "taskId": id })).await
}

/// Looks until the task has ended; the tool's own result.
async fn result(client: &Client, id: &str) -> Value {
    for _ in 0..30 {
        let reply = look(client, id).await;
        let status = reply.result()["_meta"]["layby/task"]["status"].clone();
        if !matches!(status.as_str(), Some("working" | "input_required")) {
            return reply.result().clone();
        }
    }
    panic!("{id} does not end");
}

async fn answer(client: &Client, id: &str, answers: Value) -> Reply {
    client.call(ANSWER, json!({ "taskId": id, "answers": answers })).await
}

#[tokio::test]
async fn a_long_call_is_a_handle_that_a_model_can_follow() {
    let (host, client) = host(false).await;
    let start = Instant::now();
    let reply = client.call("nap", json!({ "ms": 1500 })).await;
    assert!(start.elapsed() < Duration::from_millis(1500), "it waited for its deadline only");
    let id = id(&reply);
    let handle = reply.result();
    assert_ne!(handle["isError"], true);
    assert_eq!(handle["structuredContent"]["status"], "working");
    assert!(handle["structuredContent"]["pollIntervalMs"].as_u64().unwrap() >= 500);
    let said = text(handle);
    for part in [id.as_str(), GET, CANCEL, "nap", "Do not call nap again"] {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
    // The result is the tool's own, as an inline call would have given it.
    let done = result(&client, &id).await;
    assert_eq!((text(&done), done["isError"] == true), ("slept 1500 ms", false));
    assert_eq!(done["_meta"]["layby/task"], json!({ "taskId": id, "status": "completed" }));
    assert_eq!(text(look(&client, &id).await.result()), "slept 1500 ms", "it stays");
    // Quick calls know nothing of it, and a client with tasks has them as ever.
    assert_eq!(text(client.call("nap", json!({ "ms": 1 })).await.result()), "slept 1 ms");
    let with_tasks = host.client().task("nap", json!({ "ms": 900 })).await;
    assert_eq!(host.client().status(&with_tasks, "completed").await["status"], "completed");
}

#[tokio::test]
async fn a_look_waits_for_news_and_not_longer_than_hold() {
    let (_host, client) = host(false).await;
    let id = id(&client.call("nap", json!({ "ms": 3500 })).await);
    let start = Instant::now();
    let reply = look(&client, &id).await;
    assert_eq!(reply.result()["structuredContent"]["status"], "working");
    assert!(start.elapsed() >= Duration::from_millis(1900), "it came back after {:?}", start.elapsed());
    assert_eq!(text(look(&client, &id).await.result()), "slept 3500 ms");
}

#[tokio::test]
async fn every_end_is_told() {
    let (_host, client) = host(false).await;
    let trapped = id(&client.call("trap", json!({ "after_ms": 400 })).await);
    let ended = result(&client, &trapped).await;
    assert_eq!((&ended["isError"], result_code(&ended)), (&json!(true), "plugin_trap"));
    assert_eq!(ended["structuredContent"]["status"], "failed");
    assert_eq!(ended["structuredContent"]["error"]["data"]["code"], "plugin_trap");

    let slow = id(&client.call("nap", json!({ "ms": 60_000, "step_ms": 20 })).await);
    let asked = client.call(CANCEL, json!({ "taskId": slow })).await;
    assert!(text(asked.result()).contains("Cancellation was asked for"), "{}", asked.message);
    let ended = result(&client, &slow).await;
    assert_eq!(ended["structuredContent"]["status"], "cancelled");
    assert!(text(&ended).contains("cancelled"), "{ended}");
    // Terminal is final.
    let again = client.call(CANCEL, json!({ "taskId": slow })).await;
    assert_eq!(again.result()["structuredContent"]["status"], "cancelled");

    // An `isError` of the tool is its own.
    let limited = Setup::probe("[call]\ndeadline = \"100ms\"\n[limits]\nactive-time = \"600ms\"");
    let host = limited.config("bridge-tools = true").start().await;
    let client = host.client_with(json!({}));
    let over = id(&client.call("nap", json!({ "ms": 60_000 })).await);
    let ended = result(&client, &over).await;
    assert_eq!((&ended["isError"], result_code(&ended)), (&json!(true), "limit_active_time"));
}

#[tokio::test]
async fn the_list_has_the_tools_and_no_output_schemas() {
    let (host, client) = host(false).await;
    let tools = client.tools().await;
    let names: Vec<&str> = tools.iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(names[names.len() - 3..], [GET, ANSWER, CANCEL], "after all others");
    assert!(names.contains(&"structured"));
    for tool in &tools {
        assert!(tool.get("outputSchema").is_none(), "{tool}");
    }
    for (tool, read_only) in tools[tools.len() - 3..].iter().zip([true, false, false]) {
        assert_eq!(tool["annotations"]["readOnlyHint"], read_only, "{tool}");
        assert!(tool["description"].as_str().unwrap().len() > 40, "{tool}");
        assert_eq!(tool["inputSchema"]["properties"]["taskId"]["type"], "string", "{tool}");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
    }
    // The host itself still holds a tool to its schema.
    let wrong = client.call("structured", json!({ "content": { "n": "seven" } })).await;
    assert_eq!(result_code(wrong.result()), "output_invalid");
    drop(host);
    // Off by default.
    let plain = Setup::probe("").start().await;
    let client = plain.client_with(json!({}));
    let tools = client.tools().await;
    assert!(tools.iter().all(|t| !t["name"].as_str().unwrap().starts_with("layby_")));
    assert!(tools.iter().any(|t| t.get("outputSchema").is_some()));
    assert_eq!(look(&client, "x").await.code(), "tool_unknown");
}

#[tokio::test]
async fn mistakes_are_for_the_model_to_correct() {
    let (host, client) = host(false).await;
    for (tool, arguments, code) in [
        (GET, json!({}), "arguments_invalid"),
        (GET, json!({ "taskId": 5 }), "arguments_invalid"),
        (GET, json!({ "taskId": "x", "wait": true }), "arguments_invalid"),
        (ANSWER, json!({ "taskId": "x" }), "arguments_invalid"),
        (ANSWER, json!({ "taskId": "x", "answers": [] }), "arguments_invalid"),
        (GET, json!({ "taskId": "x" }), "task_unknown"),
        (ANSWER, json!({ "taskId": "x", "answers": {} }), "task_unknown"),
        (CANCEL, json!({ "taskId": "11111111-1111-4111-8111-111111111111" }), "task_unknown"),
    ] {
        let reply = client.call(tool, arguments.clone()).await;
        assert_eq!(reply.result()["isError"], true, "{tool} {arguments}");
        assert_eq!(result_code(reply.result()), code, "{tool} {arguments}");
    }
    // Somebody else's task is none: a forwarding header says that the peer is not the caller.
    let id = id(&client.call("nap", json!({ "ms": 900 })).await);
    let other = host.client_with(json!({})).header("x-forwarded-for", "192.0.2.1");
    for reply in [
        look(&other, &id).await,
        answer(&other, &id, json!({})).await,
        other.call(CANCEL, json!({ "taskId": id })).await,
    ] {
        assert_eq!(result_code(reply.result()), "task_unknown");
    }
    assert_eq!(text(&result(&client, &id).await), "slept 900 ms");
}

#[tokio::test]
async fn the_model_answers_where_policy_says_so() {
    let (_host, client) = host(true).await;
    let schema = json!({
        "type": "object",
        "properties": { "age": { "type": "integer", "minimum": 0 } },
        "required": ["age"],
    });
    let ask = json!({ "at_once": 2, "key": "who", "message": "How old?", "schema": schema });
    let reply = client.call("ask", ask).await;
    let id = id(&reply);
    let asked = reply.result();
    assert_eq!(asked["structuredContent"]["status"], "input_required");
    let questions = asked["structuredContent"]["questions"].as_array().unwrap();
    let keys: Vec<&str> = questions.iter().map(|q| q["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["who", "who_2"]);
    assert_eq!((&questions[0]["kind"], &questions[0]["answerable"]), (&json!("form"), &json!(true)));
    assert_eq!(questions[0]["schema"]["properties"], schema["properties"]);
    for part in ["How old?", "\"who\"", "\"probe\"", ANSWER, "minimum"] {
        assert!(text(asked).contains(part), "{part} is missing in {}", text(asked));
    }
    // All or none, with the reason per key.
    let good = json!({ "action": "accept", "content": { "age": 3 } });
    let bad = json!({ "action": "accept", "content": { "age": -3 } });
    let refused = answer(&client, &id, json!({ "who": good, "who_2": bad })).await;
    assert_eq!(result_code(refused.result()), "answers_invalid");
    assert!(text(refused.result()).contains("/content/age"), "{}", refused.message);
    let reasons = refused.result()["structuredContent"]["reasons"].as_object().unwrap();
    assert_eq!(reasons.keys().collect::<Vec<_>>(), ["who_2"]);
    assert_eq!(
        look(&client, &id).await.result()["structuredContent"]["questions"].as_array().unwrap().len(),
        2
    );
    // A part; what nobody asked is ignored, and said.
    let partly = answer(&client, &id, json!({ "who": good, "stranger": good })).await;
    assert!(text(partly.result()).contains("stranger"), "{}", partly.message);
    assert_eq!(partly.result()["structuredContent"]["questions"][0]["key"], "who_2");
    let none = answer(&client, &id, json!({ "who": bad })).await;
    assert!(text(none.result()).contains("Nothing was taken"), "{}", none.message);
    answer(&client, &id, json!({ "who_2": { "action": "decline" } })).await.result();
    let got: Value = serde_json::from_str(text(&result(&client, &id).await)).unwrap();
    assert_eq!(got["answers"], json!([{ "age": 3 }, "declined"]));

    // A page to open.
    let reply = client.call("ask", json!({ "kind": "url", "url": "https://example.com/login" })).await;
    let id = self::id(&reply);
    assert!(text(reply.result()).contains("https://example.com/login"));
    answer(&client, &id, json!({ "question": { "action": "accept" } })).await.result();
    let got: Value = serde_json::from_str(text(&result(&client, &id).await)).unwrap();
    assert_eq!(got["answers"], json!([{}]));
}

#[tokio::test]
async fn what_no_model_may_answer_is_not_asked() {
    for (may, kind, required) in [
        (false, "form", json!({ "elicitation": { "form": {} } })),
        (false, "url", json!({ "elicitation": { "url": {} } })),
        (true, "sampling", json!({ "sampling": {} })),
        (true, "roots", json!({ "roots": {} })),
    ] {
        let (host, client) = host(may).await;
        let reply = client.call("ask", json!({ "kind": kind, "insist": true })).await;
        assert_eq!((reply.status, reply.rpc()), (400, -32021), "{kind}: {}", reply.message);
        assert_eq!(reply.message["error"]["data"]["requiredCapabilities"], required, "{kind}");
        let reply = client.call("ask", json!({ "kind": kind })).await;
        let got: Value = serde_json::from_str(text(reply.result())).unwrap();
        assert_eq!(got["count"], 0, "{got}");
        assert_eq!(host.tasks().await, Vec::<Value>::new());
    }
}

/// What a client can answer by itself goes to the client, by its own way, and not to its model.
#[tokio::test]
async fn a_client_that_can_answer_is_asked_itself() {
    let (host, poor) = host(true).await;
    let client = host.client_with(json!({ "elicitation": {} }));
    let arguments = json!({ "key": "who", "rounds": 2 });
    let asked = client.call("ask", arguments.clone()).await;
    assert_eq!(asked.result()["resultType"], "input_required", "{}", asked.message);
    assert!(asked.result()["inputRequests"]["who"].is_object());
    // It is a row, and no model can follow it as a task.
    let rows = host.tasks().await;
    let row = client.call(GET, json!({ "taskId": rows[0]["taskId"] })).await;
    assert!(row.message.to_string().contains("task_unknown"), "{}", row.message);
    let retry = |state: &Value, answers: Value| {
        let params = json!({ "name": "ask", "arguments": arguments, "requestState": state, "inputResponses": answers });
        client.request("tools/call", params)
    };
    let accept = |value: &str| json!({ "action": "accept", "content": { "value": value } });
    let again = retry(&asked.result()["requestState"], json!({ "who": accept("Ada") })).await;
    assert!(again.result()["inputRequests"]["who_2"].is_object(), "{}", again.message);
    let done = retry(&again.result()["requestState"], json!({ "who_2": accept("Eve") })).await;
    let got: Value = serde_json::from_str(text(done.result())).unwrap();
    assert_eq!(got["answers"], json!([{ "value": "Ada" }, { "value": "Eve" }]));
    // A page is nothing that this client can show: its model is asked, through a task.
    let page = client.call("ask", json!({ "kind": "url" })).await;
    assert_eq!(look(&poor, &id(&page)).await.result()["structuredContent"]["questions"][0]["kind"], "url");
}

/// A client that answers forms itself, past its deadline: nobody can push anything to it any more.
#[tokio::test]
async fn a_question_that_is_a_persons_goes_to_a_person() {
    let (host, _) = host(false).await;
    let client = host.client_with(json!({ "elicitation": {} }));
    let id = id(&client.call("ask", json!({ "before_ms": 600, "key": "who" })).await);
    let task = host.client().status(&id, "input_required").await;
    assert!(task["inputRequests"]["who"].is_object(), "{task}");
    let seen = look(&client, &id).await;
    assert_eq!(seen.result()["structuredContent"]["questions"][0]["answerable"], false);
    for part in ["A person has to answer who", "layby tasks answer"] {
        assert!(text(seen.result()).contains(part), "{part} is missing in {}", seen.message);
    }
    let refused = answer(&client, &id, json!({ "who": { "action": "accept", "content": {} } })).await;
    assert_eq!(result_code(refused.result()), "model_may_not_answer");
    assert!(refused.result()["structuredContent"]["reasons"]["who"].is_string(), "{}", refused.message);
    assert_eq!(host.client().get(&id).await.result()["status"], "input_required", "nothing was taken");
    host.client().accept(&id, "who", json!({ "value": "Ada" })).await.result();
    let got: Value = serde_json::from_str(text(&result(&client, &id).await)).unwrap();
    assert_eq!(got["answers"], json!([{ "value": "Ada" }]));
}

#[tokio::test]
async fn keys_and_tools_that_need_tasks_are_bridged_too() {
    let policy = "[call]\ndeadline = \"200ms\"\n[tools.nap.call]\nrequires-tasks = true";
    let host = Setup::new().plugin("probe", policy).config("bridge-tools = true").start().await;
    let client = host.client_with(json!({})).meta("layby/idempotency-key", json!("k"));
    let first = id(&client.call("nap", json!({ "ms": 1200 })).await);
    assert_eq!(id(&client.call("nap", json!({ "ms": 1200 })).await), first);
    let done = result(&host.client_with(json!({})), &first).await;
    assert_eq!(text(&done), "slept 1200 ms");
    assert_eq!(text(client.call("nap", json!({ "ms": 1200 })).await.result()), "slept 1200 ms");
    assert_eq!(host.tasks().await.len(), 1);
    // A legacy declaration is none: it is bridged.
    let legacy = host.client_with(json!({ "tasks": { "requests": { "tools": { "call": {} } } } }));
    id(&legacy.call("nap", json!({ "ms": 600 })).await);
    let tasks = host.client_with(json!({ "extensions": { TASKS: {} } }));
    tasks.task("nap", json!({ "ms": 600 })).await;
}

#[tokio::test]
async fn the_names_are_the_hosts_own_while_it_bridges() {
    let taker = chameleon::version("1", GET);
    let bridging = Setup::new().file("taker", &taker, "").config("bridge-tools = true").start().await;
    let refusal = bridging.refusal("taker", "plugin_name_taken").await;
    assert!(refusal.to_string().contains("bridge-tools"), "{refusal}");
    assert_eq!(bridging.client().tool_names().await, [GET, ANSWER, CANCEL]);
    let prefixed = Setup::new().file("taker", &taker, "prefix = \"my_\"").config("bridge-tools = true");
    assert!(prefixed.start().await.client().tool_names().await.contains(&format!("my_{GET}")));
    let plain = Setup::new().file("taker", &taker, "").start().await;
    assert_eq!(plain.client().tool_names().await, [GET]);
}

#[tokio::test]
async fn a_client_of_an_older_revision_follows_a_long_call_in_its_session() {
    let (host, _) = host(false).await;
    for version in ["2025-11-25", "2025-06-18", "2025-03-26"] {
        let old = Older::begin(&host, version, json!({})).await;
        let tools = old.request("tools/list", json!({})).await;
        let names: Vec<&str> =
            tools.result()["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
        assert_eq!(names[names.len() - 3..], [GET, ANSWER, CANCEL]);
        let handle = old.call("nap", json!({ "ms": 1200 })).await;
        let id = handle.result()["structuredContent"]["taskId"].as_str().unwrap().to_owned();
        assert!(text(handle.result()).contains(GET));
        let done = old.call(GET, json!({ "taskId": id })).await;
        assert_eq!(text(done.result()), "slept 1200 ms");
        // It is the principal's: another session of the same one has it, another principal's has not.
        let again = Older::begin(&host, version, json!({})).await;
        assert_eq!(text(again.call(GET, json!({ "taskId": id })).await.result()), "slept 1200 ms");
        let other = Older::begin_as(&host, version, json!({}), &[("x-forwarded-for", "10.0.0.1")]).await;
        assert_eq!(result_code(other.call(GET, json!({ "taskId": id })).await.result()), "task_unknown");
        let slow = old.call("nap", json!({ "ms": 60_000, "step_ms": 20 })).await;
        let slow = slow.result()["structuredContent"]["taskId"].as_str().unwrap().to_owned();
        old.call(CANCEL, json!({ "taskId": slow })).await.result();
        assert_eq!(old.end().await, 204);
        // A task outlives the session that began it.
        let ended = again.call(GET, json!({ "taskId": slow })).await;
        assert_eq!(ended.result()["structuredContent"]["status"], "cancelled", "{}", ended.message);
    }
}
