//! Questions: who may be asked what, and how answers are taken (design 6).

use std::time::{Duration, Instant};

use layby_tests::{Client, Setup, result_code, text};
use serde_json::{Value, json};

/// What `ask` of the plugin `probe` answered with, once its task is completed.
async fn answer(client: &Client, id: &str) -> Value {
    let task = client.status(id, "completed").await;
    serde_json::from_str(text(&task["result"])).unwrap()
}

#[tokio::test]
async fn a_question_makes_a_task_that_waits_for_its_answer() {
    let host = Setup::probe("").start().await;
    let client = host.client();
    let reply = client.call("ask", json!({ "key": "user_name", "message": "Who are you?" })).await;
    let handle = reply.result();
    assert_eq!(handle["status"], "input_required");
    assert!(handle.get("inputRequests").is_none(), "{handle}");
    let id = reply.task();
    let task = client.get(id).await;
    let request = &task.result()["inputRequests"]["user_name"];
    assert_eq!(request["method"], "elicitation/create");
    assert_eq!(request["params"]["mode"], "form");
    assert!(request["params"]["message"].as_str().unwrap().contains("Who are you?"));
    assert_eq!(request["params"]["requestedSchema"]["type"], "object");
    // It costs a row, and no slot: it waits as long as it has to.
    let ack = client.accept(id, "user_name", json!({ "value": "Ada" })).await;
    assert_eq!(ack.result()["resultType"], "complete");
    // Visible before the acknowledgement.
    let after = client.get(id).await;
    assert!(after.result()["inputRequests"].get("user_name").is_none(), "{}", after.message);
    assert_eq!(answer(&client, id).await["answers"], json!([{ "value": "Ada" }]));
    // Late answers are acknowledged and change nothing.
    let late = client.accept(id, "user_name", json!({ "value": "Eve" })).await;
    late.result();
    assert_eq!(answer(&client, id).await["answers"], json!([{ "value": "Ada" }]));
}

#[tokio::test]
async fn an_update_is_taken_whole_or_not_at_all() {
    let host = Setup::probe("").start().await;
    let client = host.client();
    let schema = json!({
        "type": "object",
        "properties": { "age": { "type": "integer", "minimum": 0 }, "mail": { "type": "string", "format": "email" } },
        "required": ["age"],
    });
    let id = client.task("ask", json!({ "at_once": 2, "key": "who", "schema": schema })).await;
    let keys = |task: &Value| -> Vec<String> {
        task["inputRequests"].as_object().unwrap().keys().cloned().collect()
    };
    // The same key again gets a number.
    assert_eq!(keys(client.get(&id).await.result()), ["who", "who_2"]);
    let accept = |content: Value| json!({ "action": "accept", "content": content });
    let good = accept(json!({ "age": 3 }));
    for (bad, path) in [
        (accept(json!({ "age": -1 })), "/content/age"),
        (accept(json!({})), "age"),
        (accept(json!({ "age": 1, "mail": "nobody" })), "/content/mail"),
        (accept(json!({ "age": { "deep": 1 } })), "/content/age"),
        (accept(json!(5)), "/content"),
        (json!({ "action": "dance" }), "/action"),
        (json!("yes"), "/action"),
    ] {
        let reply = client.update(&id, json!({ "who": good, "who_2": bad })).await;
        assert_eq!((reply.rpc(), reply.code()), (-32602, "answers_invalid"), "{bad}");
        let reasons = reply.message["error"]["data"]["reasons"].as_object().unwrap();
        assert_eq!(reasons.keys().collect::<Vec<_>>(), ["who_2"], "{bad}");
        assert!(reasons["who_2"].as_str().unwrap().contains(path), "{path}: {reasons:?}");
        assert_eq!(keys(client.get(&id).await.result()), ["who", "who_2"], "nothing was taken");
    }
    // A part keeps the rest pending; keys that nobody asked for are ignored.
    client.update(&id, json!({ "who_2": good, "stranger": { "action": "decline" } })).await.result();
    let partly = client.get(&id).await;
    assert_eq!(
        (keys(partly.result()), &partly.result()["status"]),
        (vec!["who".into()], &json!("input_required"))
    );
    // An answered key is ignored, whatever it says now.
    client.update(&id, json!({ "who_2": accept(json!({ "age": 99 })) })).await.result();
    client.update(&id, json!({ "who": accept(json!({ "age": 7 })) })).await.result();
    assert_eq!(answer(&client, &id).await["answers"], json!([{ "age": 7 }, { "age": 3 }]));
}

