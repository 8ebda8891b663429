//! What plugins have beside tools: prompts, resources and templates in the catalog and its lists. Owned,
//! refused and hot loaded as tools are (P9).

use std::{fs, time::Duration};

use futures::StreamExt as _;
use layby_tests::{Client, Host, Setup, chameleon, command, eventually, host::replace, text};
use serde_json::{Value, json};

/// The four lists: method, member of the result, and what names an item.
const LISTS: [(&str, &str, &str); 4] = [
    ("tools/list", "tools", "name"),
    ("prompts/list", "prompts", "name"),
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate"),
];

fn names(items: &Value, key: &str) -> Vec<String> {
    items.as_array().unwrap().iter().map(|item| item[key].as_str().unwrap().to_owned()).collect()
}

/// All four lists, by names; each in one page.
async fn listed(client: &Client) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for (method, member, key) in LISTS {
        let reply = client.request(method, json!({})).await;
        let result = reply.result();
        assert_eq!(
            (&result["ttlMs"], &result["cacheScope"], &result["resultType"]),
            (&json!(5000), &json!("public"), &json!("complete")),
            "{method}: {result}"
        );
        assert_eq!(result["nextCursor"], Value::Null, "{method}: {result}");
        all.push(names(&result[member], key));
    }
    all
}

async fn lists(client: &Client, wanted: [&[&str]; 4]) {
    eventually(&format!("the lists {wanted:?}"), || async { (listed(client).await == wanted).then_some(()) })
        .await;
}

/// A chameleon with one item of each kind.
fn one_of_each(version: &str, tool: &str, prompt: &str, uri: &str, template: &str) -> Vec<u8> {
    chameleon::with_all(
        version,
        &json!([{ "name": tool, "description": "A tool." }]),
        &json!([{ "name": prompt }]),
        &json!([{ "uri": uri, "name": "a resource" }]),
        &json!([{ "uriTemplate": template, "name": "some resources" }]),
    )
}

