//! A run that asks by multi round-trip requests is a row: it outlives its process, goes on at any, and is bounded.

use layby_tests::{Host, Setup, chameleon, eventually};
use serde_json::{Value, json};
use sqlx::{Connection as _, Executor as _, SqliteConnection};

use super::{accept, asked, got, plain, refused, retry};

/// Processes take over soon from dead ones.
const LEASES: &str = "[store]\nlease = \"1s\"\ntakeover = \"500ms\"";

#[tokio::test]
async fn a_run_outlives_its_process_in_each_round() {
    for linger in ["0s", "60s"] {
        let policy = format!("[call]\nlinger = \"{linger}\"");
        let mut host = Setup::probe(&policy).config(LEASES).start().await;
        let arguments = json!({ "rounds": 3, "at_once": 2, "key": "k" });
        let mut reply = plain(&host).call("ask", arguments.clone()).await;
        let mut states = Vec::new();
        for round in 0..3 {
            let (keys, state) = asked(&reply);
            assert_eq!(keys.len(), 2, "{round}");
            host.kill();
            host = host.restart().await;
            let client = plain(&host);
            // A part is kept over the restart, and the rest is asked again.
            let some = json!({ &keys[0]: accept(&format!("a{round}")) });
            let (left, rest) = asked(&retry(&client, &arguments, &state, some.clone()).await);
            assert_eq!(left, [keys[1].clone()]);
            host.kill();
            host = host.restart().await;
            let client = plain(&host);
            let other = json!({ &keys[0]: accept("other") });
            refused(&retry(&client, &arguments, &rest, other).await, "input_already_answered");
            let answers = json!({ &keys[1]: accept(&format!("b{round}")) });
            reply = retry(&client, &arguments, &rest, answers.clone()).await;
            states.push((rest, answers, json!({ &keys[1]: accept("other") })));
        }
        let end = reply;
        let values: Vec<Value> =
            (0..3).flat_map(|n| [format!("a{n}"), format!("b{n}")]).map(|v| json!({ "value": v })).collect();
        assert_eq!(got(&end)["answers"], json!(values));
        // The outcome and the rule that answers count once outlive the process as well.
        host.kill();
        let host = host.restart().await;
        let client = plain(&host);
        let (state, answers, other) = &states[2];
        assert_eq!(retry(&client, &arguments, state, answers.clone()).await.result(), end.result());
        refused(&retry(&client, &arguments, state, other.clone()).await, "input_already_answered");
        let (state, answers, _) = &states[0];
        refused(&retry(&client, &arguments, state, answers.clone()).await, "input_already_answered");
        assert_eq!(host.tasks().await.len(), 1, "one run");
        // The key outlived the process: a forged state is told from a good one.
        refused(&retry(&client, &arguments, &format!("{state}x"), json!({})).await, "request_state_invalid");
    }
}

#[tokio::test]
async fn prompts_and_resources_outlive_their_process() {
    let prompts = json!([{ "name": "asks" }]);
    let resources = json!([{ "uri": "test://asks", "name": "asks" }]);
    let bytes = chameleon::with_all("1", &Value::Null, &prompts, &resources, &Value::Null);
    let policy = "prefix = \"pre_\"\n[grants]\nask = [\"form\"]";
    let setup = Setup::new().file("chameleon", &bytes, policy);
    let mut host = setup.config(LEASES).start().await;
    let (prompt, resource) = (json!({ "name": "pre_asks" }), json!({ "uri": "test://asks" }));
    let mut states = Vec::new();
    for (method, params) in [("prompts/get", &prompt), ("resources/read", &resource)] {
        states.push(asked(&plain(&host).request(method, params.clone()).await).1);
    }
    host.kill();
    let host = host.restart().await;
    let client = plain(&host);
    for ((method, mut params), state) in
        [("prompts/get", prompt), ("resources/read", resource)].into_iter().zip(states)
    {
        params["requestState"] = json!(state);
        params["inputResponses"] = json!({ "question": accept("Ada") });
        let end = client.request(method, params.clone()).await;
        assert!(end.result().to_string().contains("Ada"), "{method}: {}", end.message);
        assert_eq!(client.request(method, params).await.result(), end.result());
    }
}