#[tokio::test]
async fn keys_stay_unique_over_the_rounds_of_a_task() {
    let host = Setup::probe("").start().await;
    let client = host.client();
    let id = client.task("ask", json!({ "rounds": 3, "key": "name" })).await;
    for (n, key) in ["name", "name_2", "name_3"].iter().enumerate() {
        let asked = |t: &Value| t["inputRequests"].get(*key).is_some();
        let task = client.until(&id, key, asked).await;
        assert_eq!(task["inputRequests"].as_object().unwrap().len(), 1, "{task}");
        client.accept(&id, key, json!({ "value": n.to_string() })).await.result();
    }
    let got = answer(&client, &id).await;
    assert_eq!(got["answers"], json!([{ "value": "0" }, { "value": "1" }, { "value": "2" }]));
}

#[tokio::test]
async fn a_caller_may_decline_or_close_a_question() {
    let host = Setup::probe("").start().await;
    let client = host.client();
    for (action, seen) in [("decline", "declined"), ("cancel", "dismissed")] {
        let id = client.task("ask", json!({})).await;
        client.update(&id, json!({ "question": { "action": action } })).await.result();
        assert_eq!(answer(&client, &id).await["answers"], json!([seen]));
    }
}

#[tokio::test]
async fn the_other_kinds_of_question_have_answers_of_their_own() {
    let host = Setup::probe("").start().await;
    let client = host.client();
    let url = client.task("ask", json!({ "kind": "url", "url": "https://example.com/login" })).await;
    let request = client.get(&url).await.result()["inputRequests"]["question"].clone();
    assert_eq!(
        (&request["method"], &request["params"]["mode"]),
        (&json!("elicitation/create"), &json!("url"))
    );
    assert_eq!(request["params"]["url"], "https://example.com/login");
    client.update(&url, json!({ "question": { "action": "accept" } })).await.result();
    assert_eq!(answer(&client, &url).await["answers"], json!([{}]));

    let sampling = client.task("ask", json!({ "kind": "sampling" })).await;
    let request = client.get(&sampling).await.result()["inputRequests"]["question"].clone();
    assert_eq!(request["method"], "sampling/createMessage");
    let wrong = client.update(&sampling, json!({ "question": { "role": "assistant" } })).await;
    assert_eq!(wrong.code(), "answers_invalid");
    let said = json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "Hello" } });
    client.update(&sampling, json!({ "question": said })).await.result();
    assert_eq!(answer(&client, &sampling).await["answers"][0]["content"]["text"], "Hello");

    let roots = client.task("ask", json!({ "kind": "roots" })).await;
    assert_eq!(client.get(&roots).await.result()["inputRequests"]["question"]["method"], "roots/list");
    let wrong = client.update(&roots, json!({ "question": { "roots": [{ "uri": "http://x/" }] } })).await;
    assert_eq!(wrong.code(), "answers_invalid");
    client.update(&roots, json!({ "question": { "roots": [{ "uri": "file:///home" }] } })).await.result();
    assert_eq!(answer(&client, &roots).await["answers"][0]["roots"][0]["uri"], "file:///home");
}

#[tokio::test]
async fn what_policy_does_not_allow_is_not_asked() {
    let host =
        Setup::new().plugin("probe", "[grants]\nask = [\"url https://good.example/pay/\"]").start().await;
    let client = host.client();
    let inline = |reply: layby_tests::Reply| -> Value { serde_json::from_str(text(reply.result())).unwrap() };
    for kind in ["form", "sampling", "roots"] {
        let got = inline(client.call("ask", json!({ "kind": kind })).await);
        assert_eq!((&got["count"], got["error"].is_string()), (&json!(0), true), "{kind}: {got}");
        let insists = client.call("ask", json!({ "kind": kind, "insist": true })).await;
        // Not the client's fault, and never the model's to lift: the missing grant is named.
        assert_eq!((insists.rpc(), insists.code()), (-32603, "plugin_unsupported"), "{kind}");
        assert!(insists.message.to_string().contains("grants.ask"), "{}", insists.message);
    }
    for url in [
        "https://evil.example/pay/",
        "https://good.example/",
        "http://good.example/pay/",
        "https://good.example.evil.example/pay/",
    ] {
        let got = inline(client.call("ask", json!({ "kind": "url", "url": url })).await);
        assert_eq!(got["count"], 0, "{url}: {got}");
    }
    let good = client.call("ask", json!({ "kind": "url", "url": "https://good.example/pay/now" })).await;
    assert_eq!(good.result()["status"], "input_required");
}

