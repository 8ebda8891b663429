//! Uses every interface of `wit/`, every function in them, and every kind of content: what a host must go on
//! serving. Its component of each released version stays in `tests/components`, and the host's tests call it.
//!
//! Without the standard library, so that it is small and imports nothing but the contract.

#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

use alloc::{
    borrow::ToOwned,
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};

use bindings::{
    exports::layby::plugin::{completions, prompts, resources, tools},
    layby::plugin::{
        call::{
            Change, FormQuestion, InputAnswer, InputError, InputRequest, LogLevel, Question, QuestionKind,
            changed, check_cancelled, log, report_progress, request_input, supports,
        },
        types::{
            Completion, CompletionReference, Content, EmbeddedResource, Media, Prompt, PromptArgument,
            PromptMessage, PromptResult, ProtocolError, RequestError, ResourceContents, ResourceInfo,
            ResourceLink, ResourceTemplate, Role, Tool, ToolAnnotations, ToolError, ToolResult,
        },
    },
    wasi::{config::store, logging::logging},
};

#[allow(missing_docs, unreachable_pub, clippy::all)]
mod bindings {
    wit_bindgen::generate!({
        inline: "
            package layby:contract;
            world everything {
                import layby:plugin/call@1.0.0;
                import wasi:config/store@0.2.0-draft;
                import wasi:logging/logging@0.1.0-draft;
                export layby:plugin/tools@1.0.0;
                export layby:plugin/prompts@1.0.0;
                export layby:plugin/resources@1.0.0;
                export layby:plugin/completions@1.0.0;
            }
        ",
        path: "../../../wit",
        generate_all,
    });
}

#[cfg(target_family = "wasm")]
mod runtime;

const ALL: &str = "contract:///all";

/// The plugin.
#[derive(Debug)]
pub struct Contract;

