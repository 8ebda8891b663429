//! Multi round-trip requests: a client without tasks is asked, and comes back with answers (design 6).

mod rows;

use std::time::Duration;

use layby_tests::{
    Client, Host, Setup,
    client::{Reply, TASKS},
    eventually, guests, result_code, text,
};
use serde_json::{Value, json};

/// A client without tasks that answers forms.
fn plain(host: &Host) -> Client {
    host.client_with(json!({ "elicitation": { "form": {} } }))
}

/// One accepted form.
fn accept(value: &str) -> Value {
    json!({ "action": "accept", "content": { "value": value } })
}

/// The keys that an `InputRequiredResult` asks for, and its state.
fn asked(reply: &Reply) -> (Vec<String>, String) {
    let result = reply.result();
    assert_eq!(result["resultType"], "input_required", "{result}");
    let keys = result["inputRequests"].as_object().unwrap().keys().cloned().collect();
    (keys, result["requestState"].as_str().unwrap().to_owned())
}

/// The same call again, with answers.
async fn retry(client: &Client, arguments: &Value, state: &str, answers: Value) -> Reply {
    let params = json!({
        "name": "ask", "arguments": arguments, "requestState": state, "inputResponses": answers,
    });
    client.request("tools/call", params).await
}

/// What `ask` of the plugin `probe` got.
fn got(reply: &Reply) -> Value {
    serde_json::from_str(text(reply.result())).unwrap()
}

fn refused(reply: &Reply, code: &str) {
    assert_eq!((reply.rpc(), reply.code()), (-32602, code), "{}", reply.message);
}

#[tokio::test]
async fn two_rounds_end_in_a_result() {
    let host = Setup::probe("").start().await;
    let client = plain(&host);
    let arguments = json!({ "rounds": 2, "key": "name", "message": "Who?" });
    let first = client.call("ask", arguments.clone()).await;
    let (keys, one) = asked(&first);
    assert_eq!(keys, ["name"]);
    let request = &first.result()["inputRequests"]["name"];
    assert_eq!(
        (&request["method"], &request["params"]["message"]),
        (&json!("elicitation/create"), &json!("Who?"))
    );
    // Answers that nobody asked for are ignored; the next round has a key of its own.
    let answers = json!({ "name": accept("Ada"), "stranger": 1 });
    let (keys, two) = asked(&retry(&client, &arguments, &one, answers.clone()).await);
    assert_eq!(keys, ["name_2"]);
    assert_ne!(one, two);
    // A repeat of the first round attaches to the second.
    assert_eq!(asked(&retry(&client, &arguments, &one, answers.clone()).await).0, ["name_2"]);
    let end = retry(&client, &arguments, &two, json!({ "name_2": accept("Eve") })).await;
    assert_eq!(got(&end)["answers"], json!([{ "value": "Ada" }, { "value": "Eve" }]));
    // The stored outcome, for an equal repeat alone.
    let again = retry(&client, &arguments, &two, json!({ "name_2": accept("Eve") })).await;
    assert_eq!(again.result(), end.result());
    refused(
        &retry(&client, &arguments, &two, json!({ "name_2": accept("Bob") })).await,
        "input_already_answered",
    );
    refused(&retry(&client, &arguments, &one, answers).await, "input_already_answered");
    // It is a row, of which nobody has the handle.
    let rows = host.tasks().await;
    assert_eq!((rows.len(), &rows[0]["status"]), (1, &json!("completed")));
    hidden(&client, rows[0]["taskId"].as_str().unwrap()).await;
}

/// No client can do anything with this id, though it can be read in a state.
async fn hidden(client: &Client, id: &str) {
    let client = client.declaring(layby_tests::client::everything());
    for (method, params) in [
        ("tasks/get", json!({ "taskId": id })),
        ("tasks/cancel", json!({ "taskId": id })),
        ("tasks/update", json!({ "taskId": id, "inputResponses": { "question": accept("stolen") } })),
    ] {
        let reply = client.request(method, params).await;
        assert_eq!((reply.rpc(), reply.code()), (-32602, "task_unknown"), "{method}");
    }
}

