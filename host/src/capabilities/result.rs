//! From a plugin's results to MCP's: tools, prompts, resources, completions.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rmcp::model::{
    AudioContent, CacheScope, CallToolResult, CompletionInfo, ContentBlock, EmbeddedResource,
    GetPromptResult, ImageContent, MetaObject, PromptMessage, ReadResourceResult, Resource, ResourceContents,
    Role,
};
use serde_json::Value;

use super::wit_types::{self as wit, Content};

/// A result that is none in MCP: what is wrong with it, for the plugin's author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotMcp(pub String);

/// MCP's form of `result`, with `isError` as given.
///
/// # Errors
/// JSON that does not parse, a content block that MCP does not have, or a `_meta` name that is not the plugin's.
pub fn call_tool_result(result: wit::ToolResult, is_error: bool) -> Result<CallToolResult, NotMcp> {
    let wit::ToolResult { content, structured_content, meta } = result;
    let content = content
        .into_iter()
        .enumerate()
        .map(|(n, c)| block(c).map_err(|e| NotMcp(format!("content[{n}]: {e}"))));
    let content = content.collect::<Result<Vec<_>, _>>()?;
    // Both set `resultType: complete`, without which no client of 2026-07-28 takes the result.
    let mut out = if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    if let Some(json) = structured_content {
        let value = serde_json::from_str(&json);
        out.structured_content =
            Some(value.map_err(|e| NotMcp(format!("structured-content is not JSON: {e}")))?);
    }
    if let Some(json) = meta {
        out.meta = Some(metadata(&json).map_err(|e| NotMcp(format!("meta: {e}")))?);
    }
    Ok(out)
}

/// True where nobody could tell from `result`, which is to say that something went wrong, what that was.
pub fn is_silent(result: &wit::ToolResult) -> bool {
    let blank = |block: &wit::Content| matches!(block, wit::Content::Text(text) if text.trim().is_empty());
    result.structured_content.is_none() && result.content.iter().all(blank)
}

/// MCP's form of a prompt.
///
/// # Errors
/// A content block that MCP does not have, or a `_meta` name that is not the plugin's.
pub fn get_prompt_result(result: wit::PromptResult) -> Result<GetPromptResult, NotMcp> {
    let messages = result.messages.into_iter().enumerate().map(|(n, message)| {
        let role = match message.role {
            wit::Role::User => Role::User,
            wit::Role::Assistant => Role::Assistant,
        };
        let content = block(message.content).map_err(|e| NotMcp(format!("messages[{n}]: {e}")))?;
        Ok(PromptMessage::new(role, content))
    });
    let mut out = GetPromptResult::new(messages.collect::<Result<_, _>>()?);
    out.description = result.description;
    if let Some(json) = result.meta {
        out.meta = Some(metadata(&json).map_err(|e| NotMcp(format!("meta: {e}")))?);
    }
    Ok(out)
}

/// MCP's form of a resource's contents. Nobody may keep them: only the plugin knows when they change.
pub fn read_resource_result(contents: Vec<wit::EmbeddedResource>) -> ReadResourceResult {
    ReadResourceResult::new(contents.into_iter().map(resource_contents).collect())
        .with_ttl_ms(0)
        .with_cache_scope(CacheScope::Private)
}

/// MCP's form of a completion.
///
/// # Errors
/// More values than MCP allows.
pub fn completion(completion: wit::Completion) -> Result<CompletionInfo, NotMcp> {
    let wit::Completion { values, total, has_more } = completion;
    let mut out = CompletionInfo::new(values).map_err(NotMcp)?;
    (out.total, out.has_more) = (total, Some(has_more));
    Ok(out)
}

fn block(content: Content) -> Result<ContentBlock, String> {
    Ok(match content {
        Content::Text(text) => ContentBlock::text(text),
        Content::Image(m) => ContentBlock::Image(ImageContent::new(STANDARD.encode(m.data), m.mime_type)),
        Content::Audio(m) => ContentBlock::Audio(AudioContent::new(STANDARD.encode(m.data), m.mime_type)),
        Content::ResourceLink(link) => {
            let mut resource = Resource::new(link.uri, link.name);
            resource.title = link.title;
            resource.description = link.description;
            resource.mime_type = link.mime_type;
            ContentBlock::ResourceLink(resource)
        }
        Content::Embedded(e) => ContentBlock::Resource(EmbeddedResource::new(resource_contents(e))),
        Content::Other(json) => {
            serde_json::from_str(&json).map_err(|e| format!("it is not a content block of MCP: {e}"))?
        }
    })
}

fn resource_contents(resource: wit::EmbeddedResource) -> ResourceContents {
    let (uri, mime_type, meta) = (resource.uri, resource.mime_type, None);
    match resource.contents {
        wit::ResourceContents::Text(text) => {
            ResourceContents::TextResourceContents { uri, mime_type, text, meta }
        }
        wit::ResourceContents::Blob(blob) => {
            ResourceContents::BlobResourceContents { uri, mime_type, blob: STANDARD.encode(blob), meta }
        }
    }
}

