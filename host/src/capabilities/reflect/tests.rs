#![allow(clippy::unwrap_used, clippy::expect_used)]
//! Hand-written components: what their functions become. `random.rs` has types and values at random, `values.rs`
//! single ones, `hostile.rs` documentation that means harm.

mod hostile;
mod random;
mod values;

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::{
    base::Digest,
    capabilities::{Abort, Linked, Nobody, Request, Response, Setup, Unfit, call},
    engine::Engine,
};

struct Bench {
    engine: Arc<Engine>,
    linked: Linked,
}

impl Bench {
    fn new() -> Self {
        let engine = Engine::open(None, 1).unwrap();
        let linked = Linked::new(&engine).unwrap();
        Self { engine, linked }
    }

    fn reflect(&self, text: &str) -> Result<Reflected, String> {
        let bytes = wat::parse_str(text).unwrap();
        Reflected::of(&self.engine.component(Digest::of(&bytes), &bytes).unwrap(), &bytes)
    }

    fn refuse(&self, text: &str) -> String {
        self.reflect(text).err().expect("must be refused")
    }

    async fn call(&self, text: &str, name: &str, arguments: &Value) -> Result<ToolResult, ToolError> {
        match self.run(text, name, arguments).await {
            Ok(Response::Tool(answer)) => answer,
            other => panic!("no answer: {other:?}"),
        }
    }

    async fn run(&self, text: &str, name: &str, arguments: &Value) -> Result<Response, Abort> {
        let bytes = wat::parse_str(text).unwrap();
        let component = self.engine.component(Digest::of(&bytes), &bytes).unwrap();
        let prepared = self.linked.prepare(&component, &bytes).unwrap();
        let nobody = Arc::new(Nobody::new(|_: &str| {}));
        let setup = Setup::fresh(crate::config::Limits::default(), Arc::default(), nobody, [7; 32], 10_000);
        let request = Request::Tool { name: name.to_owned(), arguments: arguments.to_string() };
        call(&prepared, setup, &request).await.0
    }
}

fn tool<'a>(reflected: &'a Reflected, name: &str) -> &'a Tool {
    let names: Vec<_> = reflected.tools.iter().map(|t| &t.name).collect();
    reflected.tools.iter().find(|t| t.name == name).unwrap_or_else(|| panic!("{name} is none of {names:?}"))
}

fn input(tool: &Tool) -> Value {
    serde_json::from_str(&tool.input_schema).unwrap()
}

fn output(tool: &Tool) -> Value {
    serde_json::from_str(tool.output_schema.as_ref().expect("an output schema")).unwrap()
}

fn text_of(result: &ToolResult) -> &str {
    match &result.content[..] {
        [Content::Text(text)] => text,
        other => panic!("not one text: {other:?}"),
    }
}

/// A component around one core function of that type, with the core parameters and body given.
fn lifted(kind: &str, core: &str) -> String {
    lifted_with("", kind, core)
}

fn lifted_with(types: &str, kind: &str, core: &str) -> String {
    format!(
        r#"(component
            {types}
            (core module $m
                (memory (export "memory") 1)
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
                (func (export "f") {core}))
            (core instance $i (instantiate $m))
            (func $f {kind} (canon lift (core func $i "f") (memory (core memory $i "memory")) (realloc (core func $i "realloc"))))
            (export "do-it" (func $f)))"#
    )
}

#[test]
fn functions_and_interfaces_have_names_and_signatures() {
    let bench = Bench::new();
    let reflected = bench
        .reflect(
            r#"(component
                (core module $m (func (export "f") (param i32 i64) (result i32) (i32.const 1)))
                (core instance $i (instantiate $m))
                (func $f (param "first-one" u8) (param "b" u64) (result bool) (canon lift (core func $i "f")))
                (export "do-it" (func $f))
                (instance $inner (export "now" (func $f)))
                (export "acme:kit/time-keeper@0.3.1" (instance $inner))
                (instance $run)
                (export "wasi:cli/run@0.2.6" (instance $run)))"#,
        )
        .unwrap();
    let names: Vec<_> = reflected.tools().into_iter().map(|t| t.name).collect();
    assert_eq!(names, ["do_it", "time_keeper_now"]);
    let tool = tool(&reflected, "time_keeper_now");
    assert_eq!(
        tool.description,
        "Calls `now(first_one: u8, b: u64) -> bool` of the interface `acme:kit/time-keeper@0.3.1`."
    );
    assert_eq!(
        input(tool),
        json!({
            "type": "object",
            "properties": {
                "first_one": {"type": "integer", "minimum": 0, "maximum": 255},
                "b": {"type": ["integer", "string"], "pattern": "^[0-9]{1,20}$", "minimum": 0, "maximum": (1_u64 << 53) - 1},
            },
            "required": ["first_one", "b"],
            "additionalProperties": false,
        })
    );
    assert_eq!(
        output(tool),
        json!({"type": "object", "properties": {"result": {"type": "boolean"}}, "required": ["result"], "additionalProperties": false})
    );
}