#[tokio::test]
async fn a_question_without_an_answer_in_time_fails_the_task_or_resumes_the_plugin() {
    for (then, status) in [("fail", "failed"), ("resume", "completed")] {
        let policy = format!("[call]\ninput-deadline = \"600ms\"\non-input-timeout = \"{then}\"");
        let host = Setup::probe(&policy).start().await;
        let client = host.client();
        let start = Instant::now();
        let id = client.task("ask", json!({})).await;
        let task = client.status(&id, status).await;
        assert!(start.elapsed() >= Duration::from_millis(600));
        if then == "fail" {
            assert_eq!(task["error"]["data"]["code"], "input_timed_out");
            assert!(!task["statusMessage"].as_str().unwrap_or_default().is_empty(), "{task}");
        } else {
            let got: Value = serde_json::from_str(text(&task["result"])).unwrap();
            assert!(got["error"].as_str().unwrap().contains("time"), "{got}");
        }
    }
}

#[tokio::test]
async fn malformed_questions_are_the_plugins_to_correct() {
    let host = Setup::probe("[limits]\nquestions = 5").start().await;
    let client = host.client();
    for (arguments, why) in [
        (json!({ "size": 70_000 }), "64"),
        (json!({ "at_once": 17 }), "16"),
        (json!({ "at_once": 0 }), "16"),
        (json!({ "key": "layby/mine" }), "layby/"),
        (json!({ "key": "" }), "key"),
        (json!({ "message": "  " }), "message"),
        (json!({ "schema": "{" }), "schema"),
        (json!({ "schema": { "type": "object", "properties": { "x": { "type": "object" } } } }), "x"),
        (json!({ "kind": "url", "url": "javascript:alert(1)" }), "url"),
        (json!({ "kind": "sampling", "params": {} }), "messages"),
    ] {
        let reply = client.call("ask", arguments.clone()).await;
        let got: Value = serde_json::from_str(text(reply.result()))
            .unwrap_or_else(|e| panic!("{arguments}: {e} {}", reply.message));
        let error = got["error"].as_str().unwrap_or_else(|| panic!("{arguments}: {got}"));
        assert!(error.contains(why), "{arguments}: {error}");
    }
}

#[tokio::test]
async fn a_run_has_only_so_many_questions() {
    let host = Setup::probe("[limits]\nquestions = 3").start().await;
    let client = host.client();
    let id = client.task("ask", json!({ "rounds": 4 })).await;
    for key in ["question", "question_2", "question_3"] {
        client.until(&id, key, |t| t["inputRequests"].get(key).is_some()).await;
        client.accept(&id, key, json!({ "value": "x" })).await.result();
    }
    let task = client.status(&id, "completed").await;
    assert_eq!(task["result"]["isError"], true, "{task}");
    assert_eq!(result_code(&task["result"]), "limit_questions");
    assert!(text(&task["result"]).contains("questions = 3"), "{task}");
}

/// Waiting stops the clock of active time and gives the slot back.
#[tokio::test]
async fn a_waiting_run_holds_no_slot_and_no_time() {
    let host = Setup::probe("[limits]\nconcurrency = 1\nactive-time = \"1s\"").start().await;
    let client = host.client();
    let mut waiting = Vec::new();
    for _ in 0..4 {
        waiting.push(client.task("ask", json!({})).await);
    }
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(1500) {
        // Others run meanwhile, one at a time.
        assert_eq!(text(client.call("nap", json!({ "ms": 100 })).await.result()), "slept 100 ms");
    }
    for id in &waiting {
        client.accept(id, "question", json!({ "value": "late" })).await.result();
        assert_eq!(answer(&client, id).await["answers"], json!([{ "value": "late" }]));
    }
}
