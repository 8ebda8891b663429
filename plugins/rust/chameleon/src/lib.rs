//! Whatever a test wants a plugin to be. The catalog stands as text in the component's bytes, and
//! tests patch it there, at the same length: no compiler is needed for the next plugin.
//!
//! The text: `LAYBY-CHAMELEON:`, then one JSON object padded with spaces to 8192 bytes in all:
//!
//! - `version`: any text, which each call returns
//! - `list`: what `list-tools` does: `ok`, `trap`, `spin` (never returns), `sleep` (waits for an hour), `big` (64 MiB of description)
//! - `tools`: objects with `name`, `title`, `description`, `inputSchema`, `outputSchema`,
//!   `annotations` (`readOnlyHint` …) and `extra`; a schema or `extra` that is a string is passed on
//!   as it is, so that it can be broken
//! - `prompts`: objects with `name`, `title`, `description`, `extra` and `arguments` (`name`, `title`,
//!   `description`, `required`)
//! - `resources`: objects with `uri`, `name`, `title`, `description`, `mimeType`, `size` and `extra`
//! - `templates`: the same without `size`, and with `uriTemplate` in place of `uri`
//!
//! `call-tool` returns `{"version":…,"tool":…,"arguments":…}` as text, after `arguments.sleep_ms`
//! milliseconds if there is such a number. `get-prompt` returns one message of the user, whose text
//! is `{"version":…,"prompt":…,"arguments":…}`; an argument `sleep_ms` is a pause here too.
//! `read-resource` returns `{"version":…,"uri":…}` as JSON, and `not-found` for a URI with `missing` in
//! it. Both ask for `question` first, where the prompt or the URI has `asks` in its name, and return the answer as
//! `answer`. `complete` returns the colours that begin with the value.

use std::{ptr, time::Duration};

use bindings::{
    exports::layby::plugin::{completions, prompts, resources, tools},
    layby::plugin::call::{self, FormQuestion, InputAnswer, InputRequest, Question},
    layby::plugin::types::{
        Completion, CompletionReference, Content, EmbeddedResource, Prompt, PromptArgument, PromptMessage,
        PromptResult, RequestError, ResourceContents, ResourceInfo, ResourceTemplate, Role, Tool,
        ToolAnnotations, ToolError, ToolResult,
    },
};
use serde_json::{Map, Value, json};

#[allow(missing_docs, unreachable_pub, clippy::all)]
mod bindings {
    wit_bindgen::generate!({
        path: "../../../wit",
        inline: "
            package layby:chameleon;

            world chameleon {
                include layby:plugin/plugin@1.0.0;
                include layby:plugin/plugin-prompts@1.0.0;
                include layby:plugin/plugin-resources@1.0.0;
                include layby:plugin/plugin-completions@1.0.0;
            }
        ",
        world: "layby:chameleon/chameleon",
        generate_all,
    });
}

const SIZE: usize = 8192;
const MARK: &str = "LAYBY-CHAMELEON:";
const CATALOG: &str = r#"{"version":"1","list":"ok","tools":[{"name":"chameleon","description":"Answers with its version, its name and its arguments.","inputSchema":{"type":"object"}}]}"#;

/// What tests patch. Not a `const`: it must be in the bytes once, and be read from there.
#[used]
static PATCHED: [u8; SIZE] = padded();

const fn padded() -> [u8; SIZE] {
    let mut bytes = [b' '; SIZE];
    let (mark, catalog) = (MARK.as_bytes(), CATALOG.as_bytes());
    let mut i = 0;
    while i < mark.len() {
        bytes[i] = mark[i];
        i += 1;
    }
    let mut i = 0;
    while i < catalog.len() {
        bytes[mark.len() + i] = catalog[i];
        i += 1;
    }
    bytes
}

fn catalog() -> Value {
    let bytes: Vec<u8> = PATCHED
        .iter()
        // SAFETY: a reference is always valid to read. Volatile, or the optimizer would answer from
        // what the source says, and not from what the test has put there.
        .map(|byte| unsafe { ptr::read_volatile(byte) })
        .skip(MARK.len())
        .collect();
    // What a test has broken is the test's to see: a trap, with the reason on standard error.
    serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("the catalog is no JSON: {e}"))
}

/// The plugin.
#[derive(Debug)]
pub struct Chameleon;

impl tools::Guest for Chameleon {
    fn list_tools() -> Vec<Tool> {
        let mut tools = list("tools", tool);
        match catalog()["list"].as_str() {
            Some("trap") => panic!("told to trap in list-tools"),
            Some("spin") => loop {
                std::hint::black_box(());
            },
            Some("sleep") => std::thread::sleep(std::time::Duration::from_secs(3600)),
            Some("big") => tools.iter_mut().for_each(|tool| tool.description = "x".repeat(64 << 20)),
            _ => {}
        }
        tools
    }

    fn call_tool(name: String, arguments: String) -> Result<ToolResult, ToolError> {
        let arguments: Value = serde_json::from_str(&arguments).unwrap_or_default();
        if let Some(ms) = arguments["sleep_ms"].as_u64() {
            std::thread::sleep(Duration::from_millis(ms));
        }
        let answer = json!({ "version": version(), "tool": name, "arguments": arguments });
        Ok(ToolResult {
            content: vec![Content::Text(answer.to_string())],
            structured_content: None,
            meta: None,
        })
    }
}