fn metadata(json: &str) -> Result<MetaObject, String> {
    let map = match serde_json::from_str(json) {
        Ok(Value::Object(map)) => map,
        Ok(_) => return Err("it is not a JSON object".into()),
        Err(e) => return Err(format!("it is not JSON: {e}")),
    };
    if let Some(name) = map.keys().find(|k| is_reserved(k)) {
        return Err(format!(
            "{name:?} is not the plugin's to set; use a prefix of your own, as in \"org.example/x\""
        ));
    }
    Ok(MetaObject(map))
}

/// True for names of MCP's own (2026-07-28, basic, `_meta`) and of this host.
fn is_reserved(name: &str) -> bool {
    if matches!(name, "progressToken" | "traceparent" | "tracestate" | "baggage") {
        return true;
    }
    let Some((prefix, _)) = name.split_once('/') else { return false };
    let second = prefix.split('.').nth(1);
    matches!(second, Some("modelcontextprotocol" | "mcp")) || prefix == "layby"
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn convert(content: Vec<Content>, structured: Option<&str>, meta: Option<&str>) -> Result<Value, String> {
        let structured_content = structured.map(Into::into);
        let result = wit::ToolResult { content, structured_content, meta: meta.map(Into::into) };
        call_tool_result(result, false).map(|r| serde_json::to_value(r).unwrap()).map_err(|e| e.0)
    }

    #[test]
    fn every_kind_of_content() {
        let media = || wit::Media { data: vec![1, 2, 3], mime_type: "x/y".into() };
        let embedded = |contents| wit::EmbeddedResource { uri: "a:b".into(), mime_type: None, contents };
        let link = wit::ResourceLink {
            uri: "a:b".into(),
            name: "n".into(),
            title: Some("t".into()),
            description: None,
            mime_type: None,
        };
        let content = vec![
            Content::Text("hi".into()),
            Content::Image(media()),
            Content::Audio(media()),
            Content::ResourceLink(link),
            Content::Embedded(embedded(wit::ResourceContents::Text("x".into()))),
            Content::Embedded(embedded(wit::ResourceContents::Blob(vec![255]))),
            Content::Other(
                json!({"type": "text", "text": "o", "annotations": {"priority": 1.0}}).to_string(),
            ),
        ];
        let value = convert(content, Some("null"), Some(r#"{"org.example/x":1}"#)).unwrap();
        assert_eq!(value["resultType"], "complete");
        assert_eq!(value["structuredContent"], Value::Null);
        assert_eq!(value["_meta"], json!({"org.example/x": 1}));
        assert_eq!(
            value["content"],
            json!([
                {"type": "text", "text": "hi"},
                {"type": "image", "data": "AQID", "mimeType": "x/y"},
                {"type": "audio", "data": "AQID", "mimeType": "x/y"},
                {"type": "resource_link", "uri": "a:b", "name": "n", "title": "t"},
                {"type": "resource", "resource": {"uri": "a:b", "text": "x"}},
                {"type": "resource", "resource": {"uri": "a:b", "blob": "/w=="}},
                {"type": "text", "text": "o", "annotations": {"priority": 1.0}},
            ])
        );
    }

    #[test]
    fn reasons() {
        let other = |json: &str| convert(vec![Content::Other(json.into())], None, None).unwrap_err();
        assert!(other("{").starts_with("content[0]: it is not"));
        assert!(other(r#"{"type":"video"}"#).contains("not a content block"));
        assert!(convert(vec![], Some("x"), None).unwrap_err().contains("structured-content"));
        assert!(convert(vec![], None, Some("[]")).unwrap_err().contains("not a JSON object"));
        for name in ["io.modelcontextprotocol/x", "dev.mcp/y", "layby/z", "progressToken"] {
            let meta = json!({name: 1}).to_string();
            assert!(convert(vec![], None, Some(&meta)).unwrap_err().contains(name));
        }
        assert!(convert(vec![], None, Some(r#"{"com.example.mcp/x":1}"#)).is_ok());
    }

    #[test]
    fn prompts_resources_and_completions() {
        let message = |role, text: &str| wit::PromptMessage { role, content: Content::Text(text.into()) };
        let messages = vec![message(wit::Role::User, "a"), message(wit::Role::Assistant, "b")];
        let prompt = wit::PromptResult { description: Some("d".into()), messages, meta: None };
        assert_eq!(
            serde_json::to_value(get_prompt_result(prompt).unwrap()).unwrap(),
            json!({"resultType": "complete", "description": "d", "messages": [
                {"role": "user", "content": {"type": "text", "text": "a"}},
                {"role": "assistant", "content": {"type": "text", "text": "b"}},
            ]})
        );
        let content = Content::Other("{".into());
        let messages = vec![wit::PromptMessage { role: wit::Role::User, content }];
        let prompt = wit::PromptResult { description: None, messages, meta: None };
        assert!(get_prompt_result(prompt).unwrap_err().0.starts_with("messages[0]"));

        let contents = wit::ResourceContents::Blob(vec![255]);
        let read = read_resource_result(vec![wit::EmbeddedResource {
            uri: "a:b".into(),
            mime_type: Some("x/y".into()),
            contents,
        }]);
        assert_eq!(
            serde_json::to_value(read).unwrap(),
            json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "contents": [{"uri": "a:b", "mimeType": "x/y", "blob": "/w=="}]})
        );

        let many = |n| wit::Completion { values: vec!["v".into(); n], total: None, has_more: true };
        assert_eq!(completion(many(100)).unwrap().has_more, Some(true));
        assert!(completion(many(101)).is_err());
    }
}
