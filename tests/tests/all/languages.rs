//! The same two plugins, written in each language, do the same: `tests/languages/cases.json` says what.
//! Each kind of case is a test per language, and tells all of its cases that fail.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use serde_json::Value;

use self::cases::{Listed, TABLE};
pub(crate) use self::host::start;

mod cases;
mod host;
mod play;

/// The languages, and the kinds of cases in the table with the names of their tests.
macro_rules! matrix {
    ([$($language:ident),+], $kinds:tt) => {
        $(matrix!(@language $language $kinds);)+

        /// The languages that the cases are run for.
        pub(crate) const LANGUAGES: &[&str] = &[$(stringify!($language)),+];
    };
    (@language $language:ident { $($name:ident: $kind:literal),+ $(,)? }) => {
        mod $language {
            $(
                #[tokio::test]
                async fn $name() {
                    super::run(stringify!($language), $kind).await;
                }
            )+

            #[tokio::test]
            async fn tools_are_listed_alike() {
                super::check_listed(stringify!($language)).await;
            }

            #[test]
            fn every_case_has_a_test() {
                super::check_kinds(&[$($kind),+]);
            }
        }
    };
}

matrix!([rust, python, typescript, go, c], {
    asked: "asked",
    cancelled_while_asked: "cancelled while asked",
    cancelled_while_running: "cancelled while running",
    config: "config",
    declined: "declined",
    dismissed: "dismissed",
    fail: "fail",
    inline: "inline",
    key_given: "key given",
    limit_hit: "limit hit",
    log: "log",
    malformed: "malformed",
    progress: "progress",
    promoted: "promoted",
    schemas: "schemas",
    trap: "trap",
    two_questions_at_once: "two questions at once",
});

/// A language is not forgotten here.
#[test]
fn every_language_is_run() {
    let plugins = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins");
    let folders = std::fs::read_dir(plugins).expect("the plugins' folder can be listed").flatten();
    let with_table = folders.filter(|folder| folder.path().join("table").is_dir());
    let names: Vec<_> = with_table.map(|folder| folder.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(sorted(names.iter().map(String::as_str).collect()), sorted(LANGUAGES.to_vec()));
}

/// Plays all cases of a kind.
async fn run(language: &str, kind: &str) {
    let host = host::of(language).await;
    let mut failed = Vec::new();
    for case in TABLE.cases.iter().filter(|case| case.kind == kind) {
        let played = AssertUnwindSafe(play::play(&host, case)).catch_unwind().await;
        if let Err(panic) = played {
            let why = panic.downcast_ref::<String>().map(String::as_str);
            let why = why.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
            failed.push(format!("{language}, {kind}: {}\n  {}", case.name, why.replace('\n', "\n  ")));
        }
    }
    assert!(failed.is_empty(), "{} cases failed\n\n{}\n", failed.len(), failed.join("\n\n"));
}

fn check_kinds(kinds: &[&str]) {
    for case in &TABLE.cases {
        assert!(kinds.contains(&case.kind.as_str()), "no test plays cases of the kind {:?}", case.kind);
        assert!(TABLE.policies.contains_key(&case.policy), "{}: there is no such policy", case.name);
        assert!(TABLE.tools.contains_key(&case.tool), "{}: there is no such tool", case.name);
    }
}

async fn check_listed(language: &str) {
    let host = host::of(language).await;
    let tools = host.client().tools().await;
    let served = |name: &str| tools.iter().find(|tool| tool["name"] == name);
    for (name, listed) in &TABLE.tools {
        let tool = served(name).unwrap_or_else(|| panic!("{language} has no tool {name}"));
        check_tool(tool, listed, &format!("{language}, {name}"));
    }
    let usual = |tool: &&Value| {
        !tool["name"]
            .as_str()
            .is_some_and(|name| TABLE.policies.keys().any(|policy| name.starts_with(&format!("{policy}_"))))
    };
    assert_eq!(tools.iter().filter(usual).count(), TABLE.tools.len(), "{language} has other tools too");
}

fn check_tool(tool: &Value, listed: &Listed, of: &str) {
    if let Some(title) = &listed.title {
        assert_eq!(tool["title"], **title, "{of}");
    }
    match &listed.description {
        Some(description) => assert_eq!(tool["description"], **description, "{of}"),
        None => assert!(tool["description"].as_str().is_some_and(|text| !text.is_empty()), "{of}"),
    }
    if let Some(read_only) = listed.read_only {
        assert_eq!(tool["annotations"]["readOnlyHint"], read_only, "{of}");
    }
    let input = &tool["inputSchema"];
    assert_eq!(input["type"], "object", "{of}");
    assert_eq!(sorted(names(&input["properties"])), listed.properties.keys().collect::<Vec<_>>(), "{of}");
    for (name, kind) in &listed.properties {
        let property = &input["properties"][name];
        // What may be left out is `null` too in some languages.
        let kinds = if property["type"].is_null() { &property["anyOf"] } else { &property["type"] };
        assert!(kinds.to_string().contains(&format!("{kind:?}")), "{of}: {name} is {property}");
        if let Some(described) = listed.described.get(name) {
            assert_eq!(property["description"], **described, "{of}: {name}");
        }
    }
    let required: Vec<_> =
        input["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert_eq!(sorted(required), sorted(listed.required.iter().map(String::as_str).collect()), "{of}");
    let Some(output) = &listed.output else { return };
    let schema = &tool["outputSchema"];
    assert_eq!(
        sorted(names(&schema["properties"])),
        sorted(output.properties.iter().map(String::as_str).collect()),
        "{of}: {schema}"
    );
    let validator = jsonschema::validator_for(schema).unwrap_or_else(|e| panic!("{of}: {e}"));
    for value in &output.fits {
        assert!(validator.is_valid(value), "{of}: the output schema refuses {value}: {schema}");
    }
    for value in &output.refuses {
        assert!(!validator.is_valid(value), "{of}: the output schema takes {value}: {schema}");
    }
}

fn names(of: &Value) -> Vec<&str> {
    of.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

fn sorted(mut names: Vec<&str>) -> Vec<&str> {
    names.sort_unstable();
    names
}
