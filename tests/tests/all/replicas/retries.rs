//! Multi round-trip requests to several hosts on one database.

use layby_tests::{Host, postgres::database, text};
use serde_json::json;

use super::replica;

/// A client without tasks: the first request goes here, each retry there, and one of them dies in between.
#[tokio::test]
async fn a_retry_goes_to_any_replica() {
    let url = database().await;
    let (mut one, two) = (replica(&url).await, replica(&url).await);
    let plain = |host: &Host| host.client_with(json!({ "elicitation": {} }));
    let arguments = json!({ "rounds": 3 });
    let mut reply = plain(&one).call("ask", arguments.clone()).await;
    for (round, at_two) in [true, false, true].into_iter().enumerate() {
        let result = reply.result();
        let key = result["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        let answer = json!({ "action": "accept", "content": { "value": format!("v{round}") } });
        let params = json!({
            "name": "ask", "arguments": arguments, "requestState": result["requestState"],
            "inputResponses": { key: answer },
        });
        if round == 2 {
            one.kill();
        }
        reply = plain(if at_two { &two } else { &one }).request("tools/call", params.clone()).await;
        let again = plain(&two).request("tools/call", params).await;
        assert_eq!(again.result()["content"], reply.result()["content"]);
        assert_eq!(again.result()["inputRequests"], reply.result()["inputRequests"]);
    }
    for round in 0..3 {
        assert!(text(reply.result()).contains(&format!("v{round}")), "{}", reply.message);
    }
}