impl tools::Guest for Contract {
    fn list_tools() -> Vec<Tool> {
        let tool = |name: &str, description: &str| Tool {
            name: name.to_owned(),
            title: Some(format!("The tool {name}")),
            description: description.to_owned(),
            input_schema: r#"{"type":"object"}"#.to_owned(),
            output_schema: None,
            annotations: ToolAnnotations {
                read_only: Some(true),
                destructive: Some(false),
                idempotent: Some(true),
                open_world: Some(false),
            },
            extra: Some(r#"{"_meta":{"contract/tool":true}}"#.to_owned()),
        };
        let with_output = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
        vec![
            tool("contract_call", "Calls all that a call may ask of its host."),
            Tool {
                output_schema: Some(with_output.to_owned()),
                ..tool("contract_content", "Returns each kind of content.")
            },
            tool("contract_failed", "Fails."),
            tool("contract_protocol", "Ends with a JSON-RPC error."),
            tool("contract_unsupported", "Says that its caller cannot answer."),
            tool("contract_wait", "Waits to be cancelled."),
        ]
    }

    fn call_tool(name: String, arguments: String) -> Result<ToolResult, ToolError> {
        match name.as_str() {
            "contract_call" => call(&arguments),
            "contract_content" => Ok(content()),
            "contract_failed" => Err(ToolError::Failed(text("it failed"))),
            "contract_protocol" => Err(ToolError::Protocol(ProtocolError {
                code: 7,
                message: "seven".to_owned(),
                data: Some(r#"{"seven":7}"#.to_owned()),
            })),
            "contract_unsupported" => Err(ToolError::Unsupported),
            _ => {
                while !check_cancelled() {}
                Err(ToolError::Cancelled)
            }
        }
    }
}

fn text(text: impl Into<String>) -> ToolResult {
    ToolResult { content: vec![Content::Text(text.into())], structured_content: None, meta: None }
}

/// Returns what it heard, in lines.
fn call(arguments: &str) -> Result<ToolResult, ToolError> {
    report_progress(1.0, Some(2.0), Some("half"));
    for level in [
        LogLevel::Debug,
        LogLevel::Info,
        LogLevel::Notice,
        LogLevel::Warning,
        LogLevel::Error,
        LogLevel::Critical,
    ] {
        log(level, "a line by the call");
    }
    logging::log(logging::Level::Warn, "contract", "a line by wasi:logging");
    for change in [Change::Tools, Change::Prompts, Change::Resources, Change::Contents(ALL.to_owned())] {
        changed(&change);
    }
    let kinds = [QuestionKind::Form, QuestionKind::Url, QuestionKind::Sampling, QuestionKind::Roots];
    let supported: Vec<_> = kinds.into_iter().map(|kind| supports(kind).to_string()).collect();
    let color = store::get("color").ok().flatten().unwrap_or_default();
    let schema = r#"{"type":"object","properties":{"value":{"type":"string"}}}"#;
    let form = FormQuestion { message: "Which?".to_owned(), schema: schema.to_owned() };
    let asked = request_input(&[
        InputRequest { key: "form".to_owned(), question: Question::Form(form) },
        InputRequest { key: "roots".to_owned(), question: Question::Roots },
    ]);
    let answers = match asked {
        Ok(answers) => answers.into_iter().map(answered).collect::<Vec<_>>().join(" "),
        Err(InputError::Unsupported) => return Err(ToolError::Unsupported),
        Err(InputError::Cancelled) => return Err(ToolError::Cancelled),
        Err(InputError::TimedOut) => "timed out".to_owned(),
        Err(InputError::Invalid(why)) => why,
    };
    Ok(text(format!(
        "arguments {arguments}\nsupports {}\ncolor {color}\nanswers {answers}\ncancelled {}",
        supported.join(" "),
        check_cancelled(),
    )))
}

fn answered(answer: InputAnswer) -> String {
    match answer {
        InputAnswer::Accepted(json) => json,
        InputAnswer::Declined => "declined".to_owned(),
        InputAnswer::Dismissed => "dismissed".to_owned(),
    }
}

fn content() -> ToolResult {
    let media = |kind: &str| Media { data: vec![0, 255], mime_type: format!("{kind}/x-none") };
    ToolResult {
        content: vec![
            Content::Text("text".to_owned()),
            Content::Image(media("image")),
            Content::Audio(media("audio")),
            Content::ResourceLink(ResourceLink {
                uri: ALL.to_owned(),
                name: "all".to_owned(),
                title: Some("All".to_owned()),
                description: Some("A link.".to_owned()),
                mime_type: Some("text/plain".to_owned()),
            }),
            Content::Embedded(embedded(ResourceContents::Text("embedded".to_owned()))),
            Content::Embedded(embedded(ResourceContents::Blob(vec![0, 255]))),
            Content::Other(r#"{"type":"text","text":"other","annotations":{"priority":1}}"#.to_owned()),
        ],
        structured_content: Some(r#"{"n":1}"#.to_owned()),
        meta: Some(r#"{"contract/result":true}"#.to_owned()),
    }
}

fn embedded(contents: ResourceContents) -> EmbeddedResource {
    EmbeddedResource { uri: ALL.to_owned(), mime_type: Some("text/plain".to_owned()), contents }
}

impl prompts::Guest for Contract {
    fn list_prompts() -> Vec<Prompt> {
        let part = PromptArgument {
            name: "part".to_owned(),
            title: Some("Part".to_owned()),
            description: Some("Which part.".to_owned()),
            required: true,
        };
        vec![Prompt {
            name: "contract_prompt".to_owned(),
            title: Some("Prompt".to_owned()),
            description: Some("A prompt.".to_owned()),
            arguments: vec![part],
            extra: None,
        }]
    }

    fn get_prompt(_name: String, arguments: Vec<(String, String)>) -> Result<PromptResult, RequestError> {
        let said = |role, text: String| PromptMessage { role, content: Content::Text(text) };
        let pairs: Vec<_> = arguments.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        Ok(PromptResult {
            description: Some("A prompt.".to_owned()),
            messages: vec![said(Role::User, pairs.join(" ")), said(Role::Assistant, "Yes.".to_owned())],
            meta: None,
        })
    }
}

impl resources::Guest for Contract {
    fn list_resources() -> Vec<ResourceInfo> {
        vec![ResourceInfo {
            uri: ALL.to_owned(),
            name: "all".to_owned(),
            title: Some("All".to_owned()),
            description: Some("A resource.".to_owned()),
            mime_type: Some("text/plain".to_owned()),
            size: Some(8),
            extra: None,
        }]
    }

    fn list_templates() -> Vec<ResourceTemplate> {
        vec![ResourceTemplate {
            uri_template: "contract:///{part}".to_owned(),
            name: "part".to_owned(),
            title: Some("Part".to_owned()),
            description: Some("A family.".to_owned()),
            mime_type: Some("text/plain".to_owned()),
            extra: None,
        }]
    }

    fn read_resource(uri: String) -> Result<Vec<EmbeddedResource>, RequestError> {
        if uri.ends_with("none") {
            return Err(RequestError::NotFound);
        }
        let text = ResourceContents::Text(format!("contents of {uri}"));
        Ok(vec![EmbeddedResource { uri, mime_type: Some("text/plain".to_owned()), contents: text }])
    }
}

impl completions::Guest for Contract {
    fn complete(
        reference: CompletionReference,
        argument: String,
        value: String,
        context: Vec<(String, String)>,
    ) -> Result<Completion, RequestError> {
        let of = match reference {
            CompletionReference::Prompt(name) | CompletionReference::ResourceTemplate(name) => name,
        };
        let values = vec![format!("{value} of {argument} of {of}, {} settled", context.len())];
        Ok(Completion { values, total: Some(1), has_more: false })
    }
}

#[cfg(target_family = "wasm")]
bindings::export!(Contract with_types_in bindings);
