//! A plugin of every kind, called as the host calls it.

use crate::{
    Described,
    bindings::{
        completions::exports::layby::plugin::completions::Guest as _,
        exports::layby::plugin::tools::Guest as _, prompts::exports::layby::plugin::prompts::Guest as _,
        resources::exports::layby::plugin::resources::Guest as _,
    },
    prelude::*,
    starting_with,
    testing::Host,
    text_contents,
    types::{
        Change, Completion, CompletionReference, Content, EmbeddedResource, InputAnswer, LogLevel,
        PromptArgument, PromptResult, RequestError, ResourceContents, Role,
    },
};

mod every_kind {
    use super::*;

    /// Counts.
    #[tool]
    fn count(call: &Call) -> Result<&'static str> {
        call.changed(&Change::Prompts);
        Ok("one")
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub(super) enum Tone {
        Warm,
        Dry,
    }

    #[derive(Deserialize, JsonSchema)]
    pub(super) struct Letter {
        /// Whom it is for.
        to: String,
        /// How it sounds.
        #[schemars(title = "The tone")]
        tone: Option<Tone>,
        words: Option<u32>,
    }

    /// Writes
    /// a letter.
    #[prompt(title = "A letter", extra = r#"{"_meta":{"a":1}}"#)]
    pub(super) fn letter(args: Letter, call: &Call) -> Result<Described> {
        call.check()?;
        let tone = match args.tone {
            Some(Tone::Dry) => "dry",
            Some(Tone::Warm) | None => "warm",
        };
        let words = args.words.unwrap_or(100);
        Ok(Described {
            description: format!("A letter to {}", args.to),
            messages: vec![
                user(format!("Write a {tone} letter of {words} words to {}.", args.to)),
                assistant("Dear"),
            ],
        })
    }

    #[prompt(name = "who.asks", description = "Asks.")]
    pub(super) fn who_asks(call: &Call) -> Result<String> {
        match call.ask_form::<Name>("name", "Who are you?")? {
            Answer::Accepted(answer) => Ok(format!("I am {}.", answer.name)),
            _ => Err(Error::failed("nobody answered")),
        }
    }

    #[derive(Deserialize, JsonSchema)]
    struct Name {
        name: String,
    }

    #[resource(uri = "test://bytes", mime_type = "image/png", title = "Bytes", size = 3)]
    pub(super) fn bytes() -> Result<&'static [u8]> {
        Ok(b"abc")
    }

    #[resource(uri = "test://several", name = "two")]
    pub(super) fn several(call: &Call) -> Result<Vec<EmbeddedResource>> {
        call.log(LogLevel::Notice, "read");
        Ok(vec![text_contents("test://a", "text/x", "a"), text_contents("test://b", "text/x", "b")])
    }

    #[derive(Deserialize, JsonSchema)]
    pub(super) struct Row {
        table: String,
        id: u32,
        part: Option<String>,
    }

    /// A row.
    #[template(uri_template = "test://rows/{table}/{id}{?part}")]
    pub(super) fn row(of: Row) -> Result<Json<(String, u32, Option<String>)>> {
        if of.id == 0 {
            return Err(Error::NotFound);
        }
        Ok(Json((of.table, of.id, of.part)))
    }

    #[complete(template = row, argument = "id")]
    pub(super) fn row_id(value: &str, context: &Context) -> Result<Vec<String>> {
        let table = context.get("table").ok_or("the table first")?;
        Ok((0..150).map(|id| format!("{value}{table}{id}")).collect())
    }

    #[complete(prompt = letter, argument = "tone")]
    pub(super) fn letter_tone(value: &str, call: &Call, _context: &Context) -> Result<Vec<String>> {
        call.check()?;
        Ok(starting_with(value, ["warm", "dry"]))
    }

    layby_plugin::plugin! {
        completions: [row_id, letter_tone],
        prompts: [letter, who_asks],
        resources: [bytes, several],
        templates: [row],
        tools: [count],
    }

    pub(super) type Plugin = __LaybyPlugin;
}

mod nothing {
    layby_plugin::plugin! { tools: [], resources: [] }

