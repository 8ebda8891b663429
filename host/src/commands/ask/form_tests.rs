#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn form() -> Vec<Field> {
    fields(&json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Your name", "minLength": 2, "maxLength": 5},
            "mail": {"type": "string", "format": "email"},
            "age": {"type": "integer", "minimum": 0, "maximum": 150, "default": 30},
            "score": {"type": "number", "minimum": 0.5},
            "sure": {"type": "boolean", "default": true},
            "plain": {"type": "string", "enum": ["a", "b"]},
            "legacy": {"type": "string", "enum": ["x", "y"], "enumNames": ["Ex", "Why"]},
            "titled": {"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}, {"const": "#0f0", "title": "Green"}]},
            "many": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string", "enum": ["p", "q", "r"]}},
            "many_titled": {"type": "array", "items": {"anyOf": [{"const": "1", "title": "One"}]}},
        },
        "required": ["name", "many"],
    }))
    .unwrap()
}

fn field(name: &str) -> Field {
    form().into_iter().find(|f| f.name == name).unwrap()
}

#[test]
fn a_schema_becomes_fields_in_order() {
    let names: Vec<String> = form().iter().map(|f| f.name.clone()).collect();
    assert_eq!(
        names,
        ["name", "mail", "age", "score", "sure", "plain", "legacy", "titled", "many", "many_titled"]
    );
    assert_eq!(field("name").title, "Your name");
    assert!(field("name").required && !field("mail").required);
    let Kind::One(choices) = field("legacy").kind else { panic!("not a choice") };
    assert_eq!((choices[1].title.as_str(), &choices[1].value), ("Why", &json!("y")));
}

#[test]
fn what_cannot_be_asked_is_named() {
    let nested = fields(&json!({"type": "object", "properties": {"deep": {"type": "object"}}}));
    assert!(nested.unwrap_err().contains("deep"));
    let list = fields(
        &json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "string"}}}}),
    );
    assert!(list.is_err());
    assert_eq!(fields(&json!({"type": "object"})).unwrap(), []);
}

#[test]
fn typed_text_becomes_the_value_of_its_kind() {
    let ok = |name: &str, typed: &str| field(name).parse(typed).unwrap().unwrap();
    assert_eq!(ok("name", "Ada"), json!("Ada"));
    assert_eq!(ok("age", " 42 "), json!(42));
    assert_eq!(ok("score", "2.5"), json!(2.5));
    assert_eq!(ok("score", "3"), json!(3));
    assert_eq!(ok("sure", "No"), json!(false));
    assert_eq!(ok("plain", "b"), json!("b"));
    assert_eq!(ok("titled", "green"), json!("#0f0"));
    assert_eq!(ok("titled", "#f00"), json!("#f00"));
    assert_eq!(ok("many", "p, r"), json!(["p", "r"]));
    assert_eq!(ok("many_titled", "One"), json!(["1"]));
}

#[test]
fn what_does_not_fit_is_refused_with_a_reason() {
    let err = |name: &str, typed: &str| field(name).parse(typed).unwrap_err();
    assert_eq!(err("name", ""), "a value is required");
    assert_eq!(err("name", "A"), "at least 2 characters are needed");
    assert_eq!(err("name", "Adelaide"), "at most 5 characters are allowed");
    assert_eq!(err("mail", "nobody"), "an e-mail address is needed");
    assert_eq!(err("age", "4.5"), "a whole number is needed");
    assert_eq!(err("age", "200"), "at most 150 is allowed");
    assert_eq!(err("score", "0"), "at least 0.5 is needed");
    assert_eq!(err("score", "inf"), "a number is needed");
    assert_eq!(err("sure", "perhaps"), "write yes or no");
    assert_eq!(err("plain", "c"), "\"c\" is none of the choices");
    assert_eq!(err("many", "p,q,r"), "at most 2 choices are allowed");
    assert!(field("mail").parse("  ").unwrap().is_none());
}

#[test]
fn formats() {
    let check = |format: &str, text: &str| check_format(format, text).is_ok();
    assert!(check("date", "2026-07-28") && !check("date", "28.7.2026") && !check("date", "2026-13-01"));
    assert!(check("date-time", "2026-07-28T10:00:00Z") && check("date-time", "2026-07-28T10:00:00+02:00"));
    assert!(!check("date-time", "yesterday") && !check("date-time", "äöü+02:00"));
    assert!(check("uri", "https://example.com/x") && !check("uri", "example"));
    assert!(check("something-new", "anything"));
}

#[test]
fn only_a_default_that_fits_is_used() {
    assert_eq!(field("age").usable_default(), Some(&json!(30)));
    let mut wrong = field("age");
    wrong.default = Some(json!("thirty"));
    assert_eq!(wrong.usable_default(), None);
}

#[test]
fn whole_answers_are_checked() {
    let content = json!({"name": "Ada", "many": ["q"]});
    assert_eq!(check_content(&form(), content.as_object().unwrap()), Ok(()));
    let missing = json!({"name": "Ada"});
    assert_eq!(
        check_content(&form(), missing.as_object().unwrap()),
        Err("many: a value is required".to_owned())
    );
}

proptest! {
    #[test]
    fn parsing_never_panics_and_gives_only_what_fits(typed in ".{0,40}", which in 0usize..10) {
        let field = &form()[which];
        if let Ok(Some(value)) = field.parse(&typed) {
            prop_assert_eq!(field.check(&value), Ok(()));
        }
    }

    #[test]
    fn formats_never_panic(text in "\\PC{0,30}") {
        for format in ["email", "uri", "date", "date-time"] {
            let _ = check_format(format, &text);
        }
    }
}
