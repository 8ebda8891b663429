//! `subscriptions/listen`: what is acknowledged, what is told, and how it ends.

use std::time::Duration;

use futures::{Stream, StreamExt as _};
use layby_tests::{Setup, chameleon};
use serde_json::{Value, json};

const LISTEN: &str = "subscriptions/listen";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The next message of a stream, which is on its way.
async fn next(stream: &mut (impl Stream<Item = Value> + Unpin)) -> Value {
    let next = tokio::time::timeout(layby_tests::wait::BOUND, stream.next()).await;
    next.expect("a message comes in time").expect("the stream is open")
}

fn wanting(notifications: &Value) -> Value {
    json!({ "notifications": notifications })
}

#[tokio::test]
async fn a_task_is_told_as_a_poll_would_give_it() {
    let host = Setup::probe("[call]\ndeadline = \"100ms\"").start().await;
    let client = host.client();
    let id = client.task("nap", json!({ "ms": 1500 })).await;
    let unknown = "99999999-9999-4999-8999-999999999999";
    let wanted = wanting(&json!({ "taskIds": [id, unknown, "x"] }));
    let mut stream = client.stream(LISTEN, wanted.clone()).await;
    let opened = next(&mut stream).await;
    assert_eq!(opened["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(opened["params"]["notifications"], json!({ "taskIds": [id] }), "only the caller's tasks");
    let subscription = &opened["params"]["_meta"][SUBSCRIPTION];
    assert!(subscription.is_u64(), "{opened}");
    // As it is now, then each change, and the end with its result.
    let first = next(&mut stream).await;
    assert_eq!(
        (&first["method"], &first["params"]["status"]),
        (&json!("notifications/tasks"), &json!("working"))
    );
    let mut told = first;
    while told["params"]["status"] == "working" {
        told = next(&mut stream).await;
        assert_eq!(told["method"], "notifications/tasks");
        assert_eq!(&told["params"]["_meta"][SUBSCRIPTION], subscription);
    }
    let mut told = told["params"].clone();
    told.as_object_mut().unwrap().remove("_meta");
    let mut polled = client.get(&id).await.result().clone();
    for member in ["_meta", "resultType"] {
        polled.as_object_mut().unwrap().remove(member);
    }
    assert_eq!(told, polled);
    assert_eq!(told["status"], "completed");

    // One that has ended is told once. Another principal's is none.
    let mut late = client.stream(LISTEN, wanted.clone()).await;
    next(&mut late).await;
    assert_eq!(next(&mut late).await["params"]["status"], "completed");
    let mut other = client.clone().header("x-forwarded-for", "10.0.0.1").stream(LISTEN, wanted.clone()).await;
    assert_eq!(next(&mut other).await["params"]["notifications"], json!({ "taskIds": [] }));
    // Without the capability, in this request.
    let bare = host.client_with(json!({ "elicitation": {} })).request(LISTEN, wanted).await;
    assert_eq!((bare.status, bare.rpc()), (400, -32021));
    let missing = &bare.message["error"]["data"]["requiredCapabilities"];
    assert_eq!(missing, &json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }));
}

#[tokio::test]
async fn a_question_is_told_with_the_task_that_asks_it() {
    let host = Setup::probe("").start().await;
    let client = host.client();
    let id = client.task("ask", json!({})).await;
    let mut stream = client.stream(LISTEN, wanting(&json!({ "taskIds": [id] }))).await;
    next(&mut stream).await;
    let asking = next(&mut stream).await;
    assert_eq!(asking["params"]["status"], "input_required");
    let (key, _) = asking["params"]["inputRequests"].as_object().unwrap().iter().next().unwrap();
    client.update(&id, json!({ key: { "action": "decline" } })).await.result();
    loop {
        let told = next(&mut stream).await;
        assert_eq!(told["method"], "notifications/tasks", "nothing else comes on this stream");
        if told["params"]["status"] == "completed" {
            break;
        }
    }
}

