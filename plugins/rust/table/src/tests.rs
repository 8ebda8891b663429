use layby_plugin::{
    testing::Host,
    types::{Content, InputAnswer, Question, ToolError},
};
use serde_json::{Value, json};

use super::*;

/// The tool's text, or its error's.
fn told(host: &Host, arguments: Value) -> Result<(String, Value), String> {
    let text = |content: &[Content]| match content {
        [Content::Text(text)] => text.clone(),
        other => panic!("not one text: {other:?}"),
    };
    match host.call_tool::<summarize_table>(&arguments.to_string()) {
        Ok(result) => {
            Ok((text(&result.content), serde_json::from_str(&result.structured_content.unwrap()).unwrap()))
        }
        Err(ToolError::Failed(result)) => Err(text(&result.content)),
        Err(other) => Err(format!("{other:?}")),
    }
}

fn error(csv: impl AsRef<[u8]>) -> String {
    match summarize(csv.as_ref(), None, &Call::of_host()).map_err(Error::from) {
        Err(Error::Failed(result)) => match result.content.as_slice() {
            [Content::Text(text)] => text.clone(),
            other => panic!("not one text: {other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_table_is_told_in_words_and_in_numbers() {
    let csv = "id,name\r\n1,Ada\r\n2, Bo \r\n3,\r\n4,\"Ada\"\r\n5,Friedrich\r\n";
    let (text, value) = told(&Host::new(), json!({ "csv": csv })).unwrap();
    let lines = [
        "5 rows, 2 columns, key: id",
        "id: integer, 5 values, 5 distinct, 1 to 5, mean 3.00",
        "name: text, 4 values, 1 missing, 3 distinct, 2 to 9 characters",
    ];
    assert_eq!(text, lines.join("\n"));
    assert_eq!(
        value,
        json!({ "rows": 5, "key": "id", "duplicates": 0, "columns": [
            { "name": "id", "type": "integer", "values": 5, "missing": 0, "distinct": 5,
              "min": 1.0, "max": 5.0, "mean": 3.0 },
            { "name": "name", "type": "text", "values": 4, "missing": 1, "distinct": 3,
              "shortest": 2, "longest": 9 },
        ] })
    );
}

#[test]
fn what_is_malformed_is_told_with_its_line() {
    for (csv, expected) in [
        ("", "line 1: the table has no header"),
        ("\u{feff}", "line 1: the table has no header"),
        ("a,,c\n", "line 1: column 2 has no name"),
        ("a, ,c\n", "line 1: column 2 has no name"),
        ("\na,b,a\n", "line 2: two columns are named \"a\""),
        ("a,b\n1,2\n\r\n3\n", "line 4: 1 fields, and the header has 2"),
        ("a,b\n\"1\n\n1\",2\n\n3,4,5\n", "line 6: 3 fields, and the header has 2"),
        ("a,b\r\n\r\n\"1\r\n1\",2\r\n1\r\n", "line 5: 1 fields, and the header has 2"),
        ("a,b\n1,2\n3,\"4\n5,6\n", "line 3: a quoted field is not closed"),
        ("a,b\n\"1\"\"", "line 2: a quoted field is not closed"),
        ("\"a", "line 1: a quoted field is not closed"),
    ] {
        assert_eq!(error(csv), expected, "{csv:?}");
    }
    assert_eq!(error(b"a\n1\n\xff\n2\n"), "line 3: not UTF-8");
    assert_eq!(error(b"a\n1\n\xffend\xff\n2\n"), "line 3: not UTF-8");
    assert_eq!(error(b"a\xff\n1\n"), "line 1: not UTF-8");
}

#[test]
fn quotes_blank_lines_and_a_mark_are_no_trouble() {
    let csv = "\u{feff}a,\"b\"\n\n1,\"x\ny\"\n\n\"2\",\"say \"\"hi\"\"\"";
    let (text, _) = told(&Host::new(), json!({ "csv": csv })).unwrap();
    let lines = [
        "2 rows, 2 columns, key: a",
        "a: integer, 2 values, 2 distinct, 1 to 2, mean 1.50",
        "b: text, 2 values, 2 distinct, 3 to 8 characters",
    ];
    assert_eq!(text, lines.join("\n"));
    let lines = ["1 rows, 1 columns, key: a", "a: text, 1 values, 1 distinct, 2 to 2 characters"];
    for csv in ["a\r\n\"xy\"\r\n", "a\r\nxy \r\n\r\n", "\r\na\r\n\txy"] {
        let (text, _) = told(&Host::new(), json!({ "csv": csv })).unwrap();
        assert_eq!(text, lines.join("\n"), "{csv:?}");
    }
}

#[test]
fn one_source_is_given() {
    let either = Err("give either csv or path".to_owned());
    assert_eq!(told(&Host::new(), json!({})), either);
    assert_eq!(told(&Host::new(), json!({ "csv": "a", "path": "/a" })), either);
    for path in ["/no/such/table.csv", "/"] {
        let unread = told(&Host::new(), json!({ "path": path })).unwrap_err();
        assert!(unread.starts_with(&format!("cannot read {path}: ")), "{unread}");
    }
    assert_eq!(told(&Host::new(), json!({ "path": "/" })).unwrap_err(), "cannot read /: it is a folder");
}

#[test]
fn the_key_is_given_found_or_asked_for() {
    let csv = "a,b\n1,x\n1,y\n2,\n";
    let first = |host: &Host, arguments: Value| {
        told(host, arguments).map(|(text, _)| text.lines().next().unwrap().to_owned())
    };
    let with_key = |key: &str| first(&Host::new(), json!({ "csv": csv, "key": key }));
    assert_eq!(with_key("a").unwrap(), "3 rows, 2 columns, key: a, 1 duplicates");
    assert_eq!(with_key("c").unwrap_err(), "there is no column \"c\"; there are \"a\", \"b\"");
    let host = Host::new().answer(InputAnswer::Accepted(r#"{"key":"b"}"#.to_owned()));
    assert_eq!(first(&host, json!({ "csv": csv })).unwrap(), "3 rows, 2 columns, key: b, 1 duplicates");
    let [request] = host.asked().try_into().unwrap();
    assert_eq!(request.key, "key_column");
    let Question::Form(form) = request.question else { panic!("not a form") };
    let schema: Value = serde_json::from_str(&form.schema).unwrap();
    assert_eq!(schema["properties"]["key"]["enum"], json!(["a", "b"]));
    for no in [InputAnswer::Declined, InputAnswer::Dismissed] {
        let (text, value) = told(&Host::new().answer(no), json!({ "csv": csv })).unwrap();
        assert!(text.starts_with("3 rows, 2 columns, no key\n"), "{text}");
        assert!(value.get("key").is_none() && value.get("duplicates").is_none(), "{value}");
    }
    assert_eq!(told(&Host::new(), json!({ "csv": csv })).unwrap_err(), "ToolError::Unsupported");
    let (text, _) = told(&Host::new(), json!({ "csv": "a,b\n" })).unwrap();
    assert_eq!(text, "0 rows, 2 columns, no key\na: empty, 0 values\nb: empty, 0 values");
}

#[test]
fn progress_comes_by_the_thousand_and_at_the_end() {
    let csv = (0..2500).fold("n\n".to_owned(), |csv, n| csv + &n.to_string() + "\n");
    let host = Host::new();
    told(&host, json!({ "csv": csv })).unwrap();
    let at = |rows: f64, total| (rows, total, Some(format!("{rows} rows")));
    assert_eq!(host.progress(), [at(1000.0, None), at(2000.0, None), at(2500.0, Some(2500.0))]);
    for checks in 0..3 {
        let cancelled = told(&Host::new().cancel_after(checks), json!({ "csv": csv }));
        assert_eq!(cancelled.unwrap_err(), "ToolError::Cancelled");
    }
    assert!(told(&Host::new().cancel_after(3), json!({ "csv": csv })).is_ok());
}
