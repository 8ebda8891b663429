//! The prompts that the suite gets.

use layby_plugin::{media, prelude::*, starting_with, types::Content};

use crate::basic::{PNG, embedded};

/// Has no arguments.
#[prompt]
pub(crate) fn test_simple_prompt() -> Result<&'static str> {
    Ok("This is a simple prompt for testing.")
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Two {
    /// First test argument
    arg1: String,
    /// Second test argument
    arg2: String,
}

/// Has two arguments, which come back in its text.
#[prompt]
pub(crate) fn test_prompt_with_arguments(args: Two) -> Result<String> {
    Ok(format!("Prompt with arguments: arg1='{}', arg2='{}'", args.arg1, args.arg2))
}

const WORDS: [&str; 6] = ["paris", "park", "party", "test", "testValue1", "testValue2"];

#[complete(prompt = test_prompt_with_arguments, argument = "arg1")]
pub(crate) fn complete_arg1(value: &str) -> Result<Vec<String>> {
    Ok(starting_with(value, WORDS))
}

#[complete(prompt = test_prompt_with_arguments, argument = "arg2")]
pub(crate) fn complete_arg2(value: &str, context: &Context) -> Result<Vec<String>> {
    let first = context.get("arg1");
    Ok(starting_with(value, WORDS.into_iter().filter(|word| first != Some(word))))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Embed {
    /// URI of the resource to embed
    resource_uri: String,
}

/// Has a resource in its messages.
#[prompt]
pub(crate) fn test_prompt_with_embedded_resource(args: Embed) -> Result<[PromptMessage; 2]> {
    let resource = embedded(&args.resource_uri, "text/plain", "Embedded resource content for testing.");
    Ok([user(resource), user("Please process the embedded resource above.")])
}

/// Has an image in its messages.
#[prompt]
pub(crate) fn test_prompt_with_image() -> Result<[PromptMessage; 2]> {
    Ok([user(Content::Image(media("image/png", PNG))), user("Please analyze the image above.")])
}

#[derive(Deserialize, JsonSchema)]
struct UserContext {
    context: String,
}

/// Asks before it says anything.
#[prompt]
pub(crate) fn test_input_required_result_prompt(call: &Call) -> Result<String> {
    match call.ask_form::<UserContext>("user_context", "What context should the prompt use?")? {
        Answer::Accepted(answer) => Ok(format!("Answer in this context: {}", answer.context)),
        _ => Ok("Answer without any context.".to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use layby_plugin::{Prompt, testing::Host};

    use super::*;

    #[test]
    fn the_suites_names_are_the_arguments() {
        let names = |prompt: layby_plugin::types::Prompt| -> Vec<_> {
            prompt.arguments.into_iter().map(|argument| (argument.name, argument.required)).collect()
        };
        let required = |name: &str| (name.to_owned(), true);
        assert_eq!(names(test_prompt_with_arguments::definition()), [required("arg1"), required("arg2")]);
        assert_eq!(names(test_prompt_with_embedded_resource::definition()), [required("resourceUri")]);
        let got =
            Host::new().get_prompt::<test_prompt_with_embedded_resource>(&[("resourceUri", "test://x")]);
        assert!(matches!(&got.unwrap().messages[0].content, Content::Embedded(of) if of.uri == "test://x"));
    }

    #[test]
    fn the_second_argument_is_not_the_first() {
        let completed = Host::new().complete::<complete_arg2>("par", &[("arg1", "park")]).unwrap();
        assert_eq!(completed.values, ["paris", "party"]);
    }
}