    pub(super) type Plugin = __LaybyPlugin;
}

use every_kind::{Plugin, bytes, letter, letter_tone, row, row_id, several, who_asks};

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn texts(result: &PromptResult) -> Vec<(Role, &str)> {
    let text = |content| match content {
        &Content::Text(ref text) => text.as_str(),
        other => panic!("no text: {other:?}"),
    };
    result.messages.iter().map(|message| (message.role, text(&message.content))).collect()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, RequestError>) -> (i32, String) {
    match result {
        Err(RequestError::Protocol(error)) => (error.code, error.message),
        other => panic!("no protocol error: {other:?}"),
    }
}

#[test]
fn prompts_are_listed_with_their_arguments() {
    let [letter, who] = Plugin::list_prompts().try_into().unwrap();
    assert_eq!((letter.name.as_str(), letter.title.as_deref()), ("letter", Some("A letter")));
    assert_eq!(letter.description.as_deref(), Some("Writes a letter."));
    assert_eq!(letter.extra.as_deref(), Some(r#"{"_meta":{"a":1}}"#));
    let shown = |a: &PromptArgument| (a.name.clone(), a.title.clone(), a.description.clone(), a.required);
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        letter.arguments.iter().map(shown).collect::<Vec<_>>(),
        [
            ("to".to_owned(), None, some("Whom it is for."), true),
            ("tone".to_owned(), some("The tone"), some("How it sounds."), false),
            ("words".to_owned(), None, None, false),
        ]
    );
    assert_eq!((who.name.as_str(), who.description.as_deref()), ("who.asks", Some("Asks.")));
    assert!(who.arguments.is_empty());
}

#[test]
fn a_prompt_gets_typed_arguments() {
    let got = Plugin::get_prompt("letter".into(), pairs(&[("to", "Ada"), ("tone", "dry"), ("words", "7")]));
    let got = got.unwrap();
    assert_eq!(got.description.as_deref(), Some("A letter to Ada"));
    let expected = [(Role::User, "Write a dry letter of 7 words to Ada."), (Role::Assistant, "Dear")];
    assert_eq!(texts(&got), expected);
    let host = Host::new();
    let (code, why) = refused(host.get_prompt::<letter>(&[("to", "Ada"), ("words", "many")]));
    assert_eq!(code, Error::INVALID);
    assert!(why.contains("`many`"), "{why}");
    let cancelled = Host::new().cancel_after(0).get_prompt::<letter>(&[("to", "Ada")]);
    assert!(matches!(cancelled, Err(RequestError::Cancelled)));
    assert!(matches!(Plugin::get_prompt("none".into(), Vec::new()), Err(RequestError::NotFound)));
}

#[test]
fn a_prompt_asks() {
    let host = Host::new().answer(InputAnswer::Accepted(r#"{"name":"Ada"}"#.into()));
    assert_eq!(texts(&host.get_prompt::<who_asks>(&[]).unwrap()), [(Role::User, "I am Ada.")]);
    assert_eq!(host.asked()[0].key, "name");
    assert!(matches!(Host::new().get_prompt::<who_asks>(&[]), Err(RequestError::Unsupported)));
    let (code, why) = refused(Host::new().answer(InputAnswer::Declined).get_prompt::<who_asks>(&[]));
    assert_eq!((code, why.as_str()), (Error::INTERNAL, "nobody answered"));
}

#[test]
fn resources_are_listed_and_read() {
    let [one, two] = Plugin::list_resources().try_into().unwrap();
    assert_eq!((one.uri.as_str(), one.name.as_str(), one.size), ("test://bytes", "bytes", Some(3)));
    assert_eq!((one.mime_type.as_deref(), one.title.as_deref()), (Some("image/png"), Some("Bytes")));
    assert_eq!((two.name.as_str(), two.mime_type), ("two", None));
    let [read] = Host::new().read_resource::<bytes>().unwrap().try_into().unwrap();
    assert_eq!((read.uri.as_str(), read.mime_type.as_deref()), ("test://bytes", Some("image/png")));
    assert!(matches!(read.contents, ResourceContents::Blob(bytes) if bytes == b"abc"));
    let host = Host::new();
    let read = host.read_resource::<several>().unwrap();
    assert_eq!(read.iter().map(|c| c.uri.as_str()).collect::<Vec<_>>(), ["test://a", "test://b"]);
    assert!(matches!(host.logged().as_slice(), [(LogLevel::Notice, line)] if line == "read"));
    assert!(matches!(Plugin::read_resource("test://none".into()), Err(RequestError::NotFound)));
}

#[test]
fn a_template_gets_its_variables() {
    let [listed] = Plugin::list_templates().try_into().unwrap();
    assert_eq!(listed.uri_template, "test://rows/{table}/{id}{?part}");
    assert_eq!((listed.name.as_str(), listed.description.as_deref()), ("row", Some("A row.")));
    let [read] = Plugin::read_resource("test://rows/a%20b/7?part=x".into()).unwrap().try_into().unwrap();
    assert_eq!(read.uri, "test://rows/a%20b/7?part=x");
    assert_eq!(read.mime_type.as_deref(), Some("application/json"));
    assert!(matches!(read.contents, ResourceContents::Text(text) if text == r#"["a b",7,"x"]"#));
    let host = Host::new();
    assert!(matches!(host.read_template::<row>("test://rows/a/0"), Err(RequestError::NotFound)));
    assert!(matches!(host.read_template::<row>("test://other"), Err(RequestError::NotFound)));
    let (code, why) = refused(host.read_template::<row>("test://rows/a/seven"));
    assert_eq!(code, Error::INVALID);
    assert!(why.contains("`seven`"), "{why}");
}

#[test]
fn completions_are_cut_at_a_hundred() {
    let of = CompletionReference::ResourceTemplate("test://rows/{table}/{id}{?part}".into());
    let complete = |argument: &str, context: &[(&str, &str)]| -> Result<Completion, RequestError> {
        Plugin::complete(of.clone(), argument.into(), "v".into(), pairs(context))
    };
    let completed = complete("id", &[("table", "t")]).unwrap();
    assert_eq!((completed.values.len(), completed.total, completed.has_more), (100, Some(150), true));
    assert_eq!(completed.values[1], "vt1");
    assert_eq!(refused(complete("id", &[])).1, "the table first");
    let nothing = complete("table", &[]).unwrap();
    assert_eq!((nothing.values.len(), nothing.total, nothing.has_more), (0, Some(0), false));
    assert_eq!(Host::new().complete::<letter_tone>("W", &[]).unwrap().values, ["warm"]);
    assert_eq!(Host::new().complete::<row_id>("", &[("table", "t")]).unwrap().values[0], "t0");
}

#[test]
fn a_plugin_needs_no_tools() {
    assert_eq!(nothing::Plugin::list_tools().len(), 0);
    assert_eq!(nothing::Plugin::list_resources().len(), 0);
    assert_eq!(nothing::Plugin::list_templates().len(), 0);
    assert!(nothing::Plugin::call_tool("any".into(), "{}".into()).is_err());
}

#[test]
fn a_change_is_seen() {
    let host = Host::new();
    assert!(host.run(|_| Plugin::call_tool("count".into(), "{}".into())).is_ok());
    assert!(matches!(host.changed().as_slice(), [Change::Prompts]));
}

#[test]
fn configuration_and_the_operators_log() {
    use crate::{config, logging};
    let host = Host::new().config("greeting", "Hei").config("tone", "warm");
    let (greeting, none, all) = host.run(|_| {
        logging::log(logging::Level::Warn, "tests", "read");
        (config::get("greeting").unwrap(), config::get("other").unwrap(), config::all().unwrap())
    });
    assert_eq!((greeting.as_deref(), none), (Some("Hei"), None));
    assert_eq!(all.into_iter().map(|(k, v)| k + &v).collect::<Vec<_>>(), ["greetingHei", "tonewarm"]);
    let noted = host.noted();
    assert!(
        matches!(noted.as_slice(), [(logging::Level::Warn, c, m)] if c == "tests" && m == "read"),
        "{noted:?}"
    );
    assert_eq!(config::get("greeting"), Ok(None), "no host, no values");
}