#[test]
fn what_cannot_be_tools_is_refused_with_its_reason() {
    let bench = Bench::new();
    assert!(bench.refuse("(component)").contains("exports nothing"));
    let system = r#"(component (instance $i) (export "wasi:http/incoming-handler@0.2.0" (instance $i)))"#;
    let reason = bench.refuse(system);
    assert!(
        reason.contains("nor a function") && reason.contains("wasi:http/incoming-handler@0.2.0"),
        "{reason}"
    );
    let resource = r#"(component
        (type $r (resource (rep i32)))
        (export $counter "counter" (type $r))
        (core module $m (func (export "f") (param i32)))
        (core instance $i (instantiate $m))
        (func $f (param "it" (own $counter)) (canon lift (core func $i "f")))
        (export "drop-it" (func $f)))"#;
    let reason = bench.refuse(resource);
    for part in ["`drop-it`", "`it`", "resource `counter`"] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    let twice = r#"(component
        (core module $m (func (export "f")))
        (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f")))
        (instance $one (export "b-c" (func $f)))
        (instance $two (export "c" (func $f)))
        (export "a" (instance $one))
        (export "a-b" (instance $two)))"#;
    let reason = bench.refuse(twice);
    assert!(
        reason.contains("`a_b_c`") && reason.contains("of `a`") && reason.contains("of `a-b`"),
        "{reason}"
    );
    let module = r#"(component (core module $m) (export "code" (core module $m)))"#;
    assert!(bench.refuse(module).contains("`code` is a core module"));
    let nested =
        r#"(component (instance $a) (instance $b (export "in" (instance $a))) (export "out" (instance $b)))"#;
    assert!(bench.refuse(nested).contains("`out/in`"));
}

