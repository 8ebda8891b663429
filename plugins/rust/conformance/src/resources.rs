//! The resources that the suite reads.

use layby_plugin::prelude::*;

use crate::basic::PNG;

/// Text.
#[resource(uri = "test://static-text", mime_type = "text/plain")]
pub(crate) fn static_text() -> Result<&'static str> {
    Ok("This is the content of the static text resource.")
}

/// An image.
#[resource(uri = "test://static-binary", mime_type = "image/png")]
pub(crate) fn static_binary() -> Result<&'static [u8]> {
    Ok(PNG)
}

/// Can be subscribed to; it never changes.
#[resource(uri = "test://watched-resource", mime_type = "text/plain")]
pub(crate) fn watched_resource() -> Result<&'static str> {
    Ok("This is the content of the watched resource.")
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Of {
    id: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Data {
    id: String,
    template_test: bool,
    data: String,
}

/// The data of any id.
#[template(uri_template = "test://template/{id}/data", mime_type = "application/json")]
pub(crate) fn template_data(of: Of) -> Result<Json<Data>> {
    let data = format!("Data for ID: {}", of.id);
    Ok(Json(Data { id: of.id, template_test: true, data }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use layby_plugin::{testing::Host, types::ResourceContents};

    use super::*;

    #[test]
    fn a_template_has_the_suites_json() {
        let read = Host::new().read_template::<template_data>("test://template/123/data").unwrap();
        let json = r#"{"id":"123","templateTest":true,"data":"Data for ID: 123"}"#;
        assert!(matches!(&read[0].contents, ResourceContents::Text(text) if text == json), "{read:?}");
    }
}