#[tokio::test]
async fn a_state_is_good_for_its_own_request_alone() {
    let host = Setup::probe("").start().await;
    let client = plain(&host);
    let arguments = json!({ "key": "k", "message": "m" });
    let (_, state) = asked(&client.call("ask", arguments.clone()).await);
    let answers = json!({ "k": accept("x") });
    for bad in [format!("{state}-TAMPERED"), "nonsense".to_owned(), String::new()] {
        refused(&retry(&client, &arguments, &bad, answers.clone()).await, "request_state_invalid");
    }
    let other = json!({ "key": "k", "message": "n" });
    refused(&retry(&client, &other, &state, answers.clone()).await, "request_state_invalid");
    let elsewhere = json!({ "name": "nap", "arguments": arguments, "requestState": state });
    refused(&client.request("tools/call", elsewhere).await, "request_state_invalid");
    // Equal arguments in another order are the same request.
    let turned = json!({ "message": "m", "key": "k" });
    assert_eq!(got(&retry(&client, &turned, &state, answers).await)["answers"], json!([{ "value": "x" }]));
}

#[tokio::test]
async fn partial_answers_ask_again_and_bad_ones_are_refused_whole() {
    let host = Setup::probe("").start().await;
    let client = plain(&host);
    let schema = json!({
        "type": "object", "properties": { "value": { "type": "string", "maxLength": 3 } }, "required": ["value"],
    });
    let arguments = json!({ "at_once": 3, "key": "k", "schema": schema });
    let (keys, state) = asked(&client.call("ask", arguments.clone()).await);
    assert_eq!(keys, ["k", "k_2", "k_3"]);
    let wrong =
        retry(&client, &arguments, &state, json!({ "k": accept("yes"), "k_2": accept("too long") })).await;
    refused(&wrong, "answers_invalid");
    let reasons = wrong.message["error"]["data"]["reasons"].as_object().unwrap();
    assert_eq!(reasons.keys().collect::<Vec<_>>(), ["k_2"]);
    // Nothing was taken.
    let (keys, state) = asked(&retry(&client, &arguments, &state, json!({})).await);
    assert_eq!(keys, ["k", "k_2", "k_3"]);
    let (keys, state) = asked(&retry(&client, &arguments, &state, json!({ "k_2": accept("b") })).await);
    assert_eq!(keys, ["k", "k_3"]);
    // What was taken stays.
    refused(
        &retry(&client, &arguments, &state, json!({ "k_2": accept("z") })).await,
        "input_already_answered",
    );
    let rest = json!({ "k": accept("a"), "k_2": accept("b"), "k_3": { "action": "decline" } });
    let end = retry(&client, &arguments, &state, rest).await;
    assert_eq!(got(&end)["answers"], json!([{ "value": "a" }, { "value": "b" }, "declined"]));
}

#[tokio::test]
async fn a_waiting_run_holds_no_slot_and_its_time_does_not_count() {
    let policy = "[limits]\nconcurrency = 1\nactive-time = \"2s\"\n[call]\nhold = \"3s\"\ndeadline = \"1s\"";
    let host = Setup::probe(policy).start().await;
    let client = plain(&host);
    let arguments = json!({});
    let (_, state) = asked(&client.call("ask", arguments.clone()).await);
    for _ in 0..4 {
        assert_eq!(text(client.call("nap", json!({ "ms": 900 })).await.result()), "slept 900 ms");
    }
    let end = retry(&client, &arguments, &state, json!({ "question": accept("late") })).await;
    assert_eq!(got(&end)["answers"], json!([{ "value": "late" }]));
}

#[tokio::test]
async fn only_what_the_client_declared_is_asked() {
    let host = Setup::probe("").start().await;
    for (capabilities, kind, missing) in [
        (json!({}), "form", json!({ "elicitation": { "form": {} } })),
        (json!({ "sampling": {} }), "form", json!({ "elicitation": { "form": {} } })),
        (json!({ "elicitation": { "form": {} } }), "url", json!({ "elicitation": { "url": {} } })),
        (json!({ "elicitation": { "url": {} } }), "form", json!({ "elicitation": { "form": {} } })),
        (json!({ "elicitation": {} }), "sampling", json!({ "sampling": {} })),
        (json!({ "sampling": {} }), "roots", json!({ "roots": {} })),
    ] {
        let client = host.client_with(capabilities.clone());
        let reply = client.call("ask", json!({ "kind": kind, "insist": true })).await;
        assert_eq!((reply.status, reply.rpc()), (400, -32021), "{capabilities} {kind}");
        assert_eq!(reply.message["error"]["data"]["requiredCapabilities"], missing, "{capabilities} {kind}");
        // A plugin that goes on is told.
        let reply = client.call("ask", json!({ "kind": kind })).await;
        assert!(got(&reply)["error"].is_string(), "{}", reply.message);
    }
    for (capabilities, kind) in [
        (json!({ "elicitation": {} }), "form"),
        (json!({ "elicitation": { "url": {} } }), "url"),
        (json!({ "sampling": {} }), "sampling"),
        (json!({ "roots": {} }), "roots"),
    ] {
        let client = host.client_with(capabilities);
        asked(&client.call("ask", json!({ "kind": kind })).await);
    }
}