impl prompts::Guest for Chameleon {
    fn list_prompts() -> Vec<Prompt> {
        list("prompts", prompt)
    }

    fn get_prompt(name: String, arguments: Vec<(String, String)>) -> Result<PromptResult, RequestError> {
        let arguments: Map<_, _> =
            arguments.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
        if let Some(ms) = arguments.get("sleep_ms").and_then(Value::as_str).and_then(|ms| ms.parse().ok()) {
            std::thread::sleep(Duration::from_millis(ms));
        }
        let mut answer = json!({ "version": version(), "prompt": name, "arguments": arguments });
        if name.contains("asks") {
            answer["answer"] = asked();
        }
        let message = PromptMessage { role: Role::User, content: Content::Text(answer.to_string()) };
        Ok(PromptResult { description: None, messages: vec![message], meta: None })
    }
}

impl resources::Guest for Chameleon {
    fn list_resources() -> Vec<ResourceInfo> {
        list("resources", resource)
    }

    fn list_templates() -> Vec<ResourceTemplate> {
        list("templates", template)
    }

    fn read_resource(uri: String) -> Result<Vec<EmbeddedResource>, RequestError> {
        if uri.contains("missing") {
            return Err(RequestError::NotFound);
        }
        let mut answer = json!({ "version": version(), "uri": uri });
        if uri.contains("asks") {
            answer["answer"] = asked();
        }
        Ok(vec![EmbeddedResource {
            uri,
            mime_type: Some("application/json".to_owned()),
            contents: ResourceContents::Text(answer.to_string()),
        }])
    }
}

impl completions::Guest for Chameleon {
    fn complete(
        _reference: CompletionReference,
        _argument: String,
        value: String,
        _context: Vec<(String, String)>,
    ) -> Result<Completion, RequestError> {
        let values: Vec<_> = ["blue", "brown", "green", "grey", "red"]
            .into_iter()
            .filter(|colour| colour.starts_with(&value))
            .map(str::to_owned)
            .collect();
        Ok(Completion { total: u32::try_from(values.len()).ok(), values, has_more: false })
    }
}

/// What the caller says to one question.
fn asked() -> Value {
    let schema = json!({ "type": "object", "properties": { "value": { "type": "string" } } }).to_string();
    let question = Question::Form(FormQuestion { message: "What?".to_owned(), schema });
    match call::request_input(&[InputRequest { key: "question".to_owned(), question }]).as_deref() {
        Ok([InputAnswer::Accepted(content)]) => serde_json::from_str(content).unwrap_or_default(),
        Ok(_) => "declined".into(),
        Err(e) => e.to_string().into(),
    }
}

fn version() -> Value {
    catalog()["version"].take()
}

fn list<T>(what: &str, of: fn(&Value) -> T) -> Vec<T> {
    catalog()[what].as_array().into_iter().flatten().map(of).collect()
}

fn tool(tool: &Value) -> Tool {
    let hint = |name: &str| tool["annotations"][name].as_bool();
    Tool {
        name: text(&tool["name"]).unwrap_or_default(),
        title: text(&tool["title"]),
        description: text(&tool["description"]).unwrap_or_default(),
        input_schema: text(&tool["inputSchema"]).unwrap_or_else(|| r#"{"type":"object"}"#.to_owned()),
        output_schema: text(&tool["outputSchema"]),
        annotations: ToolAnnotations {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        },
        extra: text(&tool["extra"]),
    }
}

fn prompt(prompt: &Value) -> Prompt {
    Prompt {
        name: text(&prompt["name"]).unwrap_or_default(),
        title: text(&prompt["title"]),
        description: text(&prompt["description"]),
        arguments: prompt["arguments"].as_array().into_iter().flatten().map(argument).collect(),
        extra: text(&prompt["extra"]),
    }
}

fn argument(argument: &Value) -> PromptArgument {
    PromptArgument {
        name: text(&argument["name"]).unwrap_or_default(),
        title: text(&argument["title"]),
        description: text(&argument["description"]),
        required: argument["required"].as_bool().unwrap_or(false),
    }
}

fn resource(resource: &Value) -> ResourceInfo {
    ResourceInfo {
        uri: text(&resource["uri"]).unwrap_or_default(),
        name: text(&resource["name"]).unwrap_or_default(),
        title: text(&resource["title"]),
        description: text(&resource["description"]),
        mime_type: text(&resource["mimeType"]),
        size: resource["size"].as_u64(),
        extra: text(&resource["extra"]),
    }
}

fn template(template: &Value) -> ResourceTemplate {
    ResourceTemplate {
        uri_template: text(&template["uriTemplate"]).unwrap_or_default(),
        name: text(&template["name"]).unwrap_or_default(),
        title: text(&template["title"]),
        description: text(&template["description"]),
        mime_type: text(&template["mimeType"]),
        extra: text(&template["extra"]),
    }
}

/// A string as it is, anything else as JSON, and `null` as nothing.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(target_family = "wasm")]
bindings::export!(Chameleon with_types_in bindings);