/// The version of the plugin that reads `uri`.
async fn reader(client: &Client, uri: &str) -> Option<String> {
    let reply = client.request("resources/read", json!({ "uri": uri })).await;
    assert!(reply.message["result"].is_object() || reply.code() == "resource_unknown", "{}", reply.message);
    let answer: Value =
        serde_json::from_str(reply.message["result"]["contents"][0]["text"].as_str()?).unwrap();
    assert_eq!(answer["uri"], uri);
    answer["version"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn lists_are_one_over_all_plugins_in_a_stable_order() {
    let host = Setup::new()
        .file("zeta", &one_of_each("z", "t1", "p2", "t://a/z", "t://a/{x}"), "")
        .file("alpha", &one_of_each("a", "t2", "p1", "t://a/a", "t://{+x}"), "prefix = \"a_\"")
        .start()
        .await;
    let wanted: [&[&str]; 4] =
        [&["a_t2", "t1"], &["a_p1", "p2"], &["t://a/a", "t://a/z"], &["t://a/{x}", "t://{+x}"]];
    lists(&host.client(), wanted).await;

    // Each says whose it is.
    for (method, member, _) in LISTS {
        let items = host.client().request(method, json!({})).await.result()[member].clone();
        let owners: Vec<&Value> =
            items.as_array().unwrap().iter().map(|i| &i["_meta"]["layby/plugin"]).collect();
        assert!(owners.contains(&&json!("alpha")) && owners.contains(&&json!("zeta")), "{items}");
    }
    // The operator sees them too.
    let alpha = host.plugin("alpha").await;
    assert_eq!(
        (&alpha["tools"], &alpha["prompts"], &alpha["resources"], &alpha["templates"]),
        (&json!(["a_t2"]), &json!(["a_p1"]), &json!(["t://a/a"]), &json!(["t://{+x}"]))
    );

    // Who reads: the one that lists the URI, else the first template that it fits.
    let host = host.restart().await;
    let client = host.client();
    lists(&client, wanted).await;
    for (uri, version) in [
        ("t://a/a", Some("a")),
        ("t://a/z", Some("z")),
        ("t://a/other", Some("z")),
        ("t://a/b/c", Some("a")),
        ("t://other", Some("a")),
        ("u://other", None),
    ] {
        assert_eq!(reader(&client, uri).await.as_deref(), version, "{uri}");
    }
}

#[tokio::test]
async fn lists_are_empty_where_no_plugin_has_any() {
    let host = Setup::new().config("[serve]\ninstructions = \"Ask before you delete.\"").start().await;
    let client = host.client();
    assert_eq!(listed(&client).await, [const { Vec::<String>::new() }; 4]);
    let discovered = client.request("server/discover", json!({})).await;
    assert_eq!(discovered.result()["instructions"], "Ask before you delete.");
    let host = Setup::new().start().await;
    let discovered = host.client().request("server/discover", json!({})).await;
    assert_eq!(discovered.result()["instructions"], Value::Null);
}

#[tokio::test]
async fn a_second_plugin_takes_no_name_of_the_first() {
    let host = Setup::new().file("zeta", &one_of_each("z", "t", "p", "t://r", "t://x/{a}"), "").start().await;
    let wanted: [&[&str]; 4] = [&["t"], &["p"], &["t://r"], &["t://x/{a}"]];
    let thieves = [
        ("alpha", one_of_each("a", "t2", "p", "u://1", "u://1/{a}"), "the prompt name \"p\""),
        ("beta", one_of_each("b", "t3", "p3", "t://r", "u://2/{a}"), "the resource URI \"t://r\""),
        ("gamma", one_of_each("c", "t4", "p4", "u://3", "t://x/{a}"), "the URI template \"t://x/{a}\""),
    ];
    for (name, bytes, _) in &thieves {
        host.put(name, bytes, "");
    }
    let refused = async |host: &Host| {
        for (name, _, reason) in &thieves {
            let plugin = host.refusal(name, "plugin_name_taken").await;
            assert_eq!(plugin["state"], "refused");
            let said = plugin["refusal"]["reason"].as_str().unwrap();
            assert!(said.contains(reason) && said.contains("zeta"), "{name}: {said}");
        }
    };
    refused(&host).await;
    lists(&host.client(), wanted).await;
    // Also where the thieves would be read first.
    let host = host.restart().await;
    lists(&host.client(), wanted).await;
    refused(&host).await;
    // A prefix settles the clash of names, and the owner's leaving the others.
    replace(&host.setup().plugins().join("alpha.toml"), b"prefix = \"a_\"");
    lists(&host.client(), [&["a_t2", "t"], &["a_p", "p"], &["t://r", "u://1"], &["t://x/{a}", "u://1/{a}"]])
        .await;
    fs::remove_file(host.setup().plugins().join("zeta.wasm")).unwrap();
    let all: [&[&str]; 4] = [
        &["a_t2", "t3", "t4"],
        &["a_p", "p3", "p4"],
        &["t://r", "u://1", "u://3"],
        &["t://x/{a}", "u://1/{a}", "u://2/{a}"],
    ];
    lists(&host.client(), all).await;
}

/// A prompt, a resource or a template that is refused, by the code and a part of the reason.
fn refusals() -> Vec<(&'static str, Value, &'static str, &'static str)> {
    let prompt = |prompt: Value| json!({ "prompts": [prompt] });
    let resource = |resource: Value| json!({ "resources": [resource] });
    let template = |template: Value| json!({ "templates": [template] });
    vec![
        ("name", prompt(json!({ "name": "a b" })), "plugin_bad_prompt", "not a prompt name"),
        (
            "argument",
            prompt(json!({ "name": "a", "arguments": [{ "name": "x" }, { "name": "x" }] })),
            "plugin_bad_prompt",
            "two arguments",
        ),
        ("icons", prompt(json!({ "name": "a", "extra": { "icons": 3 } })), "plugin_bad_prompt", "icons"),
        ("relative", resource(json!({ "uri": "a/b", "name": "n" })), "plugin_bad_resource", "not absolute"),
        ("nameless", resource(json!({ "uri": "a:b", "name": "" })), "plugin_bad_resource", "name is empty"),
        (
            "priority",
            resource(json!({ "uri": "a:b", "name": "n", "extra": { "annotations": { "priority": 7 } } })),
            "plugin_bad_resource",
            "priority",
        ),
        (
            "open",
            template(json!({ "uriTemplate": "a:{b", "name": "n" })),
            "plugin_bad_resource",
            "never closed",
        ),
        (
            "huge",
            template(json!({ "uriTemplate": "a:{b:9999}", "name": "n" })),
            "plugin_bad_resource",
            "too much to match",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_item_is_refused_whole_and_displaces_nothing() {
    let mut setup = Setup::new().config("[catalog]\nmax-prompts = 2");
    for (name, ..) in refusals() {
        setup = setup.file(name, &chameleon::version("1", name), "");
    }
    let host = setup.start().await;
    let many = json!([{ "name": "p1" }, { "name": "p2" }, { "name": "p3" }]);
    host.put("many", &chameleon::with_catalog(&json!({ "list": "ok", "prompts": many })), "");
    for (name, mut catalog, ..) in refusals() {
        catalog["list"] = "ok".into();
        catalog["tools"] = json!([{ "name": name, "description": "A tool." }]);
        replace(&host.setup().plugins().join(format!("{name}.wasm")), &chameleon::with_catalog(&catalog));
    }
    for (name, _, code, part) in refusals() {
        let plugin = host.refusal(name, code).await;
        assert_eq!(plugin["state"], "serving, newer refused", "{plugin}");
        let reason = plugin["refusal"]["reason"].as_str().unwrap();
        assert!(reason.contains(part), "{name}: {reason}");
    }
    let many = host.refusal("many", "plugin_too_large").await;
    assert!(many["refusal"]["reason"].as_str().unwrap().contains("max-prompts"), "{many}");
    let mut tools: Vec<&str> = refusals().iter().map(|(name, ..)| *name).collect();
    tools.sort_unstable();
    assert_eq!(listed(&host.client()).await, [tools, vec![], vec![], vec![]]);
}

#[tokio::test]
async fn a_walk_through_pages_stays_right_while_a_plugin_goes() {
    let items = |n: u32, key: &str, form: &str| -> Value {
        (1..=3)
            .map(|i| json!({ key: form.replace('#', &format!("{n}{i}")), "name": format!("n{n}{i}") }))
            .collect()
    };
    let plugin = |n: u32| {
        let tools = items(n, "description", "A tool.");
        let prompts = items(n, "description", "A prompt.");
        chameleon::with_all(
            "1",
            &tools,
            &prompts,
            &items(n, "uri", "t://#"),
            &items(n, "uriTemplate", "t://#/{x}"),
        )
    };
    let mut setup = Setup::new().config("[serve]\npage-size = 2");
    for n in 1..=3 {
        setup = setup.file(&format!("p{n}"), &plugin(n), "");
    }
    let host = setup.start().await;
    let client = host.client();
    let page = async |method: &str, cursor: Option<&Value>| {
        let params = cursor.map_or(json!({}), |cursor| json!({ "cursor": cursor }));
        client.request(method, params).await.result().clone()
    };
    // Two pages of each, so that the second ends in the middle of the plugin that goes.
    let mut walks = Vec::new();
    for (method, member, key) in LISTS {
        let first = page(method, None).await;
        let second = page(method, Some(&first["nextCursor"])).await;
        assert_eq!(page(method, Some(&first["nextCursor"])).await, second, "a cursor can be used again");
        let met = [names(&first[member], key), names(&second[member], key)].concat();
        assert_eq!(met.len(), 4, "{method}: {met:?}");
        walks.push((met, second["nextCursor"].clone()));
    }
    fs::remove_file(host.setup().plugins().join("p2.wasm")).unwrap();
    eventually("the plugin is gone", || async { (host.plugin("p2").await == Value::Null).then_some(()) })
        .await;
    for ((method, member, key), (mut met, mut cursor)) in LISTS.into_iter().zip(walks) {
        while !cursor.is_null() {
            let next = page(method, Some(&cursor)).await;
            met.extend(names(&next[member], key));
            cursor = next["nextCursor"].clone();
        }
        let tails: Vec<String> =
            met.iter().map(|name| name.chars().filter(char::is_ascii_digit).collect()).collect();
        assert_eq!(tails, ["11", "12", "13", "21", "31", "32", "33"], "{method}: {met:?}");
    }
    // A cursor of another list is none of this one.
    let cursor = page("prompts/list", None).await["nextCursor"].clone();
    for (method, cursor) in
        [("tools/list", cursor), ("prompts/list", json!("?")), ("prompts/list", json!(""))]
    {
        let refused = client.request(method, json!({ "cursor": cursor })).await;
        assert_eq!((refused.rpc(), refused.code()), (-32602, "cursor_unknown"), "{}", refused.message);
    }
    // What is no text is not taken for no cursor: the walk would begin anew for ever.
    for (method, ..) in LISTS {
        for cursor in [json!(5), json!({})] {
            let refused = client.request(method, json!({ "cursor": cursor })).await;
            assert_eq!((refused.rpc(), refused.code()), (-32602, "params_invalid"), "{}", refused.message);
        }
    }
}

/// The next message of a stream, which is on its way.
async fn next(stream: &mut (impl futures::Stream<Item = Value> + Unpin)) -> Value {
    let next = tokio::time::timeout(layby_tests::wait::BOUND, stream.next()).await;
    next.expect("a message comes in time").expect("the stream is open")
}

#[tokio::test]
async fn what_a_plugin_says_has_changed_is_told_also_where_it_is_equal() {
    let host = Setup::probe("").start().await;
    let client = host.client();
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let mut changes = client.stream("subscriptions/listen", filter).await;
    next(&mut changes).await;
    let before = listed(&client).await;
    for times in [1, 1000] {
        let said = client.apart().call("changed", json!({ "what": ["tools"], "times": times })).await;
        assert!(text(said.result()).contains("said"), "{}", said.message);
        assert_eq!(next(&mut changes).await["method"], "notifications/tools/list_changed");
    }
    assert_eq!(listed(&client).await, before);
    // However often it says so at once, it is listed, and told, once; or twice, where a listing had begun.
    let mut more = 0;
    while tokio::time::timeout(Duration::from_millis(1500), changes.next()).await.is_ok() {
        more += 1;
    }
    assert!(more <= 1, "told {more} times more");
}

#[tokio::test]
async fn subscribers_hear_of_exactly_the_lists_that_changed() {
    let file = |prompt: &str, template: &str, tool: &str| one_of_each("1", tool, prompt, "t://r", template);
    let host = Setup::new().file("pet", &file("p", "t://a/{x}", "t"), "").plugin("probe", "").start().await;
    let client = host.client();
    let filter =
        json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true });
    let mut changes = client.stream("subscriptions/listen", json!({ "notifications": filter })).await;
    assert_eq!(next(&mut changes).await["params"]["notifications"], filter);
    let path = host.setup().plugins().join("pet.wasm");
    for (bytes, told) in [
        (file("q", "t://a/{x}", "t"), "notifications/prompts/list_changed"),
        (file("q", "t://b/{x}", "t"), "notifications/resources/list_changed"),
        (file("q", "t://b/{x}", "u"), "notifications/tools/list_changed"),
    ] {
        replace(&path, &bytes);
        // The next message is this one: nothing else was told before it.
        assert_eq!(next(&mut changes).await["method"], told);
    }
    client.apart().call("changed", json!({ "what": ["resources"] })).await.result();
    assert_eq!(next(&mut changes).await["method"], "notifications/resources/list_changed");
    fs::remove_file(&path).unwrap();
    let mut told = Vec::new();
    for _ in 0..3 {
        told.push(next(&mut changes).await["method"].as_str().unwrap().to_owned());
    }
    told.sort_unstable();
    let all = ["prompts", "resources", "tools"].map(|list| format!("notifications/{list}/list_changed"));
    assert_eq!(told, all);
}

#[tokio::test]
async fn inspect_shows_everything_that_a_plugin_lists() {
    let setup = Setup::new();
    let file = setup.root().join("all.wasm");
    let prompt = json!([{ "name": "p", "arguments": [{ "name": "x", "required": true }] }]);
    let resource = json!([{ "uri": "t://r", "name": "r", "size": 7 }]);
    let template = json!([{ "uriTemplate": "t://{x}", "name": "t" }]);
    let tool = json!([{ "name": "tool", "description": "A tool." }]);
    fs::write(&file, chameleon::with_all("1", &tool, &prompt, &resource, &template)).unwrap();
    let seen = command::run(command::layby(setup.root(), ["inspect", "all.wasm", "--json"])).await;
    let json = seen.json();
    assert_eq!(seen.code, Some(0), "{json}");
    assert_eq!(json["interfaces"], json!(["tools", "prompts", "resources", "completions"]));
    assert_eq!(json["prompts"][0]["arguments"][0]["required"], true, "{json}");
    assert_eq!((&json["resources"][0]["uri"], &json["resources"][0]["size"]), (&json!("t://r"), &json!(7)));
    assert_eq!(json["templates"][0]["uriTemplate"], "t://{x}", "{json}");
    let shown = command::run(command::layby(setup.root(), ["inspect", "all.wasm"])).await;
    for part in ["tool tool", "prompt p", "argument x (required)", "resource t://r", "template t://{x}"] {
        assert!(shown.out.contains(part), "{part}: {}", shown.out);
    }
    // What a host would refuse, by the host's own checks.
    let broken = json!([{ "uriTemplate": "t://{", "name": "t" }]);
    fs::write(&file, chameleon::with_all("1", &tool, &prompt, &resource, &broken)).unwrap();
    let refused = command::run(command::layby(setup.root(), ["inspect", "all.wasm", "--json"])).await;
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert_eq!(refused.json()["refusals"][0]["code"], "plugin_bad_resource", "{refused:?}");
    assert_eq!(refused.json()["tools"][0]["name"], "tool", "what it lists is shown all the same");
}