#[tokio::test]
async fn a_tool_may_ask_before_it_is_a_task() {
    let host = Setup::probe("[call]\nearly-input = \"mrtr\"\ndeadline = \"300ms\"").start().await;
    let client = host.client();
    let arguments = json!({ "after_ms": 1500, "rounds": 2, "key": "k" });
    let (_, state) = asked(&client.call("ask", arguments.clone()).await);
    let answers = json!({ "k": accept("a") });
    let reply = retry(&client, &arguments, &state, answers.clone()).await;
    assert!(reply.result().get("inputRequests").is_none(), "{}", reply.message);
    let id = reply.task().to_owned();
    // The same answers again lead to the same handle; the task asks under keys that were never used.
    assert_eq!(retry(&client, &arguments, &state, answers.clone()).await.task(), id);
    refused(&retry(&client, &arguments, &state, json!({ "k": accept("b") })).await, "input_already_answered");
    let task = client.status(&id, "input_required").await;
    assert!(task["inputRequests"].get("k_2").is_some(), "{task}");
    client.accept(&id, "k_2", json!({ "value": "c" })).await.result();
    let task = client.status(&id, "completed").await;
    let end: Value = serde_json::from_str(text(&task["result"])).unwrap();
    assert_eq!(end["answers"], json!([{ "value": "a" }, { "value": "c" }]));
    assert_eq!(retry(&client, &arguments, &state, answers).await.task(), id, "after its end too");
    // A client without tasks never gets a handle, and so it gets the outcome.
    let plain = host.client_with(json!({ "elicitation": {} }));
    let reply = retry(&plain, &arguments, &state, json!({ "k": accept("a") })).await;
    assert_eq!(got(&reply)["answers"], json!([{ "value": "a" }, { "value": "c" }]));
}

#[tokio::test]
async fn answers_with_the_call_count_where_policy_lets_them() {
    let arguments = json!({ "at_once": 2, "rounds": 2, "key": "k" });
    let call = |answers: Value| json!({ "name": "ask", "arguments": arguments, "inputResponses": answers });
    let both = json!({ "k": accept("a"), "k_2": accept("b"), "k_3": accept("c"), "other": 1 });
    let host = Setup::probe("").start().await;
    let reply = plain(&host).request("tools/call", call(both.clone())).await;
    assert_eq!(asked(&reply).0, ["k", "k_2"], "off");

    let host = Setup::probe("[call]\npre-answers = true").start().await;
    let client = plain(&host);
    // The first round is answered; the second is not, though its keys were guessed.
    let (keys, state) = asked(&client.request("tools/call", call(both.clone())).await);
    assert_eq!(keys, ["k_3", "k_4"]);
    let rest = json!({ "k_3": accept("c"), "k_4": accept("d") });
    let end = got(&retry(&client, &arguments, &state, rest).await);
    assert_eq!(
        end["answers"],
        json!([{ "value": "a" }, { "value": "b" }, { "value": "c" }, { "value": "d" }])
    );
    // What is missing or does not fit is asked for.
    let part = json!({ "k": { "action": "dance" }, "k_2": accept("b") });
    let (keys, state) = asked(&client.request("tools/call", call(part)).await);
    assert_eq!(keys, ["k"]);
    let (keys, _) = asked(&retry(&client, &arguments, &state, json!({ "k": accept("a") })).await);
    assert_eq!(keys, ["k_3", "k_4"]);
    // For a task as well.
    let tasked = host.client();
    let once = json!({ "name": "ask", "arguments": { "key": "k" }, "inputResponses": { "k": accept("a") } });
    let reply = tasked.request("tools/call", once).await;
    assert_eq!(got(&reply)["answers"], json!([{ "value": "a" }]));
    let part = json!({ "k_2": accept("b") });
    let id = tasked.request("tools/call", call(part)).await.task().to_owned();
    tasked.accept(&id, "k", json!({ "value": "a" })).await.result();
    tasked.until(&id, "k_3", |t| t["inputRequests"].get("k_3").is_some()).await;
}

