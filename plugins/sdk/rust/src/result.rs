use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    Result, schema,
    types::{Content, EmbeddedResource, Media, ResourceLink, ToolResult},
};

/// What a tool may return.
pub trait IntoResult {
    /// The schema of the structured content, where there is one. Asked for only when the host
    /// lists the tools.
    fn output_schema() -> Option<String> {
        None
    }

    /// The result as the host takes it.
    fn into_result(self) -> Result<ToolResult>;
}

/// A structured result: `T` as JSON, both as structured content and as text, with the schema of
/// `T` as the tool's output schema.
#[derive(Clone, Copy, Debug)]
pub struct Json<T>(pub T);

impl<T: Serialize + JsonSchema> IntoResult for Json<T> {
    fn output_schema() -> Option<String> {
        Some(schema::of_output::<T>())
    }

    fn into_result(self) -> Result<ToolResult> {
        let json = serde_json::to_string(&self.0)?;
        Ok(ToolResult {
            content: vec![Content::Text(json.clone())],
            structured_content: Some(json),
            meta: None,
        })
    }
}

/// A structured result with content of its own beside it, for people.
#[derive(Clone, Debug)]
pub struct Structured<T> {
    /// What the result says in words.
    pub text: String,
    /// The structured content.
    pub value: T,
}

impl<T: Serialize + JsonSchema> IntoResult for Structured<T> {
    fn output_schema() -> Option<String> {
        Some(schema::of_output::<T>())
    }

    fn into_result(self) -> Result<ToolResult> {
        Ok(ToolResult {
            content: vec![Content::Text(self.text)],
            structured_content: Some(serde_json::to_string(&self.value)?),
            meta: None,
        })
    }
}

impl IntoResult for ToolResult {
    fn into_result(self) -> Result<ToolResult> {
        Ok(self)
    }
}

impl IntoResult for Vec<Content> {
    fn into_result(self) -> Result<ToolResult> {
        Ok(ToolResult { content: self, structured_content: None, meta: None })
    }
}

macro_rules! one {
    ($($t:ty => $into:expr),+ $(,)?) => {$(
        impl IntoResult for $t {
            fn into_result(self) -> Result<ToolResult> {
                #[allow(clippy::redundant_closure_call)]
                vec![($into)(self)].into_result()
            }
        }
    )+};
}

one! {
    Content => |content| content,
    String => Content::Text,
    &str => |text: &str| Content::Text(text.to_owned()),
    EmbeddedResource => Content::Embedded,
    ResourceLink => Content::ResourceLink,
}

impl IntoResult for () {
    fn into_result(self) -> Result<ToolResult> {
        Vec::<Content>::new().into_result()
    }
}

macro_rules! content {
    ($($t:ty => $into:expr),+ $(,)?) => {$(
        impl From<$t> for Content {
            fn from(value: $t) -> Self {
                $into(value)
            }
        }
    )+};
}

content! {
    String => Content::Text,
    EmbeddedResource => Content::Embedded,
    ResourceLink => Content::ResourceLink,
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Content::Text(text.to_owned())
    }
}

/// Bytes of a media type, for [`Content::Image`] and [`Content::Audio`].
pub fn media(mime_type: impl Into<String>, data: impl Into<Vec<u8>>) -> Media {
    Media { data: data.into(), mime_type: mime_type.into() }
}
