//! Clients of older revisions: sessions on the same endpoint.

use futures::{Stream, StreamExt as _};
use layby_tests::{
    Older, Setup, chameleon, client, eventually,
    older::{initialize, plain},
    schema, text,
};
use serde_json::{Value, json};

const REVISIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

async fn next(stream: &mut (impl Stream<Item = Value> + Unpin)) -> Value {
    let next = tokio::time::timeout(layby_tests::wait::BOUND, stream.next()).await;
    next.expect("a message comes in time").expect("the stream is open")
}

#[tokio::test]
async fn every_older_revision_is_served_beside_today_s() {
    let host = Setup::new().plugin("echo", "").start().await;
    for version in REVISIONS {
        let old = Older::begin(&host, version, json!({})).await;
        assert_eq!(old.begun["protocolVersion"], version);
        assert_eq!(old.begun["serverInfo"]["name"], "layby");
        assert_eq!(old.begun["capabilities"].get("extensions"), None, "no tasks: {}", old.begun);
        let tools = old.request("tools/list", json!({})).await;
        assert_eq!(tools.result()["tools"][0]["name"], "echo");
        for modern in ["resultType", "ttlMs", "cacheScope"] {
            assert_eq!(tools.result().get(modern), None, "{modern}");
        }
        assert_eq!(text(old.call("echo", json!({ "text": "x" })).await.result()), "x");
        assert_eq!(old.request("ping", json!({})).await.result(), &json!({}));
        assert_eq!(old.request("no/such", json!({})).await.rpc(), -32601);
        assert_eq!(old.request("tasks/get", json!({ "taskId": "x" })).await.rpc(), -32601);
        assert_eq!(text(host.client().call("echo", json!({ "text": "y" })).await.result()), "y");
    }
    // One that names today's revision with a handshake is from yesterday.
    let old = Older::begin(&host, "2026-07-28", json!({})).await;
    assert_eq!(old.begun["protocolVersion"], "2025-11-25");
    // A request without a session and without today's metadata is told both ways.
    let lost = plain(host.url(), &[]).body(old.body("tools/list", &json!({})).to_string());
    let lost = client::receive(lost.send().await.unwrap()).await.unwrap();
    assert_eq!((lost.status, lost.code()), (400, "meta_missing"));
}

#[tokio::test]
async fn an_older_client_is_never_given_a_task() {
    let host = Setup::probe("[call]\ndeadline = \"100ms\"\nhold = \"1s\"").start().await;
    let capabilities = json!({ "extensions": { client::TASKS: {} } });
    let old = Older::begin(&host, "2025-11-25", capabilities).await;
    assert!(text(old.call("nap", json!({ "ms": 400 })).await.result()).contains("400"));
    let over = old.call("nap", json!({ "ms": 5000 })).await;
    assert_eq!((over.rpc(), over.code()), (-32603, "held_too_long"));
    assert!(host.tasks().await.is_empty());
}

