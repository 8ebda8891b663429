//! Questions: how many, how large, of which kind.

use layby_plugin::{
    prelude::*,
    types::{FormQuestion, InputAnswer, InputRequest, Question, UrlQuestion},
};
use serde_json::{Value, json};

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Form,
    Url,
    Sampling,
    Roots,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Ask {
    #[serde(default)]
    kind: Kind,
    /// How many rounds, one after another.
    #[serde(default = "one")]
    rounds: usize,
    /// How many questions in each round.
    #[serde(default = "one")]
    at_once: usize,
    /// Their key; it is the same for all.
    #[serde(default = "question")]
    key: String,
    /// What the caller reads.
    #[serde(default = "question")]
    message: String,
    /// Bytes that the message is filled up with.
    #[serde(default)]
    size: usize,
    /// A form's schema: an object, or a string, which is passed on as it is.
    schema: Option<Value>,
    /// Parameters for `sampling`, likewise.
    params: Option<Value>,
    #[serde(default = "example")]
    url: String,
    /// Sleep this long before the first round, in milliseconds.
    #[serde(default)]
    before_ms: u64,
    /// Sleep this long after each round, in milliseconds.
    #[serde(default)]
    after_ms: u64,
    /// End with `unsupported` where a question is, instead of saying so.
    #[serde(default)]
    insist: bool,
}

fn one() -> usize {
    1
}

fn question() -> String {
    "question".to_owned()
}

fn example() -> String {
    "https://example.com/".to_owned()
}

/// Asks, and answers with what it got: `{"count":2,"answers":[…],"error":null}`. An accepted answer
/// is its JSON; the others are `"declined"` and `"dismissed"`.
#[tool]
pub(crate) fn ask(args: Ask, call: &Call) -> Result<String> {
    if args.before_ms > 0 {
        std::thread::sleep(std::time::Duration::from_millis(args.before_ms));
    }
    let requests: Vec<_> = (0..args.at_once).map(|_| request(&args)).collect();
    let mut answers = Vec::new();
    let mut error = Value::Null;
    for _ in 0..args.rounds {
        match call.ask_raw(&requests) {
            Ok(round) => {
                answers.extend(round.into_iter().map(shown));
                std::thread::sleep(std::time::Duration::from_millis(args.after_ms));
            }
            Err(e) if args.insist => return Err(e.into()),
            Err(layby_plugin::AskError::Cancelled) => return Err(Error::Cancelled),
            Err(e) => {
                error = e.to_string().into();
                break;
            }
        }
    }
    Ok(json!({ "count": answers.len(), "answers": answers, "error": error }).to_string())
}

fn request(args: &Ask) -> InputRequest {
    let message = args.message.clone() + &"x".repeat(args.size);
    let schema = json!({ "type": "object", "properties": { "value": { "type": "string" } } });
    let params = json!({
        "messages": [{ "role": "user", "content": { "type": "text", "text": message } }],
        "maxTokens": 100,
    });
    let question = match args.kind {
        Kind::Form => Question::Form(FormQuestion { message, schema: json_of(args.schema.as_ref(), schema) }),
        Kind::Url => Question::Url(UrlQuestion { message, url: args.url.clone() }),
        Kind::Sampling => Question::Sampling(json_of(args.params.as_ref(), params)),
        Kind::Roots => Question::Roots,
    };
    InputRequest { key: args.key.clone(), question }
}

fn json_of(given: Option<&Value>, default: Value) -> String {
    match given {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => default.to_string(),
    }
}

fn shown(answer: InputAnswer) -> Value {
    match answer {
        InputAnswer::Accepted(json) => serde_json::from_str(&json).unwrap_or(Value::String(json)),
        InputAnswer::Declined => "declined".into(),
        InputAnswer::Dismissed => "dismissed".into(),
    }
}