#[tokio::test]
async fn any_process_on_the_store_goes_on_with_it() {
    let one = Setup::probe("[call]\nlinger = \"60s\"").config(LEASES).start().await;
    let two = one.beside().await;
    let arguments = json!({ "rounds": 4 });
    let mut reply = plain(&one).call("ask", arguments.clone()).await;
    let mut last = None;
    for (round, host) in [&two, &one, &two, &one].into_iter().enumerate() {
        let (keys, state) = asked(&reply);
        let answers = json!({ &keys[0]: accept(&format!("{round}")) });
        reply = retry(&plain(host), &arguments, &state, answers.clone()).await;
        // An equal repeat anywhere comes to the same.
        last = Some((state.clone(), answers.clone()));
        let again =
            retry(&plain(if round % 2 == 0 { &one } else { &two }), &arguments, &state, answers).await;
        assert_eq!(again.result()["content"], reply.result()["content"]);
        assert_eq!(again.result()["inputRequests"], reply.result()["inputRequests"]);
        refused(
            &retry(&plain(&one), &arguments, &state, json!({ &keys[0]: accept("other") })).await,
            "input_already_answered",
        );
    }
    let values: Vec<Value> = (0..4).map(|v| json!({ "value": format!("{v}") })).collect();
    assert_eq!(got(&reply)["answers"], json!(values));
    let (state, answers) = last.unwrap();
    assert_eq!(retry(&plain(&two), &arguments, &state, answers).await.result(), reply.result());
}

#[tokio::test]
async fn differing_answers_at_two_processes_at_once_are_taken_once() {
    let one = Setup::probe("[call]\nlinger = \"0s\"").config(LEASES).start().await;
    let two = one.beside().await;
    for n in 0..5 {
        let arguments = json!({ "message": format!("m{n}") });
        let (_, state) = asked(&plain(&one).call("ask", arguments.clone()).await);
        let (first, second) = (plain(&one), plain(&two));
        let (a, b) = tokio::join!(
            retry(&first, &arguments, &state, json!({ "question": accept("a") })),
            retry(&second, &arguments, &state, json!({ "question": accept("b") })),
        );
        let (won, lost, value) = if a.message["error"].is_null() { (a, b, "a") } else { (b, a, "b") };
        refused(&lost, "input_already_answered");
        assert_eq!(got(&won)["answers"], json!([{ "value": value }]));
    }
}

#[tokio::test]
async fn a_waiting_run_is_a_row_and_no_instance() {
    // No more than one run may wait with its instance: the others wait all the same.
    let config = format!("{LEASES}\n[host]\nwaiting = 1");
    let host = Setup::probe("[call]\nlinger = \"60s\"\n[limits]\nparked = 1").config(&config).start().await;
    let client = plain(&host);
    let arguments = |n: usize| json!({ "message": format!("m{n}") });
    let mut states = Vec::new();
    for n in 0..20 {
        states.push(asked(&client.call("ask", arguments(n)).await).1);
    }
    eventually("all but one are parked", || async {
        let rows = host.tasks().await;
        (rows.iter().filter(|row| row["parked"] == true).count() == 19).then_some(())
    })
    .await;
    for (n, state) in states.iter().enumerate() {
        let end = retry(&client, &arguments(n), state, json!({ "question": accept("x") })).await;
        assert_eq!(got(&end)["count"], 1, "{n}");
    }
    // After `linger` none keeps its instance.
    let host = Setup::probe("[call]\nlinger = \"0s\"").start().await;
    let (_, state) = asked(&plain(&host).call("ask", arguments(0)).await);
    eventually("it is parked", || async { (host.tasks().await[0]["parked"] == true).then_some(()) }).await;
    got(&retry(&plain(&host), &arguments(0), &state, json!({ "question": accept("x") })).await);
}