#[tokio::test]
async fn a_state_ends_with_its_questions() {
    let host = Setup::probe("[call]\ninput-deadline = \"300ms\"").start().await;
    let client = plain(&host);
    let arguments = json!({});
    let (_, state) = asked(&client.call("ask", arguments.clone()).await);
    eventually("the state expires", || async {
        let reply = retry(&client, &arguments, &state, json!({})).await;
        (reply.message["error"]["data"]["code"] == "request_state_invalid").then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_idempotency_key_loses_nothing() {
    let host = Setup::probe("").start().await;
    let client = plain(&host).meta("layby/idempotency-key", json!("one"));
    let arguments = json!({ "at_once": 2, "key": "k" });
    let (keys, state) = asked(&client.call("ask", arguments.clone()).await);
    assert_eq!(keys, ["k", "k_2"]);
    // A repeat of the key asks the same, and its state is as good.
    let (keys, other) = asked(&client.call("ask", arguments.clone()).await);
    assert_eq!(keys, ["k", "k_2"]);
    refused(
        &retry(&client, &arguments, &state, json!({ "k": { "action": "dance" } })).await,
        "answers_invalid",
    );
    let (keys, _) = asked(&retry(&client, &arguments, &state, json!({ "k": accept("a") })).await);
    assert_eq!(keys, ["k_2"]);
    let end = retry(&client, &arguments, &other, json!({ "k_2": accept("b") })).await;
    assert_eq!(got(&end)["answers"], json!([{ "value": "a" }, { "value": "b" }]));
    assert_eq!(client.call("ask", arguments.clone()).await.result(), end.result());
    assert_eq!(
        retry(&client, &arguments, &other, json!({ "k_2": accept("b") })).await.result(),
        end.result()
    );

    // A repeat that knows tasks gets the handle, and answers there.
    let client = plain(&host).meta("layby/idempotency-key", json!("two"));
    let (_, state) = asked(&client.call("ask", arguments.clone()).await);
    let tasked = host.client().meta("layby/idempotency-key", json!("two"));
    let id = tasked.task("ask", arguments.clone()).await;
    tasked.update(&id, json!({ "k": accept("a"), "k_2": accept("b") })).await.result();
    let task = tasked.status(&id, "completed").await;
    let end = retry(&client, &arguments, &state, json!({})).await;
    assert_eq!(end.result()["content"], task["result"]["content"]);
}

#[tokio::test]
async fn repeats_of_a_key_that_come_before_the_question_hear_it_too() {
    let host = Setup::probe("").start().await;
    let arguments = json!({ "before_ms": 500 });
    let client = plain(&host).meta("layby/idempotency-key", json!("one"));
    let began = std::time::Instant::now();
    let all = (0..10).map(|_| client.call("ask", arguments.clone()));
    let states: Vec<String> = futures::future::join_all(all)
        .await
        .iter()
        .map(|reply| {
            let (keys, state) = asked(reply);
            assert_eq!(keys, ["question"]);
            state
        })
        .collect();
    // Not only when `hold` (50 s) is over.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    // One that knows tasks hears it at once too, and has the handle.
    let tasked = host.client().meta("layby/idempotency-key", json!("one"));
    tasked.task("ask", arguments.clone()).await;
    let answers = json!({ "question": accept("x") });
    let ends = states.iter().map(|state| retry(&client, &arguments, state, answers.clone()));
    for end in futures::future::join_all(ends).await {
        assert_eq!(got(&end)["answers"], json!([{ "value": "x" }]));
    }
}

#[tokio::test]
async fn a_client_that_leaves_stops_what_works_for_it() {
    let host = Setup::probe("[call]\ngrace = \"100ms\"").start().await;
    let client = plain(&host);
    let arguments = json!({ "after_ms": 60_000, "rounds": 2 });
    let (_, state) = asked(&client.call("ask", arguments.clone()).await);
    let answers = json!({ "question": accept("x") });
    let short = {
        let (client, arguments, state) = (client.apart(), arguments.clone(), state.clone());
        let answers = answers.clone();
        tokio::time::timeout(Duration::from_millis(500), async move {
            retry(&client, &arguments, &state, answers).await
        })
        .await
    };
    assert!(short.is_err(), "it still works");
    eventually("the run has ended", || async {
        let repeat = tokio::time::timeout(
            Duration::from_millis(200),
            retry(&client, &arguments, &state, answers.clone()),
        );
        let reply = repeat.await.ok()?;
        (reply.message["error"]["data"]["code"] == "cancelled").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_retry_that_takes_too_long_is_told_of_tasks() {
    let host =
        Setup::probe("[call]\nhold = \"400ms\"\ndeadline = \"100ms\"\ngrace = \"100ms\"").start().await;
    let client = plain(&host);
    let arguments = json!({ "after_ms": 10_000 });
    let (_, state) = asked(&client.call("ask", arguments.clone()).await);
    let reply = retry(&client, &arguments, &state, json!({ "question": accept("x") })).await;
    assert_eq!(reply.rpc(), -32021, "{}", reply.message);
    assert_eq!(
        reply.message["error"]["data"]["requiredCapabilities"],
        json!({ "extensions": { TASKS: {} } })
    );
}

#[tokio::test]
async fn limits_hold_over_the_rounds() {
    let host = Setup::probe("[limits]\nquestions = 2").start().await;
    let client = plain(&host);
    let arguments = json!({ "rounds": 3 });
    let (_, one) = asked(&client.call("ask", arguments.clone()).await);
    let (_, two) = asked(&retry(&client, &arguments, &one, json!({ "question": accept("x") })).await);
    let end = retry(&client, &arguments, &two, json!({ "question_2": accept("x") })).await;
    assert_eq!(result_code(end.result()), "limit_questions");
}

/// What a retry reports while its request waits is told to that request, under its own token.
#[tokio::test]
async fn a_retry_hears_of_progress() {
    let host = Setup::new()
        .file("trial", &guests::component("rust/trial"), &format!("{}\n", guests::policy("rust/trial")))
        .start()
        .await;
    let arguments = json!({ "rounds": 3, "sleep_ms": 300 });
    let token = |token: Value| plain(&host).meta("progressToken", token);
    let reply = token(json!("zero")).call("rounds", arguments.clone()).await;
    let told = |reply: &Reply| -> Vec<(Value, Option<f64>)> {
        let (_, before) = reply.stream.split_last().unwrap_or((&Value::Null, &[]));
        assert!(before.iter().all(|message| message["method"] == "notifications/progress"), "{before:?}");
        let params = before.iter().map(|message| &message["params"]);
        params.map(|p| (p["progressToken"].clone(), p["progress"].as_f64())).collect()
    };
    assert_eq!(told(&reply), [(json!("zero"), Some(1.0))]);
    let (keys, mut state) = asked(&reply);
    let mut key = keys[0].clone();
    for (round, name) in [(2.0, json!("one")), (3.0, json!(2))] {
        let params = json!({
            "name": "rounds", "arguments": arguments, "requestState": state,
            "inputResponses": { &key: accept("x") },
        });
        // A request beside it that wants no reports gets none, and takes none away.
        let (client, silent) = (token(name.clone()), plain(&host));
        let (reply, quiet) =
            tokio::join!(client.request("tools/call", params.clone()), silent.request("tools/call", params));
        assert_eq!(told(&reply), [(name, Some(round))], "the replay tells nobody");
        assert_eq!((told(&quiet), asked(&quiet).0), (Vec::new(), asked(&reply).0));
        let (keys, next) = asked(&reply);
        (key, state) = (keys[0].clone(), next);
    }
    let params = json!({
        "name": "rounds", "arguments": arguments, "requestState": state, "inputResponses": { &key: accept("x") },
    });
    let end = token(json!("end")).request("tools/call", params).await;
    assert_eq!(told(&end), []);
    assert!(text(end.result()).contains("digest"), "{}", end.message);
}
