//! Documentation that was made to do harm, or to no purpose: the functions are served all the same.

use super::*;

/// A component with one function, and these custom sections at its top.
fn documented(sections: &str) -> String {
    format!(
        r#"(component
            (core module $m (func (export "f") (param i32)))
            (core instance $i (instantiate $m))
            (type $kind (record (field "a-b" u8)))
            (export $k "kind" (type $kind))
            (func $f (param "m" $k) (canon lift (core func $i "f")))
            (export "f" (func $f))
            {sections})"#
    )
}

fn raw(version: u8, json: &str) -> String {
    let bytes: String = std::iter::once(version).chain(json.bytes()).map(|b| format!("\\{b:02x}")).collect();
    format!(r#"(@custom "package-docs" "{bytes}")"#)
}

fn of_function(text: &str) -> Value {
    json!({"worlds": {"w": {"funcs": {"f": {"docs": text}}}}})
}

/// Without documentation of its own.
const BARE: &str = "Calls `f(m: kind)`.";

#[test]
fn a_section_that_cannot_be_read_is_left_out_and_told() {
    let bench = Bench::new();
    let deep = "[".repeat(100_000);
    let deep_map = "{\"worlds\":".repeat(10_000);
    let deep_function = format!(r#"{{"worlds":{{"w":{{"funcs":{{"f":{deep}"#);
    let huge = of_function(&"x".repeat(CatalogConfig::REFLECTED_DOCS)).to_string();
    for (section, part) in [
        (r#"(@custom "package-docs" "")"#.to_owned(), "is empty"),
        (raw(7, "{}"), "version 7"),
        (raw(1, ""), "cannot be read"),
        (raw(1, "{"), "cannot be read"),
        (raw(1, "3"), "cannot be read"),
        (raw(1, r#"{"worlds": {"w": {"funcs": 3}}}"#), "cannot be read"),
        (raw(1, &deep), "cannot be read"),
        (raw(1, &deep_map), "cannot be read"),
        (raw(1, &deep_function), "cannot be read"),
        (raw(1, "{\"worlds\": {\"w\": \"\u{202e}\u{1b}[31m\"}}"), "cannot be read"),
        (r#"(@custom "package-docs" "\01{\"worlds\":{\"\ff\":{}}}")"#.to_owned(), "cannot be read"),
        (raw(1, &huge), "bytes, more than"),
    ] {
        let reflected = bench.reflect(&documented(&section)).unwrap();
        assert_eq!(tool(&reflected, "f").description, BARE, "{part}");
        let [remark] = reflected.remarks() else { panic!("{part}: {:?}", reflected.remarks()) };
        assert!(remark.contains("`package-docs`") && remark.contains(part), "{remark}");
        assert!(remark.len() < 300 && !remark.contains(['\u{1b}', '\u{202e}']), "{remark:?}");
    }
    // A good one beside it is read.
    let both = raw(9, "{}") + &section(&of_function("Does it."));
    let reflected = bench.reflect(&documented(&both)).unwrap();
    assert_eq!((tool(&reflected, "f").description.as_str(), reflected.remarks().len()), ("Does it.", 1));
}

#[test]
fn sections_are_bounded_in_number() {
    let bench = Bench::new();
    for one in [raw(1, "{}"), raw(1, "{"), raw(3, "")] {
        let many = one.repeat(2000) + &section(&of_function("Does it."));
        let reflected = bench.reflect(&documented(&many)).unwrap();
        assert_eq!(tool(&reflected, "f").description, BARE);
        let remarks = reflected.remarks();
        assert!(remarks.len() <= CatalogConfig::REFLECTED_SECTIONS + 1, "{}", remarks.len());
        assert!(remarks.last().unwrap().contains("more than 16 sections"), "{remarks:?}");
    }
}

#[test]
fn texts_are_bounded_and_harmless() {
    let bench = Bench::new();
    let reflected = bench
        .reflect(&documented(&section(&of_function("a\u{1b}[2Jb\u{202e}c\u{0}d\r\n\te\u{e0041}"))))
        .unwrap();
    assert_eq!(tool(&reflected, "f").description, "a\\u{1b}[2Jb\\u{202e}c\\u{0}d\n\te\\u{e0041}");
    for text in ["x".repeat(200_000), "ü".repeat(200_000), "\u{1}".repeat(100_000), "\\\"".repeat(50_000)] {
        let reflected = bench.reflect(&documented(&section(&of_function(&text)))).unwrap();
        let description = &tool(&reflected, "f").description;
        assert!(description.ends_with('…') && description.len() < CatalogConfig::REFLECTED_TEXT + 4);
    }
    for nothing in ["", " \n\t "] {
        let reflected = bench.reflect(&documented(&section(&of_function(nothing)))).unwrap();
        assert_eq!(tool(&reflected, "f").description, BARE);
    }
}

#[test]
fn docs_of_what_is_not_there_are_ignored() {
    let bench = Bench::new();
    let docs = json!({
        "docs": "A package.",
        "worlds": {"w": {
            "funcs": {"g": {"docs": "Not there."}, "F": {"docs": "Nor this."}, "f": 3},
            "types": {"none": {"docs": "No type."}, "kind": {"docs": "A kind.", "items": {"z": "No field.", "a-b": "A field."}}},
            "stability": {"f": {"unstable": {"feature": "x"}}},
        }},
        "interfaces": {"nowhere": {"docs": "No interface.", "funcs": {"f": {"docs": "Elsewhere."}}}},
    });
    let reflected = bench.reflect(&documented(&section(&docs))).unwrap();
    let tool = tool(&reflected, "f");
    assert_eq!(tool.description, BARE);
    let kind = &input(tool)["properties"]["m"];
    assert_eq!(kind["description"], "A kind.");
    assert_eq!(kind["properties"]["a_b"]["description"], "A field.");
    assert!(!tool.input_schema.contains("No field"), "{}", tool.input_schema);
    assert!(reflected.remarks().is_empty(), "{:?}", reflected.remarks());
}

/// The same type in many places, with a long text: what goes into a schema must leave it within `max-schema`.
#[test]
fn documentation_never_makes_a_schema_too_large() {
    let bench = Bench::new();
    let text = "\\\n".repeat(7000);
    let items: Map<String, Value> = (0..8).map(|n| (format!("f{n}"), text.clone().into())).collect();
    let docs = json!({"worlds": {"w": {"types": {"kind": {"docs": text, "items": items}}}}});
    let fields: String = (0..8).map(|n| format!("(field \"f{n}\" u8)")).collect();
    let component = format!(
        r#"(component
            (core module $m (memory (export "m") 1) (func (export "f") (param i32 i32))
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 0)))
            (core instance $i (instantiate $m))
            (type $kind (record {fields}))
            (export $k "kind" (type $kind))
            (type $many (list (tuple $k $k $k $k $k $k)))
            (func $f (param "m" $many)
                (canon lift (core func $i "f") (memory (core memory $i "m")) (realloc (core func $i "realloc"))))
            (export "f" (func $f))
            (export "g" (func $f))
            {})"#,
        section(&docs)
    );
    let reflected = bench.reflect(&component).unwrap();
    for name in ["f", "g"] {
        let schema = &tool(&reflected, name).input_schema;
        assert!(schema.contains("description") && schema.len() < (256 << 10), "{name}: {}", schema.len());
    }
    let [remark] = reflected.remarks() else { panic!("{:?}", reflected.remarks()) };
    assert!(remark.contains("left out"), "{remark}");
}

/// Each function and each type asks all sections; that must not multiply.
#[test]
fn many_worlds_do_not_multiply() {
    let bench = Bench::new();
    let worlds: Map<String, Value> = (0..20_000).map(|n| (format!("w{n}"), json!({"funcs": {}}))).collect();
    let one = section(&json!({ "worlds": worlds }));
    let functions: String = (0..1000).map(|n| format!("(export \"f{n}\" (func $f))")).collect();
    let component = format!(
        r#"(component
            (core module $m (func (export "f") (param i32)))
            (core instance $i (instantiate $m))
            (type $kind (record (field "a-b" u8)))
            (export $k "kind" (type $kind))
            (func $f (param "m" $k) (canon lift (core func $i "f")))
            {functions}
            {})"#,
        one.repeat(8)
    );
    let started = std::time::Instant::now();
    let reflected = bench.reflect(&component).unwrap();
    assert_eq!(reflected.tools.len(), 1000);
    // Some 100 ms where nothing multiplies, and minutes where it does.
    assert!(started.elapsed() < std::time::Duration::from_secs(30), "{:?}", started.elapsed());
}
