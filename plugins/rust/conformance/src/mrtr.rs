//! What the scenarios of multi round-trip requests call. A function that asks is all there is to it:
//! what the rounds look like is the host's business.

use layby_plugin::{Ask, form, prelude::*, roots, sampling, types::QuestionKind};
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Name {
    pub(crate) name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Color {
    color: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

/// Parameters for the client's model.
pub(crate) fn to_model(text: &str, max_tokens: u32) -> Value {
    let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
    json!({ "messages": [message], "maxTokens": max_tokens })
}

/// What the model said, or all of the answer where it said no text.
pub(crate) fn said(answer: &Value) -> String {
    answer["content"]["text"].as_str().map_or_else(|| answer.to_string(), str::to_owned)
}

/// Asks for a name by a form.
#[tool]
pub(crate) fn test_input_required_result_elicitation(call: &Call) -> Result<String> {
    match call.ask_form::<Name>("user_name", "What is your name?")? {
        Answer::Accepted(answer) => Ok(format!("Hello, {}!", answer.name)),
        _ => Ok("Hello, stranger!".to_owned()),
    }
}

/// Asks the client's model for a capital.
#[tool]
pub(crate) fn test_input_required_result_sampling(call: &Call) -> Result<String> {
    let question = sampling("capital_question", &to_model("What is the capital of France?", 100));
    let (answer,) = call.ask_all((question,))?;
    Ok(answer.accepted().map_or_else(|| "The model was not asked.".to_owned(), |answer| said(&answer)))
}

/// Asks for the client's roots.
#[tool]
pub(crate) fn test_input_required_result_list_roots(call: &Call) -> Result<String> {
    let (answer,) = call.ask_all((roots("client_roots"),))?;
    Ok(format!("The client's roots: {}", answer.accepted().unwrap_or_default()["roots"]))
}

/// Asks for a confirmation, with a state that comes back.
#[tool]
pub(crate) fn test_input_required_result_request_state(call: &Call) -> Result<String> {
    confirm(call)
}

/// Asks for a confirmation, with a state that nobody may change.
#[tool]
pub(crate) fn test_input_required_result_tampered_state(call: &Call) -> Result<String> {
    confirm(call)
}

fn confirm(call: &Call) -> Result<String> {
    let answer = call.ask_form::<Confirm>("confirm", "Please confirm")?;
    let ok = matches!(answer, Answer::Accepted(Confirm { ok: true }));
    Ok(format!("state-ok, {}", if ok { "and confirmed" } else { "but not confirmed" }))
}

/// Asks three things of three kinds at once.
#[tool]
pub(crate) fn test_input_required_result_multiple_inputs(call: &Call) -> Result<String> {
    let name = form::<Name>("user_name", "What is your name?");
    let greeting = sampling("greeting", &to_model("Generate a greeting", 50));
    let (name, greeting, roots) = call.ask_all((name, greeting, roots("client_roots")))?;
    let name = name.accepted().map_or_else(|| "stranger".to_owned(), |answer| answer.name);
    let greeting = greeting.accepted().map_or_else(|| "Hello".to_owned(), |answer| said(&answer));
    let roots = roots.accepted().unwrap_or_default();
    Ok(format!("{greeting} ({name}; roots: {})", roots["roots"]))
}

/// Asks twice, one question after the other.
#[tool]
pub(crate) fn test_input_required_result_multi_round(call: &Call) -> Result<String> {
    let name = call.ask_form::<Name>("step1", "Step 1: What is your name?")?;
    let color = call.ask_form::<Color>("step2", "Step 2: What is your favorite color?")?;
    let name = name.accepted().map_or_else(|| "Nobody".to_owned(), |answer| answer.name);
    let color = color.accepted().map_or_else(|| "no color".to_owned(), |answer| answer.color);
    Ok(format!("{name} likes {color}."))
}

/// Asks only what the client can answer.
#[tool]
pub(crate) fn test_input_required_result_capabilities(call: &Call) -> Result<String> {
    let mut questions = Vec::new();
    if call.supports(QuestionKind::Form) {
        questions.push(form::<Name>("user_name", "What is your name?").request()?);
    }
    if call.supports(QuestionKind::Sampling) {
        questions.push(sampling("greeting", &to_model("Generate a greeting", 50)).request()?);
    }
    if call.supports(QuestionKind::Roots) {
        questions.push(roots("client_roots").request()?);
    }
    if questions.is_empty() {
        return Ok("The client can answer nothing.".to_owned());
    }
    let answers = call.ask_raw(&questions)?;
    Ok(format!("{} of {} questions were answered.", answers.len(), questions.len()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use layby_plugin::{testing::Host, types::InputAnswer};

    use super::*;

    fn accepted(host: Host, json: &Value) -> Host {
        host.answer(InputAnswer::Accepted(json.to_string()))
    }

    #[test]
    fn two_rounds_ask_one_thing_each() {
        let host = accepted(accepted(Host::new(), &json!({"name": "Alice"})), &json!({"color": "blue"}));
        assert_eq!(host.run(test_input_required_result_multi_round).unwrap(), "Alice likes blue.");
        let keys: Vec<_> = host.asked().into_iter().map(|asked| asked.key).collect();
        assert_eq!(keys, ["step1", "step2"]);
    }

    #[test]
    fn three_kinds_are_asked_at_once() {
        let host = accepted(Host::new(), &json!({"name": "Alice"}));
        let host = accepted(host, &json!({"role": "assistant", "content": {"type": "text", "text": "Hi"}}));
        let host = accepted(host, &json!({"roots": []}));
        let text = host.run(test_input_required_result_multiple_inputs).unwrap();
        assert_eq!(text, "Hi (Alice; roots: [])");
        assert_eq!(host.asked().len(), 3);
    }
}