#[tokio::test]
async fn runs_that_wait_are_bounded() {
    let config = format!("{LEASES}\n[host]\nmrtr-waiting = 3\nmrtr-waiting-each = 2");
    let mut host = Setup::probe("").config(&config).start().await;
    let arguments = |n: usize| json!({ "message": format!("m{n}") });
    let other = |host: &Host| plain(host).header("x-forwarded-for", "192.0.2.1");
    let mut states = Vec::new();
    for n in 0..2 {
        states.push(asked(&plain(&host).call("ask", arguments(n)).await).1);
    }
    // The bound is on rows.
    host.kill();
    let host = host.restart().await;
    let full = plain(&host).call("ask", arguments(2)).await;
    assert_eq!((full.rpc(), full.code()), (-32603, "too_many_waiting"));
    assert_eq!(full.message["error"]["data"]["name"], "host.mrtr-waiting-each");
    asked(&other(&host).call("ask", arguments(3)).await);
    let full = other(&host).call("ask", arguments(4)).await;
    assert_eq!(full.message["error"]["data"]["name"], "host.mrtr-waiting", "{}", full.message);
    // A run that ends makes room.
    got(&retry(&plain(&host), &arguments(0), &states[0], json!({ "question": accept("x") })).await);
    asked(&plain(&host).call("ask", arguments(5)).await);
    assert_eq!(host.tasks().await.len(), 4, "what was refused left nothing");
}

#[tokio::test]
async fn a_store_that_takes_nothing_holds_the_call() {
    let config = "[store]\nbusy-timeout = \"500ms\"\nlease = \"60s\"";
    for (hold, comes) in [("20s", true), ("3s", false)] {
        let host = Setup::probe(&format!("[call]\ndeadline = \"500ms\"\nhold = \"{hold}\""))
            .config(config)
            .start()
            .await;
        let options =
            sqlx::sqlite::SqliteConnectOptions::new().filename(host.setup().data().join("layby.db"));
        let mut lock = SqliteConnection::connect_with(&options).await.unwrap();
        lock.execute("BEGIN IMMEDIATE").await.unwrap();
        let client = plain(&host);
        let call = tokio::spawn(async move { client.call("ask", json!({})).await });
        eventually("a question that cannot be kept", || async {
            host.log().contains("a question cannot be kept").then_some(())
        })
        .await;
        if comes {
            lock.execute("ROLLBACK").await.unwrap();
            let (_, state) = asked(&call.await.unwrap());
            let answers = json!({ "question": accept("x") });
            assert_eq!(got(&retry(&plain(&host), &json!({}), &state, answers).await)["count"], 1);
        } else {
            let reply = call.await.unwrap();
            assert_eq!((reply.rpc(), reply.code()), (-32603, "store_locked"), "{}", reply.message);
            lock.execute("ROLLBACK").await.unwrap();
        }
        let rows: i64 = host.setup().database().counts().await.iter().map(|count| count.tasks).sum();
        assert_eq!(rows, i64::from(comes), "one run, one row");
    }
}

/// A client that leaves before it has the state leaves nothing that waits: nobody could come back to it.
#[tokio::test]
async fn a_question_that_nobody_got_does_not_wait() {
    // The commit has failed once and is to be tried again; or it is under way for as long as the lock is there.
    for (busy, under_way) in [("300ms", false), ("20s", true)] {
        let config = format!("[store]\nbusy-timeout = \"{busy}\"\nlease = \"60s\"");
        let host =
            Setup::probe("[call]\ngrace = \"100ms\"").config(&config).arg("--log").arg("debug").start().await;
        let options =
            sqlx::sqlite::SqliteConnectOptions::new().filename(host.setup().data().join("layby.db"));
        let mut lock = SqliteConnection::connect_with(&options).await.unwrap();
        lock.execute("BEGIN IMMEDIATE").await.unwrap();
        let client = plain(&host);
        let call = tokio::spawn(async move { client.call("ask", json!({})).await });
        let waits = if under_way { "asks question" } else { "a question cannot be kept" };
        eventually(waits, || async { host.log().contains(waits).then_some(()) }).await;
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
        if !under_way {
            eventually("the run's end", || async { host.log().contains("cancelled").then_some(()) }).await;
        }
        lock.execute("ROLLBACK").await.unwrap();
        eventually("nothing waits", || async {
            let rows = host.tasks().await;
            let ended = rows.iter().all(|row| row["status"] == "cancelled");
            (rows.len() == usize::from(under_way) && ended).then_some(())
        })
        .await;
    }
}