#[tokio::test]
async fn a_subscription_is_told_only_what_it_asked_for() {
    let host = Setup::new().start().await;
    let client = host.client();
    let kinds = json!({ "promptsListChanged": true, "resourcesListChanged": true,
                        "resourceSubscriptions": ["test://a", "test://b"], "toolsListChanged": false });
    let mut others = client.stream(LISTEN, wanting(&kinds)).await;
    let opened = next(&mut others).await;
    let agreed = json!({ "promptsListChanged": true, "resourcesListChanged": true,
                         "resourceSubscriptions": ["test://a", "test://b"] });
    assert_eq!(opened["params"]["notifications"], agreed);
    let mut tools = client.stream(LISTEN, wanting(&json!({ "toolsListChanged": true }))).await;
    next(&mut tools).await;
    host.put("pet", &chameleon::version("1", "pet"), "");
    assert_eq!(next(&mut tools).await["method"], "notifications/tools/list_changed");
    let quiet = tokio::time::timeout(Duration::from_millis(300), others.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
}

#[tokio::test]
async fn a_host_that_stops_ends_its_subscriptions_in_order() {
    let mut host = Setup::new().start().await;
    let mut stream = host.client().stream(LISTEN, wanting(&json!({ "toolsListChanged": true }))).await;
    let opened = next(&mut stream).await;
    let id = &opened["params"]["_meta"][SUBSCRIPTION];
    host.signal("TERM");
    let cancelled = next(&mut stream).await;
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(&cancelled["params"]["requestId"], id);
    assert_eq!(&cancelled["params"]["_meta"][SUBSCRIPTION], id);
    let last = next(&mut stream).await;
    assert_eq!((&last["id"], &last["result"]["resultType"]), (id, &json!("complete")));
    assert_eq!(&last["result"]["_meta"][SUBSCRIPTION], id);
    assert_eq!(stream.next().await, None);
    assert_eq!(host.ended().await, Some(0));
}

#[tokio::test]
async fn subscriptions_are_bounded() {
    let host = Setup::new().config("[serve]\nmax-subscriptions-each = 1").start().await;
    let client = host.client();
    let none = wanting(&json!({}));
    let mut first = client.stream(LISTEN, none.clone()).await;
    next(&mut first).await;
    let refused = client.request(LISTEN, none.clone()).await;
    assert_eq!((refused.status, refused.code()), (429, "too_many_subscriptions"));
    let mut other = client.clone().header("x-forwarded-for", "10.0.0.1").stream(LISTEN, none).await;
    next(&mut other).await;
    drop((first, other));
    let uris: Vec<String> = (0..257).map(|n| format!("test://{n}")).collect();
    let long = json!(["x".repeat(3000)]);
    for (notifications, code) in [
        (json!({ "resourceSubscriptions": uris }), "subscription_too_large"),
        (json!({ "resourceSubscriptions": long }), "subscription_too_large"),
        (json!({ "toolsListChanged": "yes" }), "params_invalid"),
        (json!({ "taskIds": "x" }), "params_invalid"),
        (json!(5), "params_invalid"),
    ] {
        let reply = client.request(LISTEN, wanting(&notifications)).await;
        assert_eq!((reply.rpc(), reply.code()), (-32602, code), "{}", reply.message);
    }
    assert_eq!(client.request(LISTEN, json!({})).await.rpc(), -32602);
}

#[tokio::test]
async fn changed_contents_are_told_to_who_watches_them_and_only_by_their_plugin() {
    let other = chameleon::with_catalog(&json!({ "version": "1", "list": "ok", "tools": [],
                                                  "resources": [{ "uri": "pet:///a", "name": "a" }] }));
    let host = Setup::probe("").file("pet", &other, "").start().await;
    let client = host.client();
    let watched = json!({ "resourceSubscriptions": ["probe:///a", "pet:///a"] });
    let mut stream = client.stream(LISTEN, wanting(&watched)).await;
    let opened = next(&mut stream).await;
    assert_eq!(opened["params"]["notifications"], watched);
    for uri in ["probe:///b", "pet:///a", "no:///such", "probe:///a"] {
        client.call("changed", json!({ "what": ["contents"], "uri": uri })).await.result();
    }
    let told = next(&mut stream).await;
    assert_eq!(told["method"], "notifications/resources/updated");
    assert_eq!(told["params"]["uri"], "probe:///a");
    assert_eq!(told["params"]["_meta"][SUBSCRIPTION], opened["params"]["_meta"][SUBSCRIPTION]);
    // Once for what changed many times while nobody took it, and again for each change after that.
    client.call("changed", json!({ "what": ["contents"], "uri": "probe:///a" })).await.result();
    assert_eq!(next(&mut stream).await["params"]["uri"], "probe:///a");
}
