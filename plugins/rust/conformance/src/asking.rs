//! What the scenarios of older revisions ask of the client, over its open stream.

use layby_plugin::{
    prelude::*,
    sampling,
    types::{FormQuestion, InputAnswer, InputRequest, Question},
};
use serde_json::{Value, json};

use crate::mrtr::{said, to_model};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Ask {
    /// What the client's model is asked.
    prompt: String,
}

/// Asks the client's model.
#[tool]
pub(crate) fn test_sampling(args: Ask, call: &Call) -> Result<String> {
    let (answer,) = call.ask_all((sampling("sampling", &to_model(&args.prompt, 100)),))?;
    let answer = answer.accepted().ok_or("the client's user refused")?;
    Ok(format!("LLM response: {}", said(&answer)))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Show {
    /// What the user reads.
    message: String,
}

#[derive(Deserialize, JsonSchema, Serialize)]
struct User {
    /// User's response
    username: String,
    /// User's email address
    email: String,
}

/// Asks the client's user.
#[tool]
pub(crate) fn test_elicitation(args: Show, call: &Call) -> Result<String> {
    Ok(match call.ask_form::<User>("user", args.message)? {
        Answer::Accepted(user) => {
            format!("User response: action: accept, content: {}", serde_json::to_string(&user)?)
        }
        Answer::Declined => "User response: action: decline".to_owned(),
        Answer::Dismissed => "User response: action: cancel".to_owned(),
    })
}

/// Asks with a form whose fields have defaults.
#[tool]
pub(crate) fn test_elicitation_sep1034_defaults(call: &Call) -> Result<String> {
    let statuses = ["active", "inactive", "pending"];
    raw(
        call,
        "Please review these values.",
        &json!({
            "name": { "type": "string", "default": "John Doe" },
            "age": { "type": "integer", "default": 30 },
            "score": { "type": "number", "default": 95.5 },
            "status": { "type": "string", "enum": statuses, "default": "active" },
            "verified": { "type": "boolean", "default": true },
        }),
    )
}

/// Asks with every form of choice.
#[tool]
pub(crate) fn test_elicitation_sep1330_enums(call: &Call) -> Result<String> {
    let plain = ["option1", "option2", "option3"];
    let titled = json!([
        { "const": "value1", "title": "First Option" },
        { "const": "value2", "title": "Second Option" },
        { "const": "value3", "title": "Third Option" },
    ]);
    let names = ["Option One", "Option Two", "Option Three"];
    raw(
        call,
        "Please choose.",
        &json!({
            "untitledSingle": { "type": "string", "enum": plain },
            "titledSingle": { "type": "string", "oneOf": titled },
            "legacyEnum": { "type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": names },
            "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
            "titledMulti": { "type": "array", "items": { "anyOf": titled } },
        }),
    )
}

fn raw(call: &Call, message: &str, properties: &Value) -> Result<String> {
    let schema = json!({ "type": "object", "properties": properties }).to_string();
    let question = Question::Form(FormQuestion { message: message.to_owned(), schema });
    let answers = call.ask_raw(&[InputRequest { key: "form".to_owned(), question }])?;
    let (action, content) = match answers.into_iter().next() {
        Some(InputAnswer::Accepted(json)) => ("accept", json),
        Some(InputAnswer::Declined) => ("decline", "{}".to_owned()),
        Some(InputAnswer::Dismissed) | None => ("cancel", "{}".to_owned()),
    };
    Ok(format!("Elicitation completed: action={action}, content={content}"))
}
