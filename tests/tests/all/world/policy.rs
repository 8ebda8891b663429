//! The policy that is in force when something is done live decides, with the one that the run began with: for each kind of
//! grant, for a run that has parked and for one that has kept its instance.

use std::fs;

use layby_tests::{Host, Recorder, Setup, client::Client, eventually, text};
use serde_json::{Value, json};

use super::Parked;

/// One rule: what is granted when the run begins, and when it goes on.
struct Rule {
    name: &'static str,
    grants: String,
    /// None where the plugin is removed.
    later: Option<String>,
    tool: &'static str,
    arguments: Value,
    /// What stands in the tool's answer.
    says: Vec<&'static str>,
    /// What the server has seen in the end.
    sent: Vec<&'static str>,
}

impl Rule {
    fn of(name: &'static str, grants: &str, later: &str, tool: &'static str, arguments: Value) -> Self {
        let later = Some(later.to_owned());
        Self { name, grants: grants.to_owned(), later, tool, arguments, says: Vec::new(), sent: Vec::new() }
    }

    fn gone(self) -> Self {
        Self { later: None, ..self }
    }

    fn says(self, says: &[&'static str]) -> Self {
        Self { says: says.to_vec(), ..self }
    }

    fn sent(self, sent: &[&'static str]) -> Self {
        Self { sent: sent.to_vec(), ..self }
    }

    fn policy(linger: &str, grants: &str) -> String {
        let call = format!("[call]\ndeadline = \"100ms\"\nlinger = \"{linger}\"");
        format!("# {linger}\n{call}\n[grants]\n{grants}")
    }

    async fn holds(self, server: &Recorder, setup: Setup, linger: &str) {
        let of = format!("{} ({linger})", self.name);
        let host = setup.plugin("probe", &Self::policy(linger, &self.grants)).start().await;
        let client = host.client();
        let id = client.task(self.tool, self.arguments.clone()).await;
        client.status(&id, "input_required").await;
        let task = Parked { host, id };
        if linger == "0s" {
            super::parked(&task.host, &task.id).await;
        }
        match &self.later {
            Some(later) => task.replace("probe", &Self::policy(linger, later)).await,
            None => gone(&task.host).await,
        }
        task.answer("yes").await;
        let ended = client
            .until(&task.id, "the end, or another question", |now| {
                now["status"] != "working" && !now["inputRequests"]["question"].is_object()
            })
            .await;
        if ended["status"] == "input_required" {
            task.answer("again").await;
        }
        let ended = client.status(&task.id, "completed").await;
        for says in &self.says {
            assert!(text(&ended["result"]).contains(says), "{of}: no {says}: {ended}");
        }
        assert_eq!(server.lines(), self.sent, "{of}");
    }
}

async fn gone(host: &Host) {
    fs::remove_file(host.setup().plugins().join("probe.wasm")).expect("the component");
    let client = host.client();
    eventually("the tools go", || async { client.tools().await.is_empty().then_some(()) }).await;
}

const FORM: &str = "ask = [\"form\"]";
const DENIED: &str = "HttpRequestDenied";

fn questions() -> Vec<Rule> {
    let urls = |ask: &str| format!("ask = [\"url {ask}\"]");
    let ask = |kind: &str| json!({ "kind": kind, "rounds": 2, "url": "https://example.com/a/b" });
    let one = ["\"count\":1", "cannot answer"];
    let wide = urls("https://");
    vec![
        Rule::of("a form that is granted no more", FORM, "", "ask", ask("form")).says(&one),
        Rule::of("a form of a plugin that is gone", FORM, "", "ask", ask("form")).gone().says(&one),
        Rule::of("a form where another kind is granted", FORM, &wide, "ask", ask("form")).says(&one),
        Rule::of("a URL that is granted no more", &wide, &urls("https://other.example/"), "ask", ask("url"))
            .says(&one),
        Rule::of(
            "a URL that a narrower grant has",
            &wide,
            &urls("https://example.com/a/"),
            "ask",
            ask("url"),
        )
        .says(&["\"count\":2", "null"]),
        Rule::of("a URL that a wider grant has", &urls("https://example.com/a"), &wide, "ask", ask("url"))
            .says(&["\"count\":2", "null"]),
    ]
}

fn requests(server: &Recorder) -> Vec<Rule> {
    let origin = server.origin();
    let http = |allow: &str| format!("{FORM}\nhttp = [{{ allow = \"{allow}\" }}]");
    let fetch = |path: &str| {
        json!({ "ask": true, "nap_ms": 50, "requests": [
            { "url": format!("{origin}/one") }, { "url": format!("{origin}{path}") },
        ] })
    };
    let all = http(&format!("* {origin}/*"));
    let rule = |name, later: &str, path: &str| Rule::of(name, &all, later, "fetch", fetch(path));
    let denied = |rule: Rule| rule.says(&["ok 1", DENIED]).sent(&["GET /one"]);
    let allowed = |rule: Rule| rule.says(&["ok 1", "ok 2"]).sent(&["GET /one", "GET /v1/two"]);
    vec![
        denied(rule("a request that is granted no more", FORM, "/two")),
        denied(rule("a request of a plugin that is gone", "", "/two").gone()),
        denied(rule("a path that is granted no more", &http(&format!("* {origin}/v1/*")), "/two")),
        denied(rule("a method that is granted no more", &http(&format!("POST {origin}/*")), "/two")),
        allowed(rule("a path that a narrower grant has", &http(&format!("GET {origin}/v1/*")), "/v1/two")),
    ]
}

fn variables(server: &Recorder) -> Vec<Rule> {
    let http = format!("http = [{{ allow = \"* {}/*\" }}]", server.origin());
    let grants = |env: &str| format!("{FORM}\n{http}\n{env}");
    let get = |path: &str| {
        let headers = json!({ "authorization": "Bearer {layby-secret:TOKEN}" });
        json!({ "url": format!("{}/{path}", server.origin()), "headers": headers })
    };
    let fetch = json!({ "ask": true, "nap_ms": 50, "requests": [get("one"), get("two")] });
    let secret = "env = { TOKEN = { secret = \"LAYBYTEST_ONE\" } }";
    let other = "env = { TOKEN = { secret = \"LAYBYTEST_TWO\" } }";
    let denied = |rule: Rule| rule.says(&["ok 1", DENIED]).sent(&["GET /one"]);
    let env = json!({ "steps": [
        { "do": "variable", "path": "REGION" }, { "do": "setting", "path": "units" }, { "do": "ask" },
        { "do": "variable", "path": "REGION" }, { "do": "setting", "path": "units" },
    ] });
    let plain = "ask = [\"form\"]\nenv = { REGION = \"eu\" }\nconfig = { units = \"metric\" }";
    let began = "[\"eu\",\"metric\",\"ok\",\"eu\",\"metric\"]";
    let changed = "ask = [\"form\"]\nenv = { REGION = \"us\" }\nconfig = { units = \"imperial\" }";
    vec![
        denied(Rule::of(
            "a secret that is granted no more",
            &grants(secret),
            &grants(""),
            "fetch",
            fetch.clone(),
        )),
        denied(Rule::of("a secret of another source", &grants(secret), &grants(other), "fetch", fetch)),
        // What a guest has been told it knows: nothing of it is asked for again.
        Rule::of("variables and values that are others now", plain, changed, "steps", env.clone())
            .says(&[began]),
        Rule::of("variables and values that are gone", plain, FORM, "steps", env.clone()).says(&[began]),
        Rule::of("variables and values of a plugin that is gone", plain, "", "steps", env)
            .gone()
            .says(&[began]),
    ]
}

fn folders(setup: &Setup) -> Vec<Rule> {
    let grants = |write: bool| format!("{FORM}\nfiles = [{}]", setup.grant(write));
    let steps = json!({ "steps": [
        { "do": "read", "path": "/files/note" }, { "do": "ask" }, { "do": "read", "path": "/files/note" },
        { "do": "append", "path": "/files/note", "text": "!" }, { "do": "remove", "path": "/files/note" },
    ] });
    let denied = "error: PermissionDenied";
    let both = [&format!("[\"note\",\"ok\",\"{denied}\",\"{denied}\",\"{denied}\"]")[..]].map(leak);
    let writes = [&format!("[\"note\",\"ok\",\"note\",\"{denied}\",\"{denied}\"]")[..]].map(leak);
    let rule = |name, began: bool, later: &str| Rule::of(name, &grants(began), later, "steps", steps.clone());
    vec![
        rule("a folder that is granted no more", true, FORM).says(&both),
        rule("a folder to read that is granted no more", false, FORM).says(&both),
        rule("a folder of a plugin that is gone", true, "").gone().says(&both),
        rule("a folder that may only be read now", true, &grants(false)).says(&writes),
        rule("a folder that may be changed only now", false, &grants(true)).says(&writes),
    ]
}

fn leak(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

/// Each of the rules, whether the run has an instance or not when the policy changes.
async fn all_hold(rules: impl Fn(&Recorder, &Setup) -> Vec<Rule>) {
    for linger in ["0s", "60s"] {
        let count = {
            let server = Recorder::start().await;
            rules(&server, &Setup::new()).len()
        };
        for n in 0..count {
            let server = Recorder::start().await;
            let setup = Setup::new().env("LAYBYTEST_ONE", "one").env("LAYBYTEST_TWO", "two");
            fs::write(setup.files().join("note"), "note").expect("a file");
            let rule = rules(&server, &setup).swap_remove(n);
            rule.holds(&server, setup, linger).await;
        }
    }
}

#[tokio::test]
async fn questions_are_put_by_the_policy_of_now() {
    all_hold(|_, _| questions()).await;
}

#[tokio::test]
async fn requests_are_sent_by_the_policy_of_now() {
    all_hold(|server, _| requests(server)).await;
}

#[tokio::test]
async fn secrets_are_sent_by_the_policy_of_now_and_variables_stay() {
    all_hold(|server, _| variables(server)).await;
}

#[tokio::test]
async fn folders_are_used_by_the_policy_of_now() {
    all_hold(|_, setup| folders(setup)).await;
}

/// A client without tasks that answers forms.
fn plain(host: &Host) -> Client {
    host.client_with(json!({ "elicitation": { "form": {} } }))
}

fn early(arguments: &Value, state: Option<&Value>, key: &str) -> Value {
    let answers = json!({ key: { "action": "accept", "content": { "value": "early" } } });
    let mut params = json!({ "name": "ask", "arguments": arguments, "inputResponses": answers });
    if let Some(state) = state {
        params["requestState"] = state.clone();
    }
    params
}

#[tokio::test]
async fn an_answer_that_came_early_is_not_taken_once_its_question_may_not_be_put() {
    let policy = |grants: &str| format!("[call]\npre-answers = true\n[grants]\n{grants}");
    let host = Setup::new().plugin("probe", &policy(FORM)).start().await;
    let client = plain(&host);
    let arguments = json!({ "before_ms": 5000, "key": "k" });
    let params = early(&arguments, None, "k");
    let call = tokio::spawn({
        let (client, params) = (client.clone(), params.clone());
        async move { client.request("tools/call", params).await }
    });
    let task = Parked { host, id: String::new() };
    task.replace("probe", &policy("")).await;
    assert!(!call.is_finished(), "it had no time to sleep");
    let reply = call.await.expect("an answer");
    assert!(text(reply.result()).contains("\"count\":0"), "{}", reply.message);
}

#[tokio::test]
async fn a_round_that_was_put_is_answered_and_the_next_is_not_put() {
    for linger in ["0s", "60s"] {
        let policy = |grants: &str| format!("[call]\nlinger = \"{linger}\"\n[grants]\n{grants}");
        let host = Setup::new().plugin("probe", &policy(FORM)).start().await;
        let client = plain(&host);
        let arguments = json!({ "rounds": 2, "key": "k" });
        let reply = client.call("ask", arguments.clone()).await;
        let state = reply.result()["requestState"].clone();
        let task = Parked { host, id: String::new() };
        task.replace("probe", &policy("")).await;
        // It comes before and after the grant is gone.
        let reply = client.request("tools/call", early(&arguments, Some(&state), "k")).await;
        let said = text(reply.result());
        assert!(said.contains("\"count\":1") && said.contains("cannot answer"), "{}", reply.message);
    }
}
