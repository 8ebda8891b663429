use serde::Serialize;

use crate::{
    Arguments, Error, Json, Result,
    types::{EmbeddedResource, RequestError, ResourceContents, ResourceInfo, ResourceTemplate},
    uri,
};

/// A resource; `#[resource]` implements it.
pub trait Resource {
    /// Its absolute URI.
    const URI: &'static str;

    /// What the host shows of it.
    fn definition() -> ResourceInfo;

    /// Reads it.
    fn read() -> std::result::Result<Vec<EmbeddedResource>, RequestError>;
}

/// A family of resources; `#[template]` implements it.
pub trait Template {
    /// The URI template (RFC 6570).
    const URI_TEMPLATE: &'static str;

    /// What the host shows of it.
    fn definition() -> ResourceTemplate;

    /// Reads the resource with this URI; none if the URI does not fit the template.
    fn read(uri: &str) -> Option<std::result::Result<Vec<EmbeddedResource>, RequestError>>;
}

/// What a resource may return.
pub trait IntoContents {
    /// The contents as the host takes them: of this URI, and of this media type where they have no
    /// own.
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<Vec<EmbeddedResource>>;
}

fn one(
    uri: &str,
    mime_type: Option<&str>,
    or: Option<&str>,
    contents: ResourceContents,
) -> Result<Vec<EmbeddedResource>> {
    let mime_type = mime_type.or(or).map(str::to_owned);
    Ok(vec![EmbeddedResource { uri: uri.to_owned(), mime_type, contents }])
}

/// Text; `text/plain` where the attribute says nothing else.
impl IntoContents for String {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<Vec<EmbeddedResource>> {
        one(uri, mime_type, Some("text/plain"), ResourceContents::Text(self))
    }
}

/// Text; `text/plain` where the attribute says nothing else.
impl IntoContents for &str {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<Vec<EmbeddedResource>> {
        self.to_owned().into_contents(uri, mime_type)
    }
}

/// Bytes.
impl IntoContents for Vec<u8> {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<Vec<EmbeddedResource>> {
        one(uri, mime_type, None, ResourceContents::Blob(self))
    }
}

/// Bytes.
impl IntoContents for &[u8] {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<Vec<EmbeddedResource>> {
        self.to_vec().into_contents(uri, mime_type)
    }
}

/// JSON text; `application/json` where the attribute says nothing else.
impl<T: Serialize> IntoContents for Json<T> {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<Vec<EmbeddedResource>> {
        let text = serde_json::to_string(&self.0)?;
        one(uri, mime_type, Some("application/json"), ResourceContents::Text(text))
    }
}

/// As it is.
impl IntoContents for EmbeddedResource {
    fn into_contents(self, _uri: &str, _mime_type: Option<&str>) -> Result<Vec<EmbeddedResource>> {
        Ok(vec![self])
    }
}

/// Several contents, as they are.
impl IntoContents for Vec<EmbeddedResource> {
    fn into_contents(self, _uri: &str, _mime_type: Option<&str>) -> Result<Vec<EmbeddedResource>> {
        Ok(self)
    }
}

/// Contents with a URI and a media type of their own, where a resource returns several.
pub fn text_contents(
    uri: impl Into<String>,
    mime_type: impl Into<String>,
    text: impl Into<String>,
) -> EmbeddedResource {
    EmbeddedResource {
        uri: uri.into(),
        mime_type: Some(mime_type.into()),
        contents: ResourceContents::Text(text.into()),
    }
}

/// What the attributes of a resource and of a template have in common.
#[doc(hidden)]
#[derive(Debug)]
pub struct Attributes<'a> {
    pub name: &'a str,
    pub title: Option<&'a str>,
    pub description: Option<&'a str>,
    pub mime_type: Option<&'a str>,
    pub extra: Option<&'a str>,
}

#[doc(hidden)]
pub fn resource_definition(uri: &str, attributes: &Attributes<'_>, size: Option<u64>) -> ResourceInfo {
    ResourceInfo {
        uri: uri.to_owned(),
        name: attributes.name.to_owned(),
        title: attributes.title.map(str::to_owned),
        description: attributes.description.map(str::to_owned),
        mime_type: attributes.mime_type.map(str::to_owned),
        size,
        extra: attributes.extra.map(str::to_owned),
    }
}

#[doc(hidden)]
pub fn template_definition(uri_template: &str, attributes: &Attributes<'_>) -> ResourceTemplate {
    ResourceTemplate {
        uri_template: uri_template.to_owned(),
        name: attributes.name.to_owned(),
        title: attributes.title.map(str::to_owned),
        description: attributes.description.map(str::to_owned),
        mime_type: attributes.mime_type.map(str::to_owned),
        extra: attributes.extra.map(str::to_owned),
    }
}

/// Serves a request with a resource's body, in the code that `#[resource]` writes.
#[doc(hidden)]
pub fn serve_resource<A: Arguments, T: IntoContents>(
    uri: &str,
    mime_type: Option<&str>,
    body: fn(A) -> Result<T>,
) -> std::result::Result<Vec<EmbeddedResource>, RequestError> {
    serve(Vec::new(), uri, mime_type, body).map_err(RequestError::from)
}

/// Serves a request with a template's body, in the code that `#[template]` writes.
#[doc(hidden)]
pub fn serve_template<A: Arguments, T: IntoContents>(
    template: &str,
    uri: &str,
    mime_type: Option<&str>,
    body: fn(A) -> Result<T>,
) -> Option<std::result::Result<Vec<EmbeddedResource>, RequestError>> {
    let variables = uri::fit(template, uri)?;
    Some(serve(variables, uri, mime_type, body).map_err(RequestError::from))
}

fn serve<A: Arguments, T: IntoContents>(
    variables: Vec<(String, String)>,
    uri: &str,
    mime_type: Option<&str>,
    body: fn(A) -> Result<T>,
) -> Result<Vec<EmbeddedResource>> {
    let variables = A::from_pairs(variables)
        .map_err(|e| Error::protocol(Error::INVALID, format!("the URI's variables do not fit: {e}")))?;
    body(variables)?.into_contents(uri, mime_type)
}