#[test]
fn a_component_with_prompts_alone_is_no_bag_of_functions() {
    let bench = Bench::new();
    let bytes =
        wat::parse_str(r#"(component (instance $i) (export "layby:plugin/prompts@1.0.0" (instance $i)))"#)
            .unwrap();
    let component = bench.engine.component(Digest::of(&bytes), &bytes).unwrap();
    match bench.linked.prepare(&component, &bytes) {
        Err(Unfit::World(reason)) => assert!(reason.contains("layby:plugin/tools@1.0.0"), "{reason}"),
        other => panic!("{:?}", other.err()),
    }
}

/// The engine has the component model's asynchronous part off, and says so itself.
#[test]
fn async_functions_and_streams_do_not_compile() {
    let bench = Bench::new();
    for kind in ["(func async)", r#"(func (param "s" (stream u8)))"#, r#"(func (result (future)))"#] {
        let bytes = wat::parse_str(format!(r#"(component (import "f" {kind}))"#)).unwrap();
        let Err(error) = bench.engine.component(Digest::of(&bytes), &bytes) else {
            panic!("must be refused")
        };
        let text = format!("{error:#}");
        assert!(text.contains("async"), "{kind}: {text}");
    }
}

#[test]
fn types_are_bounded_in_depth_and_number() {
    let bench = Bench::new();
    let deep = |levels: usize| {
        let ty = format!("{}u16{}", "(list ".repeat(levels), ")".repeat(levels));
        lifted(&format!(r#"(param "v" {ty})"#), "(param i32 i32)")
    };
    bench.reflect(&deep(CatalogConfig::REFLECTED_DEPTH - 1)).unwrap();
    let reason = bench.refuse(&deep(CatalogConfig::REFLECTED_DEPTH));
    assert!(reason.contains("`do-it`") && reason.contains("`v`") && reason.contains("24 deep"), "{reason}");
    // Each type has the one before twice.
    let wide = |doublings: usize| {
        let twice = |n| format!("(type $t{} (tuple $t{n} $t{n}))", n + 1);
        let types = format!("(type $t0 (tuple u8 u8)) {}", (0..doublings).map(twice).collect::<String>());
        lifted_with(&types, &format!(r#"(param "v" $t{doublings})"#), "(param i32)")
    };
    bench.reflect(&wide(10)).unwrap();
    let reason = bench.refuse(&wide(16));
    assert!(reason.contains("50000 types"), "{reason}");
}

#[tokio::test]
async fn functions_are_called() {
    let bench = Bench::new();
    let add = lifted(
        r#"(param "a" u64) (param "b-c" u64) (result u64)"#,
        "(param i64 i64) (result i64) (i64.add (local.get 0) (local.get 1))",
    );
    let result = bench.call(&add, "do_it", &json!({"a": 1, "b_c": "2"})).await.unwrap();
    assert_eq!(
        (text_of(&result), result.structured_content.as_deref()),
        (r#"{"result":3}"#, Some(r#"{"result":3}"#))
    );
    let result = bench.call(&add, "do_it", &json!({"a": (1_u64 << 53) - 1, "b_c": 1})).await.unwrap();
    assert_eq!(text_of(&result), r#"{"result":"9007199254740992"}"#);
    let error = bench.call(&add, "do_it", &json!({"a": "18446744073709551616", "b_c": 1})).await.unwrap_err();
    let ToolError::Failed(result) = error else { panic!("{error:?}") };
    assert!(text_of(&result).starts_with("/a: "), "{result:?}");

    let nothing = lifted("", "");
    let result = bench.call(&nothing, "do_it", &json!({})).await.unwrap();
    assert_eq!((text_of(&result), &result.structured_content), (DONE, &None));

    let fails =
        lifted("(result (result u8))", "(result i32) (i32.store8 (i32.const 0) (i32.const 1)) (i32.const 0)");
    let error = bench.call(&fails, "do_it", &json!({})).await.unwrap_err();
    let ToolError::Failed(result) = error else { panic!("{error:?}") };
    assert_eq!(text_of(&result), "`do_it` failed and gave no message");
    // An error of text is the text, of a number its JSON.
    let fails = |ty: &str, stores: &str| {
        lifted(
            &format!("(result (result (error {ty})))"),
            &format!("(result i32) (i32.store8 (i32.const 0) (i32.const 1)) {stores} (i32.const 0)"),
        )
    };
    let text = fails(
        "string",
        "(i32.store offset=4 (i32.const 0) (i32.const 64)) (i32.store offset=8 (i32.const 0) (i32.const 2)) (i32.store16 (i32.const 64) (i32.const 0x6f6e))",
    );
    let ToolError::Failed(result) = bench.call(&text, "do_it", &json!({})).await.unwrap_err() else {
        panic!()
    };
    assert_eq!(text_of(&result), "no");
    // One of no text, or of blanks, is told.
    for stores in [
        "",
        "(i32.store offset=4 (i32.const 0) (i32.const 64)) (i32.store offset=8 (i32.const 0) (i32.const 1)) (i32.store8 (i32.const 64) (i32.const 0x0a))",
    ] {
        let ToolError::Failed(result) =
            bench.call(&fails("string", stores), "do_it", &json!({})).await.unwrap_err()
        else {
            panic!()
        };
        assert_eq!(text_of(&result), "`do_it` failed and gave no message");
    }
    let number = fails("u64", "(i64.store offset=8 (i32.const 0) (i64.const -1))");
    let ToolError::Failed(result) = bench.call(&number, "do_it", &json!({})).await.unwrap_err() else {
        panic!()
    };
    assert_eq!(text_of(&result), "\"18446744073709551615\"");
}

#[tokio::test]
async fn a_bad_value_is_the_components_and_told_once() {
    let bench = Bench::new();
    let types = r#"(type $t (enum "a" "b")) (export $e "e" (type $t))"#;
    let of = |result: &str, core: &str| lifted_with(types, &format!("(result {result})"), core);
    let point = "(i32.store (i32.const 0) (i32.const 64)) (i32.store offset=4 (i32.const 0) (i32.const 1))";
    for (component, part) in [
        (of("$e", "(result i32) (i32.const 7)"), "discriminant 7 out of range"),
        (of("(option u8)", "(result i32) (i32.store8 (i32.const 0) (i32.const 9)) (i32.const 0)"), "9"),
        (of("char", "(result i32) (i32.const 0xd800)"), "char"),
        (
            of("string", "(result i32) (i32.store offset=4 (i32.const 0) (i32.const -1)) (i32.const 0)"),
            "out of bounds",
        ),
        (
            of(
                "string",
                &format!("(result i32) {point} (i32.store8 (i32.const 64) (i32.const 0xff)) (i32.const 0)"),
            ),
            "utf-8",
        ),
        (of("string", "(result i32) (i32.const -4)"), "out of bounds"),
        (
            of(
                "(list u32)",
                &format!("(result i32) {point} (i32.store (i32.const 0) (i32.const 65)) (i32.const 0)"),
            ),
            "aligned",
        ),
    ] {
        let Err(Abort::Trap(text)) = bench.run(&component, "do_it", &json!({})).await else {
            panic!("{part}")
        };
        assert!(text.starts_with("the component returned a bad value from the function `do-it`: "), "{text}");
        assert!(text.contains(part) && text.lines().count() == 1, "{text}");
    }
    // What a trap says is as before.
    let Err(Abort::Trap(text)) = bench.run(&lifted("", "unreachable"), "do_it", &json!({})).await else {
        panic!()
    };
    assert!(text.starts_with("the plugin trapped: ") && text.contains("backtrace"), "{text}");
}

/// A section `package-docs`, at the top of `component` or within a core module's embedded package.
fn section(json: &Value) -> String {
    let bytes: String =
        std::iter::once(1).chain(json.to_string().into_bytes()).map(|b| format!("\\{b:02x}")).collect();
    format!(r#"(@custom "package-docs" "{bytes}")"#)
}

#[test]
fn documentation_is_found_wherever_it_is_kept() {
    let bench = Bench::new();
    let docs = json!({
        "worlds": {"w": {"func_exports": {"f": {"docs": " Does it. \n"}}}},
        "interfaces": {"kit": {
            "docs": "A kit.",
            "funcs": {"f": "Does it in the kit."},
            "types": {"mood": {"docs": "A mood.", "items": {"so-so": "Neither."}}},
        }},
    });
    let with = |top: &str, within: &str| {
        format!(
            r#"(component
                (type $e (enum "good" "so-so"))
                (core module $m (func (export "f") (param i32)) {within})
                (core instance $i (instantiate $m))
                (func $f0 (param "m" u8) (canon lift (core func $i "f")))
                (export "f" (func $f0))
                (component $c
                    (type $e (enum "good" "so-so"))
                    (import "f" (func $f (param "m" u8)))
                    (export $mood "mood" (type $e))
                    (export "f" (func $f))
                    (export "g" (func $f)))
                (instance $k (instantiate $c (with "f" (func $f0))))
                (export "acme:x/kit" (instance $k))
                {top})"#
        )
    };
    let told = |text: &str| {
        let reflected = bench.reflect(text).unwrap();
        ["f", "kit_f", "kit_g"].map(|name| tool(&reflected, name).description.clone())
    };
    let expected =
        ["Does it.", "Does it in the kit.", "Calls `g(m: u8)` of the interface `acme:x/kit`.\n\nA kit."];
    assert_eq!(told(&with(&section(&docs), "")), expected);
    assert_eq!(told(&with("", &section(&docs))), expected);
    // What cannot be read is no reason not to serve.
    assert_eq!(told(&with(r#"(@custom "package-docs" "\07{}")"#, ""))[0], "Calls `f(m: u8)`.");
    assert_eq!(told(&with(r#"(@custom "package-docs" "\01{")"#, ""))[0], "Calls `f(m: u8)`.");
    assert_eq!(told(&with(&section(&json!({"worlds": 3})), ""))[0], "Calls `f(m: u8)`.");
}