#[tokio::test]
async fn a_session_is_its_principal_s_and_ends_when_told() {
    let host = Setup::new().plugin("echo", "").config("[serve]\nmax-sessions = 2").start().await;
    let mine = Older::begin(&host, "2025-06-18", json!({})).await;
    let other = Older::begin_as(&host, "2025-06-18", json!({}), &[("x-forwarded-for", "10.0.0.1")]).await;
    let thief = Older { session: mine.session.clone(), ..other };
    let stolen = thief.call("echo", json!({ "text": "x" })).await;
    assert_eq!((stolen.status, stolen.code()), (404, "session_unknown"));
    let delete = |old: &Older| old.with_session(plain(&old.url, &old.extra)).build().unwrap();
    let ended = async |old: &Older| {
        let mut request = delete(old);
        *request.method_mut() = reqwest::Method::DELETE;
        old.http.execute(request).await.unwrap().status().as_u16()
    };
    assert_eq!(ended(&thief).await, 404);
    let get = thief.with_session(plain(host.url(), &thief.extra)).build().unwrap();
    let mut get = get;
    *get.method_mut() = reqwest::Method::GET;
    assert_eq!(thief.http.execute(get).await.unwrap().status().as_u16(), 404);
    // Both places are taken.
    let third = plain(host.url(), &[]).body(initialize("2025-06-18", &json!({})).to_string());
    let third = client::receive(third.send().await.unwrap()).await.unwrap();
    assert_eq!((third.status, third.code()), (503, "too_many_sessions"));
    assert!(third.headers.contains_key("retry-after"));
    assert_eq!(text(mine.call("echo", json!({ "text": "x" })).await.result()), "x");
    // An ended one makes room, and is unknown from then on.
    assert_eq!(ended(&mine).await, 204);
    assert_eq!(mine.call("echo", json!({ "text": "x" })).await.status, 404);
    eventually("a place", || async {
        let again = plain(host.url(), &[]).body(initialize("2025-06-18", &json!({})).to_string());
        (again.send().await.unwrap().status() == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn another_handshake_in_a_session_makes_no_room_for_others() {
    let host = Setup::new().plugin("echo", "").config("[serve]\nmax-sessions = 1").start().await;
    let old = Older::begin(&host, "2025-11-25", json!({})).await;
    let again = old.post(&initialize("2025-11-25", &json!({}))).send().await.unwrap();
    client::receive(again).await.unwrap();
    assert_eq!(text(old.call("echo", json!({ "text": "x" })).await.result()), "x");
    let second = plain(host.url(), &[]).body(initialize("2025-11-25", &json!({})).to_string());
    let second = client::receive(second.send().await.unwrap()).await.unwrap();
    assert_eq!((second.status, second.code()), (503, "too_many_sessions"));
}

#[tokio::test]
async fn sessions_that_nobody_goes_on_with_make_room() {
    let host = Setup::new().plugin("echo", "").config("[serve]\nmax-sessions = 2").start().await;
    let used = Older::begin(&host, "2025-11-25", json!({})).await;
    let begin = async || {
        let request = plain(host.url(), &[]).body(initialize("2025-11-25", &json!({})).to_string());
        client::receive(request.send().await.unwrap()).await.unwrap().status
    };
    assert_eq!(begin().await, 200);
    assert_eq!(begin().await, 503, "its client may yet come");
    eventually("the place of a client that left", || async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        (begin().await == 200).then_some(())
    })
    .await;
    assert_eq!(text(used.call("echo", json!({ "text": "x" })).await.result()), "x", "the other one stays");
}

#[tokio::test]
async fn an_idle_session_ends() {
    let host = Setup::new().plugin("echo", "").config("[serve]\nsession-idle = \"300ms\"").start().await;
    let old = Older::begin(&host, "2025-11-25", json!({})).await;
    eventually("the end of an idle session", || async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        (old.call("echo", json!({ "text": "x" })).await.status == 404).then_some(())
    })
    .await;
}

#[tokio::test]
async fn progress_comes_with_the_call_and_log_messages_from_the_level_on() {
    let host = Setup::probe("").start().await;
    let old = Older::begin(&host, "2025-11-25", json!({})).await;
    let mut stream = old.stream().await;
    let body = json!({ "name": "report", "arguments": { "count": 3 }, "_meta": { "progressToken": "p" } });
    let reply = old.request("tools/call", body).await;
    reply.result();
    let (told, last) = reply.stream.split_at(reply.stream.len() - 1);
    assert!(!told.is_empty(), "{:?}", reply.stream);
    assert!(told.iter().all(|m| m["method"] == "notifications/progress"), "{told:?}");
    assert_eq!(told[0]["params"]["progressToken"], "p");
    assert!(last[0].get("result").is_some());
    // Until it sets a level, what a person wants to see.
    let heard = async |stream: &mut _| {
        old.call("log", json!({ "text": "t" })).await.result();
        let mut levels = Vec::new();
        loop {
            let message = next(stream).await;
            assert_eq!(message["method"], "notifications/message");
            let level = message["params"]["level"].as_str().unwrap().to_owned();
            levels.push(level.clone());
            if level == "critical" {
                return levels;
            }
        }
    };
    assert_eq!(heard(&mut stream).await, ["info", "notice", "warning", "error", "critical"]);
    assert_eq!(old.request("logging/setLevel", json!({ "level": "error" })).await.result(), &json!({}));
    assert_eq!(heard(&mut stream).await, ["error", "critical"]);
    assert_eq!(old.request("logging/setLevel", json!({ "level": "debug" })).await.result(), &json!({}));
    assert_eq!(heard(&mut stream).await.len(), 6);
    assert_eq!(old.request("logging/setLevel", json!({ "level": "loud" })).await.rpc(), -32602);
}

#[tokio::test]
async fn a_session_is_told_of_lists_and_takes_subscriptions() {
    let host = Setup::probe("").start().await;
    let old = Older::begin(&host, "2025-11-25", json!({})).await;
    let mut stream = old.stream().await;
    host.put("pet", &chameleon::version("1", "pet"), "");
    assert_eq!(next(&mut stream).await["method"], "notifications/tools/list_changed");
    let uri = json!({ "uri": "test://a" });
    assert_eq!(old.request("resources/subscribe", uri.clone()).await.result(), &json!({}));
    assert_eq!(old.request("resources/unsubscribe", uri).await.result(), &json!({}));
    old.call("changed", json!({ "what": ["tools"] })).await.result();
    assert_eq!(next(&mut stream).await["method"], "notifications/tools/list_changed");
    let long = json!({ "uri": "x".repeat(3000) });
    assert_eq!(old.request("resources/subscribe", long).await.code(), "subscription_too_large");
}

#[tokio::test]
async fn a_cancelled_call_stops_and_a_host_that_stops_ends_its_streams() {
    let mut host = Setup::probe("").start().await;
    let old = Older::begin(&host, "2025-11-25", json!({})).await;
    let call =
        old.body("tools/call", &json!({ "name": "nap", "arguments": { "ms": 30_000, "step_ms": 20 } }));
    let flying = tokio::spawn(old.post(&call).send());
    // Its stream opens at once; then it can be cancelled.
    let response = flying.await.unwrap().unwrap();
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": call["id"] } });
    assert_eq!(old.post(&note).send().await.unwrap().status().as_u16(), 202);
    let mut rest = client::messages(response);
    let ended = tokio::time::timeout(layby_tests::wait::BOUND, rest.next()).await;
    assert!(ended.is_ok(), "the stream of a cancelled call ends");
    let mut stream = old.stream().await;
    let slow = tokio::spawn(
        old.post(&old.body("tools/call", &json!({ "name": "nap", "arguments": { "ms": 1000 } }))).send(),
    );
    let slow = slow.await.unwrap().unwrap();
    host.signal("TERM");
    let answer = client::receive(slow).await.unwrap();
    assert!(text(answer.result()).contains("1000"), "a call in flight is answered: {}", answer.message);
    assert_eq!(stream.next().await, None);
    assert_eq!(host.ended().await, Some(0));
}

/// Calls `ask`, answers each of its questions with `answer`, and returns those questions and the tool's text.
async fn asked(old: &Older, arguments: Value, answer: impl Fn(&Value) -> Value) -> (Vec<Value>, String) {
    let body = old.body("tools/call", &json!({ "name": "ask", "arguments": arguments }));
    let mut stream = client::messages(old.post(&body).send().await.unwrap());
    let mut questions = Vec::new();
    loop {
        let message = next(&mut stream).await;
        if message["id"] == body["id"] && message.get("method").is_none() {
            schema::check_older_answer(&old.version, &body, &message);
            return (
                questions,
                message["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned(),
            );
        }
        schema::check_older_message(&old.version, &message);
        let mut reply = answer(&message);
        reply["jsonrpc"] = "2.0".into();
        reply["id"] = message["id"].clone();
        questions.push(message);
        assert_eq!(old.post(&reply).send().await.unwrap().status().as_u16(), 202);
    }
}

#[tokio::test]
async fn questions_are_pushed_on_the_stream_of_their_call() {
    let host = Setup::probe("[call]\nhold = \"5s\"").start().await;
    let capabilities = json!({ "elicitation": {}, "sampling": {}, "roots": {} });
    for version in ["2025-11-25", "2025-06-18"] {
        let old = Older::begin(&host, version, capabilities.clone()).await;
        let accept = |_: &Value| json!({ "result": { "action": "accept", "content": { "value": "v" } } });
        let (questions, said) = asked(&old, json!({ "rounds": 2 }), accept).await;
        assert_eq!(questions.len(), 2);
        assert_eq!(questions[0]["method"], "elicitation/create");
        assert!(
            questions[0]["params"]["requestedSchema"]["properties"]["value"].is_object(),
            "{}",
            questions[0]
        );
        let said: Value = serde_json::from_str(&said).unwrap();
        let both = json!({ "count": 2, "answers": [{ "value": "v" }, { "value": "v" }], "error": null });
        assert_eq!(said, both);
    }
    let old = Older::begin(&host, "2025-11-25", capabilities).await;
    let decline = |_: &Value| json!({ "result": { "action": "decline" } });
    assert!(asked(&old, json!({}), decline).await.1.contains(r#"["declined"]"#));
    let message = |_: &Value| json!({ "result": { "role": "assistant", "model": "m", "content": { "type": "text", "text": "hi" } } });
    let (questions, said) = asked(&old, json!({ "kind": "sampling" }), message).await;
    assert_eq!(questions[0]["method"], "sampling/createMessage");
    assert!(said.contains("\"hi\""), "{said}");
    let roots = |_: &Value| json!({ "result": { "roots": [{ "uri": "file:///a" }] } });
    let (questions, said) = asked(&old, json!({ "kind": "roots" }), roots).await;
    assert_eq!(questions[0]["method"], "roots/list");
    assert!(said.contains("file:///a"), "{said}");
    // What does not fit, and what is refused, is an error to the plugin.
    let wrong = |_: &Value| json!({ "result": { "action": "accept", "content": { "value": 5 } } });
    let said = asked(&old, json!({}), wrong).await.1;
    assert!(said.contains(r#""count":0"#) && !said.contains(r#""error":null"#), "{said}");
    let refused = |_: &Value| json!({ "error": { "code": -1, "message": "no" } });
    let said = asked(&old, json!({ "kind": "sampling" }), refused).await.1;
    assert!(said.contains(r#""count":0"#) && !said.contains(r#""error":null"#), "{said}");
    // What the client did not declare is not asked.
    let old = Older::begin(&host, "2025-11-25", json!({})).await;
    let (questions, said) = asked(&old, json!({}), decline).await;
    assert!(questions.is_empty() && said.contains("cannot answer"), "{questions:?} {said}");
    assert!(host.tasks().await.is_empty());
}

#[tokio::test]
async fn a_question_that_nobody_answers_is_withdrawn() {
    let host = Setup::probe("[call]\npush-wait = \"500ms\"").start().await;
    let old = Older::begin(&host, "2025-11-25", json!({ "elicitation": {} })).await;
    let body = old.body("tools/call", &json!({ "name": "ask", "arguments": {} }));
    let mut stream = client::messages(old.post(&body).send().await.unwrap());
    let question = next(&mut stream).await;
    assert_eq!(question["method"], "elicitation/create");
    let answer = loop {
        let message = next(&mut stream).await;
        if message["id"] == body["id"] {
            break message;
        }
    };
    assert!(text(&answer["result"]).contains(r#""count":0"#), "{answer}");
}

#[tokio::test]
async fn each_older_revision_has_progress_questions_and_an_end() {
    let host = Setup::probe("[call]\nhold = \"5s\"").start().await;
    let capabilities = json!({ "elicitation": {}, "sampling": {}, "roots": {} });
    for version in REVISIONS {
        let old = Older::begin(&host, version, capabilities.clone()).await;
        for list in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
            old.request(list, json!({})).await.result();
        }
        let read = old.request("resources/read", json!({ "uri": "probe:///a/b" })).await;
        assert_eq!(read.result()["contents"][0]["text"], "a/b");
        let call = json!({ "name": "report", "arguments": { "count": 3 }, "_meta": { "progressToken": 9 } });
        let reply = old.request("tools/call", call).await;
        assert!(reply.stream.len() > 1 && reply.stream[0]["params"]["progressToken"] == 9, "{reply:?}");
        // The oldest knows no elicitation.
        let roots = |_: &Value| json!({ "result": { "roots": [{ "uri": "file:///a" }] } });
        let (questions, said) = asked(&old, json!({ "kind": "roots" }), roots).await;
        assert_eq!(questions[0]["method"], "roots/list");
        assert!(said.contains("file:///a"), "{said}");
        if version != "2025-03-26" {
            let accept = |_: &Value| json!({ "result": { "action": "accept", "content": { "value": "v" } } });
            assert_eq!(asked(&old, json!({}), accept).await.0[0]["method"], "elicitation/create");
        }
        assert_eq!(old.end().await, 204);
        assert_eq!(old.call("nap", json!({ "ms": 1 })).await.status, 404);
    }
}

/// A plugin with a resource of its own.
fn pet() -> Vec<u8> {
    let resources = json!([{ "uri": "pet:///a", "name": "a" }]);
    chameleon::with_catalog(&json!({ "version": "1", "list": "ok", "tools": [], "resources": resources }))
}

#[tokio::test]
async fn a_session_is_told_of_the_resources_it_watches() {
    let other = pet();
    let host = Setup::probe("").file("pet", &other, "").start().await;
    let old = Older::begin(&host, "2025-11-25", json!({})).await;
    let mut stream = old.stream().await;
    for uri in ["probe:///a", "probe:///b", "pet:///a"] {
        assert_eq!(old.request("resources/subscribe", json!({ "uri": uri })).await.result(), &json!({}));
    }
    assert_eq!(
        old.request("resources/unsubscribe", json!({ "uri": "probe:///b" })).await.result(),
        &json!({})
    );
    // What is not watched, not any more, or not the plugin's own is not told.
    for uri in ["probe:///c", "probe:///b", "pet:///a", "probe:///a"] {
        old.call("changed", json!({ "what": ["contents"], "uri": uri })).await.result();
    }
    let told = next(&mut stream).await;
    assert_eq!(told["method"], "notifications/resources/updated");
    assert_eq!(told["params"]["uri"], "probe:///a");
}
