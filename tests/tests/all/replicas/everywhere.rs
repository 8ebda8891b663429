//! Every request at any replica: three of them behind a balancer that gives each request to the next one.

use futures::{Stream, StreamExt as _};
use layby_tests::{Client, Setup, text};
use serde_json::{Value, json};

use super::{CONFIG, Fleet, answers, database, nap, question, replica};

async fn parked(fleet: &Fleet, id: &str) {
    let database = fleet.hosts[0].setup().database();
    layby_tests::eventually("the task is parked", || async { database.is_nobodys(id).await.then_some(()) })
        .await;
}

fn value(text: &str) -> Value {
    json!({ "value": text })
}

/// A life of every kind, each request at another replica.
async fn lives(fleet: &Fleet) {
    let client = fleet.client();
    let asks = async {
        let id = client.task("ask", json!({ "rounds": 3, "after_ms": 50 })).await;
        for n in 0..3 {
            let key = question(&client, &id).await;
            parked(fleet, &id).await;
            client.accept(&id, &key, value(&n.to_string())).await.result();
        }
        let task = client.status(&id, "completed").await;
        assert_eq!(answers(&task), json!([value("0"), value("1"), value("2")]));
    };
    let works = async {
        let id = client.task("nap", nap(1500)).await;
        assert_eq!(text(&client.status(&id, "completed").await["result"]), "slept 1500 ms");
    };
    let sleeps = async {
        let id = client.task("nap", json!({ "ms": 1500 })).await;
        parked(fleet, &id).await;
        assert_eq!(text(&client.status(&id, "completed").await["result"]), "slept 1500 ms");
    };
    let is_cancelled = async {
        // At work, and parked.
        let works = client.task("nap", nap(60_000)).await;
        let asks = client.task("ask", json!({})).await;
        parked(fleet, &asks).await;
        for id in [works, asks] {
            client.cancel(&id).await.result();
            client.status(&id, "cancelled").await;
        }
    };
    let keyed = async {
        let client = client.clone().meta("layby/idempotency-key", json!("once"));
        let id = client.task("nap", nap(1000)).await;
        // Of a hundred at once, over all replicas, none starts another run.
        let repeats = (0..100).map(|_| client.task("nap", nap(1000)));
        assert!(futures::future::join_all(repeats).await.iter().all(|other| *other == id));
        client.status(&id, "completed").await;
        assert_eq!(text(client.call("nap", nap(1000)).await.result()), "slept 1000 ms");
    };
    tokio::join!(asks, works, sleeps, is_cancelled, keyed);
    assert!(fleet.balancer.answered().iter().all(|n| *n > 20), "{:?}", fleet.balancer.answered());
}

#[tokio::test]
async fn any_replica_answers_on_postgres() {
    let fleet = Fleet::postgres().await;
    lives(&fleet).await;
    watched(&fleet).await;
    answered_twice(&fleet).await;
}

#[tokio::test]
async fn any_replica_answers_on_one_file() {
    let fleet = Fleet::sqlite().await;
    lives(&fleet).await;
    watched(&fleet).await;
    answered_twice(&fleet).await;
}

async fn told(stream: &mut (impl Stream<Item = Value> + Unpin)) -> Value {
    let next = tokio::time::timeout(layby_tests::wait::BOUND, stream.next()).await;
    next.expect("a message comes in time").expect("the stream is open")
}

/// A subscription at each replica hears of each change, whichever replica made it.
async fn watched(fleet: &Fleet) {
    let taker = fleet.hosts[0].client();
    let id = taker.task("ask", json!({ "rounds": 2 })).await;
    let mut streams = Vec::new();
    for host in &fleet.hosts {
        let wanted = json!({ "notifications": { "taskIds": [id] } });
        let mut stream = host.client().stream("subscriptions/listen", wanted).await;
        assert_eq!(told(&mut stream).await["params"]["notifications"], json!({ "taskIds": [id] }));
        streams.push(stream);
    }
    let client = fleet.client();
    let mut asked = String::new();
    for n in 0..2 {
        for stream in &mut streams {
            let key = loop {
                let message = told(stream).await;
                assert_eq!(message["method"], "notifications/tasks");
                let keys =
                    message["params"]["inputRequests"].as_object().and_then(|asked| asked.keys().next());
                if let Some(key) = keys.filter(|key| **key != asked) {
                    break key.clone();
                }
            };
            assert!(n == 0 || key == "question_2", "{key}");
        }
        asked = if n == 0 { "question".into() } else { "question_2".into() };
        client.accept(&id, &asked, value("told")).await.result();
    }
    for stream in &mut streams {
        while told(stream).await["params"]["status"] != "completed" {}
    }
}

/// Answers at two replicas at the same time: of two sets one wins whole.
async fn answered_twice(fleet: &Fleet) {
    let client = fleet.client();
    for n in 0..10 {
        let id =
            client.task("ask", json!({ "at_once": 3, "after_ms": if n % 2 == 0 { 0 } else { 200 } })).await;
        if n % 3 != 0 {
            parked(fleet, &id).await;
        }
        let set = |who: &str| -> Value {
            let answer = json!({ "action": "accept", "content": value(who) });
            json!({ "question": answer, "question_2": answer, "question_3": answer })
        };
        let (one, two) = (fleet.hosts[n % 3].client(), fleet.hosts[(n + 1) % 3].client());
        let (first, second) = tokio::join!(one.update(&id, set("one")), two.update(&id, set("two")));
        first.result();
        second.result();
        let got = answers(&client.status(&id, "completed").await);
        let whole = |who: &str| json!([value(who), value(who), value(who)]);
        assert!(got == whole("one") || got == whole("two"), "{got}");
    }
}

#[tokio::test]
async fn a_task_outlives_the_replica_that_took_it() {
    let url = database().await;
    let (mut one, two) = (replica(&url).await, replica(&url).await);
    let (first, second) = (one.client(), two.client());
    // What waits with the first, and what it was working at, goes on with the second.
    let waiting = first.task("ask", json!({})).await;
    let working = first.task("nap", nap(3000)).await;
    one.kill();
    second.accept(&waiting, "question", value("still here")).await.result();
    assert!(text(&second.status(&waiting, "completed").await["result"]).contains("still here"));
    assert_eq!(text(&second.status(&working, "completed").await["result"]), "slept 3000 ms");
}

#[tokio::test]
async fn a_replica_without_the_file_goes_on_with_the_task() {
    let url = database().await;
    let mut one = replica(&url).await;
    let waiting = one.client().task("ask", json!({})).await;
    one.client().status(&waiting, "input_required").await;
    // Another data folder, and no plugin at all: the component comes from the database.
    let two = Setup::new().config(CONFIG).store(&url).start().await;
    one.kill();
    let client: Client = two.client();
    client.accept(&waiting, "question", value("from nowhere")).await.result();
    assert!(text(&client.status(&waiting, "completed").await["result"]).contains("from nowhere"));
}
