//! Components that know nothing of Layby: their functions are tools like any other.

use layby_tests::{Setup, result_code, text};
use serde_json::{Value, json};

/// The guest `plain`, with this policy.
fn plain(policy: &str) -> Setup {
    Setup::new().plugin("plain", policy)
}

/// A component of a text: one core function `f`, lifted as the tool `name`. No language made it.
fn lifted(name: &str, kind: &str, core: &str) -> Vec<u8> {
    let text = format!(
        r#"(component
            (core module $m (func (export "f") {core}))
            (core instance $i (instantiate $m))
            (func $f {kind} (canon lift (core func $i "f")))
            (export {name:?} (func $f)))"#
    );
    wat::parse_str(text).unwrap()
}

fn found<'a>(tools: &'a [Value], name: &str) -> &'a Value {
    tools.iter().find(|t| t["name"] == name).unwrap_or_else(|| panic!("no {name} in {tools:?}"))
}

#[tokio::test]
async fn every_function_is_a_tool_with_its_documentation() {
    let host = plain("").start().await;
    let tools = host.client().tools().await;
    let mut names: Vec<_> = tools.iter().map(|t| t["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    let expected = [
        "add_all",
        "divide",
        "fall",
        "halve",
        "nap",
        "perhaps",
        "read_file",
        "repeat",
        "reverse_bytes",
        "shapes_area_of",
        "shapes_middle",
        "shapes_redraw",
        "spin",
        "take_memory",
    ];
    assert_eq!(names, expected);
    let halve = found(&tools, "halve");
    assert_eq!(halve["description"], "Halves a number.");
    assert!(halve.get("annotations").is_none(), "{halve}");
    let number = &halve["inputSchema"]["properties"]["number"];
    assert_eq!(
        (&number["type"], &number["maximum"]),
        (&json!(["integer", "string"]), &json!((1_u64 << 53) - 1))
    );
    assert_eq!(halve["outputSchema"]["required"], json!(["result"]));
    let area = found(&tools, "shapes_area_of");
    assert_eq!(area["description"], "Gives the area of a shape.\n\nAn empty shape has none.");
    let shape = &area["inputSchema"]["properties"]["shape"];
    assert_eq!((&shape["description"], &shape["maxProperties"]), (&json!("What can be drawn."), &json!(1)));
    let circle = &shape["properties"]["circle"];
    assert_eq!(circle["description"], "A circle around a point.\n\nA circle.");
    assert_eq!(circle["properties"]["center"]["description"], "Its middle.\n\nA point of the plane.");
    assert_eq!(circle["properties"]["center"]["properties"]["x"]["description"], "To the right.");
    let drawing = found(&tools, "shapes_redraw");
    let style = &drawing["inputSchema"]["properties"]["drawing"]["properties"]["style"];
    assert_eq!(style["enum"], json!(["thin_line", "double_line"]));
    assert_eq!(
        style["description"],
        "The style of its lines.\n\nHow a line looks.\n\n- `thin_line`: One stroke.\n- `double_line`: Two strokes."
    );
    // Without words of its own: the signature, and what is said of the interface.
    let middle = found(&tools, "shapes_middle");
    assert_eq!(
        middle["description"],
        "Calls `middle(from_point: point, to_point: option<point>) -> point` of the interface \
         `acme:plain/shapes@1.2.0`.\n\nShapes, and what they measure."
    );
    assert_eq!(middle["inputSchema"]["required"], json!(["from_point"]));
    assert!(found(&tools, "spin").get("outputSchema").is_none());
}

#[tokio::test]
async fn values_go_in_and_come_out() {
    let host = plain("").start().await;
    let client = host.client();
    let drawing = json!({
        "title": "one \"drawing\"", "style": "double_line", "edges": ["top", "left_hand"],
        "shapes": [
            {"circle": {"center": {"x": 0.5, "y": -1e300}, "radius": 0.1}},
            {"corner_box": [{"x": "NaN", "y": "Infinity"}, {"x": "-Infinity", "y": 3.0}]},
            {"empty": null},
        ],
        "caption": "ü", "nested": {"some": null}, "last": {"ok": "9007199254740993"}, "initial": "😀",
    });
    let reply = client.call("shapes_redraw", json!({"drawing": drawing})).await;
    assert_eq!(reply.result()["structuredContent"], drawing);
    let same: Value = serde_json::from_str(text(reply.result())).unwrap();
    assert_eq!(same, drawing);
    assert_ne!(reply.result()["isError"], true);
    for (tool, arguments, result) in [
        ("add_all", json!({"numbers": [1, "2", -3, 4.0]}), json!({"result": 4})),
        ("add_all", json!({"numbers": ["9223372036854775807"]}), json!({"result": "9223372036854775807"})),
        ("add_all", json!({"numbers": ["-9223372036854775808"]}), json!({"result": "-9223372036854775808"})),
        ("add_all", json!({"numbers": []}), json!({"result": 0})),
        (
            "add_all",
            json!({"numbers": [-0.0, 9_007_199_254_740_991_u64, "0"]}),
            json!({"result": 9_007_199_254_740_991_u64}),
        ),
        ("divide", json!({"dividend": 1, "divisor": 0}), json!({"result": "Infinity"})),
        ("divide", json!({"dividend": "Infinity", "divisor": "-Infinity"}), json!({"result": "NaN"})),
        ("reverse_bytes", json!({"bytes": "AQID"}), json!({"result": "AwIB"})),
        ("reverse_bytes", json!({"bytes": [0, 255]}), json!({"result": "/wA="})),
        ("halve", json!({"number": "18446744073709551614"}), json!({"result": "9223372036854775807"})),
        ("shapes_middle", json!({"from_point": {"x": 4, "y": 2}}), json!({"x": 2.0, "y": 1.0})),
        (
            "shapes_area_of",
            json!({"shape": {"corner_box": [{"x": 0, "y": 0}, {"x": 2, "y": 3}]}}),
            json!({"result": 6.0}),
        ),
    ] {
        let reply = client.call(tool, arguments.clone()).await;
        assert_eq!(reply.result()["structuredContent"], result, "{tool} {arguments}: {}", reply.message);
    }
    // Near the limit on arguments; base64 of zeros.
    let large = "A".repeat(1_000_000);
    let reply = client.call("reverse_bytes", json!({"bytes": large})).await;
    assert_eq!(reply.result()["structuredContent"]["result"].as_str().map(str::len), Some(large.len()));
    let nothing = client.call("perhaps", json!({"well": true})).await;
    assert_eq!(text(nothing.result()), "done");
    assert!(nothing.result().get("structuredContent").is_none(), "{}", nothing.message);
}

#[tokio::test]
async fn errors_are_the_tools() {
    let host = plain("").start().await;
    let client = host.client();
    for (tool, arguments, said) in [
        ("halve", json!({"number": 3}), "odd_number"),
        ("halve", json!({"number": 0}), "zero"),
        ("perhaps", json!({"well": false}), "`perhaps` failed and gave no message"),
        ("shapes_area_of", json!({"shape": {"empty": null}}), r#"{"reason":"there is nothing","code":-7}"#),
    ] {
        let reply = client.call(tool, arguments).await;
        assert_eq!((&reply.result()["isError"], text(reply.result())), (&json!(true), said), "{tool}");
        assert!(reply.result().get("structuredContent").is_none(), "{}", reply.message);
    }
}

/// A drawing with one member changed.
fn drawing(member: &str, value: Value) -> Value {
    let mut drawing = json!({
        "title": "t", "style": "double_line", "edges": ["top"], "shapes": [{"empty": null}],
        "caption": null, "nested": null, "last": {"ok": 1}, "initial": "a",
    });
    drawing[member] = value;
    drawing
}

#[tokio::test]
async fn what_is_nothing_may_be_null_or_left_out() {
    let host = plain("").start().await;
    let client = host.client();
    let mut least = drawing("caption", Value::Null);
    for member in ["caption", "nested"] {
        let reply = client.call("shapes_redraw", json!({"drawing": least})).await;
        assert_ne!(reply.result()["isError"], true, "{}", reply.message);
        assert!(reply.result()["structuredContent"].get("caption").is_none(), "{}", reply.message);
        least.as_object_mut().unwrap().remove(member);
    }
    let reply = client.call("shapes_redraw", json!({"drawing": least})).await;
    assert_eq!(reply.result()["structuredContent"], least);
}

/// What no value of JSON's readers stands for, as text from a person.
#[tokio::test]
async fn odd_numbers_and_characters_are_refused_as_text() {
    let setup = plain("");
    drop(setup.command());
    for (tool, arguments, code, part) in [
        ("add_all", r#"{"numbers": [-9223372036854775809]}"#, 1, "give it as a string"),
        ("add_all", r#"{"numbers": [9007199254740993.0]}"#, 1, "give it as a string"),
        ("halve", r#"{"number": 18446744073709551616}"#, 1, "give it as a string"),
        ("halve", r#"{"number": 1e400}"#, 2, "out of range"),
        ("halve", r#"{"number": 2, "number": 4}"#, 2, "\"number\" stands there twice"),
        ("repeat", r#"{"text": "\ud800", "times": 1}"#, 2, "not JSON"),
        ("halve", r#"{"number": -0}"#, 1, "zero"),
    ] {
        let args = ["call", tool, arguments, "--plugins", "plugins", "--data", "data", "--json"];
        let done = layby_tests::command::run(layby_tests::command::layby(setup.root(), args)).await;
        assert_eq!(done.code, Some(code), "{arguments}: {done:?}");
        let told = done.json().to_string().replace("\\\"", "\"");
        assert!(told.contains(part), "{arguments}: {told}");
    }
}

/// What a component returns is no value of the type that it says: the caller is told who is to blame, once.
#[tokio::test]
async fn a_bad_value_is_told_as_the_components() {
    let text = r#"(component
        (type $t (enum "a" "b"))
        (export $e "mood" (type $t))
        (core module $m (func (export "f") (result i32) (i32.const 7)))
        (core instance $i (instantiate $m))
        (func $f (result $e) (canon lift (core func $i "f")))
        (export "how-now" (func $f)))"#;
    let host = Setup::new().file("moods", &wat::parse_str(text).unwrap(), "").start().await;
    let reply = host.client().call("how_now", json!({})).await;
    assert_eq!((reply.rpc(), reply.code()), (-32603, "plugin_trap"));
    let said = reply.message["error"]["message"].as_str().unwrap();
    assert!(said.contains("the component returned a bad value from the function `how-now`"), "{said}");
    assert_eq!(said.matches("discriminant 7").count(), 1, "{said}");
    assert_eq!(host.log().matches("discriminant 7 out of range").count(), 1, "{}", host.log());
}

/// Documentation that cannot be read costs nothing but itself, and the log says so.
#[tokio::test]
async fn bad_documentation_is_left_out_and_logged() {
    let text = |data: &str| {
        format!(
            r#"(component
                (core module $m (func (export "f")))
                (core instance $i (instantiate $m))
                (func $f (canon lift (core func $i "f")))
                (export "f" (func $f))
                (@custom "package-docs" "{data}"))"#
        )
    };
    let nested = format!("\\01{{\\22worlds\\22:{}", "[".repeat(900_000));
    let huge = format!("\\01{}", " ".repeat(1 << 20));
    let mut setup = Setup::new();
    let all = [("version", "\\63{}"), ("noise", "\\01nothing"), ("nested", &nested), ("huge", &huge)];
    for (name, data) in all {
        let policy = format!("prefix = \"{name}_\"");
        setup = setup.file(name, &wat::parse_str(text(data)).unwrap(), &policy);
    }
    let host = setup.start().await;
    let client = host.client();
    for (name, _) in all {
        let reply = client.call(&format!("{name}_f"), json!({})).await;
        assert_eq!(layby_tests::text(reply.result()), "done", "{name}: {}", reply.message);
    }
    let log = host.log();
    let told = log.lines().filter(|line| line.contains("package-docs") && line.contains("left out"));
    let told: Vec<_> = told.collect();
    for (name, _) in all {
        assert!(told.iter().any(|line| line.contains(name)), "{name}: {told:?}");
    }
}

#[tokio::test]
async fn wrong_arguments_never_reach_the_function() {
    let host = plain("").start().await;
    let client = host.client();
    for (tool, arguments, path) in [
        ("halve", json!({}), "number"),
        ("halve", json!({"number": -1}), "/number"),
        ("halve", json!({"number": 1, "more": 2}), "more"),
        ("halve", json!({"number": "x"}), "/number"),
        (
            "shapes_area_of",
            json!({"shape": {"circle": {"center": {"x": 1, "y": "a"}, "radius": 1}}}),
            "/shape/circle/center/y",
        ),
        ("shapes_area_of", json!({"shape": {"circle": null, "empty": null}}), "/shape"),
        ("shapes_area_of", json!({"shape": {"cicle": null}}), "/shape"),
        ("reverse_bytes", json!({"bytes": [256]}), "/bytes/0"),
        // Beyond what a number of JSON has exactly: some reader on the way may have rounded it.
        ("add_all", json!({"numbers": [0, -9_223_372_036_854_775_808.0]}), "/numbers/1: "),
        ("add_all", json!({"numbers": [9_007_199_254_740_992_u64]}), "give it as a string"),
        ("add_all", json!({"numbers": [i64::MIN]}), "give it as a string"),
        ("halve", json!({"number": u64::MAX}), "give it as a string"),
        ("halve", json!({"number": 1e300}), "give it as a string"),
        ("divide", json!({"dividend": "nan", "divisor": 1}), "/dividend"),
        ("shapes_redraw", json!({"drawing": drawing("initial", json!(""))}), "/drawing/initial"),
        ("shapes_redraw", json!({"drawing": drawing("initial", json!("ab"))}), "/drawing/initial"),
        ("shapes_redraw", json!({"drawing": drawing("edges", json!(["top", "top"]))}), "/drawing/edges"),
        ("shapes_redraw", json!({"drawing": drawing("edges", json!(["over"]))}), "/drawing/edges/0"),
        ("shapes_redraw", json!({"drawing": drawing("colour", json!(1))}), "colour"),
        ("shapes_redraw", json!({"drawing": drawing("nested", json!(true))}), "/drawing/nested"),
    ] {
        let reply = client.call(tool, arguments.clone()).await;
        let result = reply.result();
        assert_eq!(
            (&result["isError"], result_code(result)),
            (&json!(true), "arguments_invalid"),
            "{arguments}"
        );
        assert!(text(result).contains(path), "{arguments}: {}", text(result));
    }
    // What the schema lets pass, and no value stands for.
    for (tool, arguments, path) in [
        ("halve", json!({"number": "18446744073709551616"}), "/number: "),
        ("add_all", json!({"numbers": [1, "-9223372036854775809"]}), "/numbers/1: "),
        ("reverse_bytes", json!({"bytes": "=!"}), "/bytes: it is not base64"),
    ] {
        let reply = client.call(tool, arguments).await;
        assert_eq!(reply.result()["isError"], true);
        assert!(text(reply.result()).starts_with(path), "{}", text(reply.result()));
    }
}

#[tokio::test]
async fn slow_functions_become_tasks_and_can_be_cancelled() {
    let host = plain("[call]\ndeadline = \"100ms\"\ngrace = \"200ms\"").start().await;
    let client = host.client();
    let id = client.task("nap", json!({"ms": 900})).await;
    let ended = client.ended(&id).await;
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(ended["result"]["structuredContent"], json!({"result": "slept 900 ms"}));
    for (tool, arguments) in [("nap", json!({"ms": 60_000})), ("spin", json!({}))] {
        let id = client.task(tool, arguments).await;
        client.cancel(&id).await.result();
        let task = client.status(&id, "cancelled").await;
        assert!(task.get("result").is_none(), "{task}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold() {
    let call = "[call]\ndeadline = \"30s\"\n[limits]\n";
    for (limit, tool, arguments, code, value) in [
        ("fuel = 50_000_000", "spin", json!({}), "limit_fuel", "50000000"),
        ("memory = \"32MiB\"", "take_memory", json!({"mib": 64}), "limit_memory", "32MiB"),
        ("active-time = \"500ms\"", "nap", json!({"ms": 60_000}), "limit_active_time", "500ms"),
        ("output = \"4KiB\"", "repeat", json!({"text": "x".repeat(90), "times": 30}), "limit_output", "4KiB"),
        ("output = \"64KiB\"", "repeat", json!({"text": "", "times": 2_000_000}), "limit_output", "64KiB"),
        (
            "arguments = \"1KiB\"",
            "repeat",
            json!({"text": "x".repeat(2000), "times": 0}),
            "limit_arguments",
            "1KiB",
        ),
    ] {
        let host = plain(&format!("{call}{limit}")).start().await;
        let client = host.client();
        let reply = client.call(tool, arguments).await;
        let result = reply.result();
        assert_eq!((&result["isError"], result_code(result)), (&json!(true), code), "{limit}");
        assert!(text(result).contains(value), "{limit}: {}", text(result));
        let after = client.call("repeat", json!({"text": "a", "times": 2})).await;
        assert_eq!(after.result()["structuredContent"], json!({"result": ["a", "a"]}));
    }
}

#[tokio::test]
async fn a_trap_is_the_plugins_and_its_last_words_are_in_the_log() {
    let host = plain("").start().await;
    let reply = host.client().call("fall", json!({"last_words": "what a view"})).await;
    assert_eq!((reply.rpc(), reply.code()), (-32603, "plugin_trap"));
    assert!(host.log().contains("what a view"), "{}", host.log());
    let over = host.client().call("add_all", json!({"numbers": ["9223372036854775807", 1]})).await;
    assert_eq!(over.code(), "plugin_trap");
}

#[tokio::test]
async fn policy_holds_as_for_any_plugin() {
    let setup = Setup::new();
    std::fs::write(setup.files().join("note.txt"), "granted").unwrap();
    let policy = format!(
        "prefix = \"p_\"\n[tools.nap.call]\ndeadline = \"50ms\"\n[grants]\nfiles = [{}]",
        setup.grant(false)
    );
    let host = setup.plugin("plain", &policy).start().await;
    let client = host.client();
    let read = client.call("p_read_file", json!({"path": "/files/note.txt"})).await;
    assert_eq!(read.result()["structuredContent"], json!({"result": "granted"}));
    let outside = client.call("p_read_file", json!({"path": "/etc/passwd"})).await;
    assert_eq!(outside.result()["isError"], true, "{}", outside.message);
    let id = client.task("p_nap", json!({"ms": 300})).await;
    assert_eq!(client.ended(&id).await["status"], "completed");

    let host = plain("[tools.knap.call]\ndeadline = \"50ms\"").start().await;
    let plugin = host.refusal("plain", "plugin_bad_policy").await;
    assert!(plugin["refusal"]["reason"].as_str().unwrap().contains("\"nap\""), "{plugin}");
}

#[tokio::test]
async fn a_component_that_no_language_made_is_served_and_swapped() {
    let add = |core: &str| lifted("add-both", r#"(param "a" s32) (param "b-c" s32) (result s32)"#, core);
    let setup = Setup::new();
    let host = setup
        .file("sums", &add("(param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1))"), "")
        .start()
        .await;
    let client = host.client();
    let sum = client.call("add_both", json!({"a": 40, "b_c": 2})).await;
    assert_eq!(sum.result()["structuredContent"], json!({"result": 42}));
    let tools = client.tools().await;
    assert_eq!(found(&tools, "add_both")["description"], "Calls `add-both(a: s32, b_c: s32) -> s32`.");
    host.put("sums", &add("(param i32 i32) (result i32) (i32.sub (local.get 0) (local.get 1))"), "");
    layby_tests::eventually("the other component", || async {
        let result = client.call("add_both", json!({"a": 40, "b_c": 2})).await;
        (result.result()["structuredContent"] == json!({"result": 38})).then_some(())
    })
    .await;
    // It serves after a restart, too: from its row and its bytes.
    let host = host.restart().await;
    let sum = host.client().call("add_both", json!({"a": 40, "b_c": 2})).await;
    assert_eq!(sum.result()["structuredContent"], json!({"result": 38}));
}

#[tokio::test]
async fn what_cannot_be_served_is_refused_with_its_reason() {
    let resource = r#"(component
        (type $r (resource (rep i32)))
        (export $counter "counter" (type $r))
        (core module $m (func (export "f") (param i32)))
        (core instance $i (instantiate $m))
        (func $f (param "it" (own $counter)) (canon lift (core func $i "f")))
        (export "drop-it" (func $f)))"#;
    let system = r#"(component (instance $i) (export "wasi:cli/run@0.2.6" (instance $i)))"#;
    let prompts = r#"(component (instance $i) (export "layby:plugin/prompts@1.0.0" (instance $i)))"#;
    let mut setup = Setup::new();
    let all = [
        ("resource", resource, "plugin_bad_function", &["`drop-it`", "`it`", "`counter`"][..]),
        ("system", system, "plugin_bad_function", &["wasi:cli/run@0.2.6"]),
        ("empty", "(component)", "plugin_bad_function", &["exports nothing"]),
        ("prompts", prompts, "plugin_wrong_world", &["layby:plugin/tools@1.0.0"]),
    ];
    for (name, text, ..) in all {
        setup = setup.file(name, &wat::parse_str(text).unwrap(), "");
    }
    let host = setup.start().await;
    for (name, _, code, parts) in all {
        let plugin = host.refusal(name, code).await;
        let reason = plugin["refusal"]["reason"].as_str().unwrap();
        for part in parts {
            assert!(reason.contains(part), "{name}: {reason}");
        }
    }
}

#[tokio::test]
async fn the_command_line_knows_them() {
    let setup = plain("");
    let file = setup.plugins().join("plain.wasm");
    let at = |args: Vec<String>| layby_tests::command::run(layby_tests::command::layby(setup.root(), args));
    let words = |args: &[&str]| args.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>();
    let seen = at(words(&["inspect", file.to_str().unwrap()])).await;
    assert_eq!(seen.code, Some(0), "{seen:?}");
    for part in ["serves    functions", "tool halve", "Halves a number.", "tool shapes_area_of"] {
        assert!(seen.out.contains(part), "{part}: {}", seen.out);
    }
    let seen = at(words(&["inspect", file.to_str().unwrap(), "--json"])).await.json();
    assert_eq!((&seen["interfaces"], seen["tools"].as_array().unwrap().len()), (&json!(["functions"]), 14));
    drop(setup.command());
    let call = |tool: &str, arguments: &str| {
        at(words(&["call", tool, arguments, "--plugins", "plugins", "--data", "data", "--json"]))
    };
    let done = call("halve", r#"{"number":84}"#).await;
    assert_eq!(
        (done.code, &done.json()["result"]["structuredContent"]),
        (Some(0), &json!({"result": 42})),
        "{done:?}"
    );
    let odd = call("halve", r#"{"number":5}"#).await;
    assert_eq!((odd.code, text(&odd.json()["result"])), (Some(1), "odd_number"), "{odd:?}");
}
