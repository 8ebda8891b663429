//! What the core scenarios call.

use std::{thread::sleep, time::Duration};

use layby_plugin::{
    AskError, media,
    prelude::*,
    sampling,
    types::{Change, Content, EmbeddedResource, LogLevel, ResourceContents},
};

use crate::mrtr::{Name, to_model};

pub(crate) const PNG: &[u8] = include_bytes!("red.png");
const WAV: &[u8] = include_bytes!("silence.wav");
const PAUSE: Duration = Duration::from_millis(50);

/// Answers with text.
#[tool]
pub(crate) fn test_simple_text() -> Result<&'static str> {
    Ok("This is a simple text response for testing.")
}

/// Answers with an image.
#[tool]
pub(crate) fn test_image_content() -> Result<Content> {
    Ok(Content::Image(media("image/png", PNG)))
}

/// Answers with a sound.
#[tool]
pub(crate) fn test_audio_content() -> Result<Content> {
    Ok(Content::Audio(media("audio/wav", WAV)))
}

pub(crate) fn embedded(uri: &str, mime_type: &str, text: &str) -> EmbeddedResource {
    EmbeddedResource {
        uri: uri.to_owned(),
        mime_type: Some(mime_type.to_owned()),
        contents: ResourceContents::Text(text.to_owned()),
    }
}

/// Answers with a resource inside the result.
#[tool]
pub(crate) fn test_embedded_resource() -> Result<EmbeddedResource> {
    Ok(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."))
}

/// Answers with text, an image and a resource.
#[tool]
pub(crate) fn test_multiple_content_types() -> Result<Vec<Content>> {
    let json = r#"{"test":"data","value":123}"#;
    Ok(vec![
        Content::Text("Multiple content types test:".to_owned()),
        Content::Image(media("image/png", PNG)),
        Content::Embedded(embedded("test://mixed-content-resource", "application/json", json)),
    ])
}

/// Fails, as a tool does.
#[tool]
pub(crate) fn test_error_handling() -> Result<()> {
    Err(Error::failed("This tool intentionally returns an error for testing"))
}

/// Reports progress: 0, 50 and 100 of 100.
#[tool]
pub(crate) fn test_tool_with_progress(call: &Call) -> Result<&'static str> {
    call.progress(0.0, 100.0, "started");
    sleep(PAUSE);
    call.progress(50.0, 100.0, "half way");
    sleep(PAUSE);
    call.progress(100.0, 100.0, "finished");
    Ok("Reported progress three times.")
}

/// Has a schema with many keywords, none of which may be lost.
#[tool(input_schema = include_str!("schema_2020_12.json"))]
pub(crate) fn json_schema_2020_12_tool() -> Result<&'static str> {
    Ok("The arguments fit the schema.")
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Custom {
    /// Also in the header `Mcp-Param-Value`.
    #[schemars(extend("x-mcp-header" = "Value"))]
    value: String,
}

/// Takes an argument that clients repeat in a header.
#[tool]
pub(crate) fn test_custom_header(args: Custom) -> Result<String> {
    Ok(format!("The value is {}", args.value))
}

/// Cannot be served without the client's model.
#[tool]
pub(crate) fn test_missing_capability(call: &Call) -> Result<String> {
    let question = sampling("hello", &to_model("Say hello.", 100));
    let (answer,) = call.ask_all((question,))?;
    Ok(format!("The client's model was asked: {answer:?}"))
}

/// Asks in the middle of a streamed answer.
#[tool]
pub(crate) fn test_streaming_elicitation(call: &Call) -> Result<String> {
    call.progress(1.0, 2.0, "about to ask");
    match call.ask_form::<Name>("name", "What is your name?") {
        Ok(Answer::Accepted(answer)) => Ok(format!("Hello, {}!", answer.name)),
        Ok(Answer::Declined | Answer::Dismissed) => Ok("No name was given.".to_owned()),
        Err(AskError::Unsupported) => Ok("This client cannot be asked here.".to_owned()),
        Err(other) => Err(other.into()),
    }
}

/// Logs a line at each of three levels.
#[tool]
pub(crate) fn test_logging_tool(call: &Call) -> Result<&'static str> {
    call.log(LogLevel::Debug, "a line for debugging");
    call.log(LogLevel::Info, "a line for information");
    call.log(LogLevel::Warning, "a line of warning");
    Ok("Logged three lines.")
}

/// Logs three lines for information, with a pause between them.
#[tool]
pub(crate) fn test_tool_with_logging(call: &Call) -> Result<&'static str> {
    call.log(LogLevel::Info, "Tool execution started");
    sleep(PAUSE);
    call.log(LogLevel::Info, "Tool processing data");
    sleep(PAUSE);
    call.log(LogLevel::Info, "Tool execution completed");
    Ok("Logged three lines for information.")
}

/// Says that the list of prompts has changed.
#[tool]
pub(crate) fn test_trigger_prompt_change(call: &Call) -> Result<&'static str> {
    call.changed(&Change::Prompts);
    Ok("Said that the prompts have changed.")
}

/// Says that the list of tools has changed.
#[tool]
pub(crate) fn test_trigger_tool_change(call: &Call) -> Result<&'static str> {
    call.changed(&Change::Tools);
    Ok("Said that the tools have changed.")
}
