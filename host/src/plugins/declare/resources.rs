//! Resources and their templates: what `list-resources` and `list-templates` answer.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::{add_extra, counted, put_texts, sized, typed};
use crate::{
    capabilities::wit_types,
    config::CatalogConfig,
    plugins::{
        UriTemplate,
        problem::{Problem, neutral},
    },
};

/// Members of `extra`.
const EXTRA: [&str; 3] = ["annotations", "icons", "_meta"];
/// Largest whole number that every JSON reader keeps exactly: 2^53 - 1.
const EXACT: u64 = (1 << 53) - 1;
/// Characters of a URI that a message quotes.
const QUOTED: usize = 200;

/// One resource as its plugin declares it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::plugins) struct DeclaredResource {
    pub(in crate::plugins) uri: String,
    pub(in crate::plugins) name: String,
    pub(in crate::plugins) title: Option<String>,
    pub(in crate::plugins) description: Option<String>,
    pub(in crate::plugins) mime_type: Option<String>,
    pub(in crate::plugins) size: Option<u64>,
    pub(in crate::plugins) extra: Option<String>,
}

/// One resource template as its plugin declares it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::plugins) struct DeclaredTemplate {
    pub(in crate::plugins) uri_template: String,
    pub(in crate::plugins) name: String,
    pub(in crate::plugins) title: Option<String>,
    pub(in crate::plugins) description: Option<String>,
    pub(in crate::plugins) mime_type: Option<String>,
    pub(in crate::plugins) extra: Option<String>,
}

impl From<wit_types::ResourceInfo> for DeclaredResource {
    fn from(r: wit_types::ResourceInfo) -> Self {
        Self {
            uri: r.uri,
            name: r.name,
            title: r.title,
            description: r.description,
            mime_type: r.mime_type,
            size: r.size,
            extra: r.extra,
        }
    }
}

impl From<wit_types::ResourceTemplate> for DeclaredTemplate {
    fn from(t: wit_types::ResourceTemplate) -> Self {
        Self {
            uri_template: t.uri_template,
            name: t.name,
            title: t.title,
            description: t.description,
            mime_type: t.mime_type,
            extra: t.extra,
        }
    }
}

/// One template that may be served.
#[derive(Debug)]
pub(in crate::plugins) struct BuiltTemplate {
    pub(in crate::plugins) uris: UriTemplate,
    pub(in crate::plugins) listed: rmcp::model::ResourceTemplate,
}

/// Checks all resources of one plugin.
pub(super) fn build(
    declared: &[DeclaredResource],
    bounds: &CatalogConfig,
) -> Result<Vec<rmcp::model::Resource>, Problem> {
    counted("list-resources", declared.len(), "max-resources", bounds.max_resources)?;
    let mut uris = BTreeSet::new();
    declared
        .iter()
        .map(|resource| {
            let whose = format!("resource {:?}", neutral(&resource.uri, QUOTED));
            let bad = |reason: &str| Problem::bad_resource(format!("{whose}: {reason}"));
            absolute(&resource.uri).map_err(|reason| bad(&reason))?;
            if !uris.insert(resource.uri.as_str()) {
                return Err(bad("it is listed twice"));
            }
            if resource.size.is_some_and(|size| size > EXACT) {
                return Err(bad("its size is over 2^53 - 1, which JSON cannot say exactly"));
            }
            let texts = common(&resource.name, &resource.title, &resource.description, &resource.mime_type);
            let mut map = item(&whose, texts, resource.extra.as_ref(), bounds)?;
            map.insert("uri".into(), resource.uri.as_str().into());
            if let Some(size) = resource.size {
                map.insert("size".into(), size.into());
            }
            typed(map).map_err(|reason| bad(&reason))
        })
        .collect()
}

/// Checks all templates of one plugin.
pub(super) fn build_templates(
    declared: &[DeclaredTemplate],
    bounds: &CatalogConfig,
) -> Result<Vec<BuiltTemplate>, Problem> {
    counted("list-templates", declared.len(), "max-templates", bounds.max_templates)?;
    let mut known = BTreeSet::new();
    declared
        .iter()
        .map(|template| {
            let whose = format!("template {:?}", neutral(&template.uri_template, QUOTED));
            let bad = |reason: &str| Problem::bad_resource(format!("{whose}: {reason}"));
            let uris = UriTemplate::parse(&template.uri_template).map_err(|reason| bad(&reason))?;
            if !known.insert(template.uri_template.as_str()) {
                return Err(bad("it is listed twice"));
            }
            let texts = common(&template.name, &template.title, &template.description, &template.mime_type);
            let mut map = item(&whose, texts, template.extra.as_ref(), bounds)?;
            map.insert("uriTemplate".into(), template.uri_template.as_str().into());
            Ok(BuiltTemplate { uris, listed: typed(map).map_err(|reason| bad(&reason))? })
        })
        .collect()
}

type Texts<'a> = [(&'static str, Option<&'a String>); 4];

fn common<'a>(
    name: &'a String,
    title: &'a Option<String>,
    description: &'a Option<String>,
    mime_type: &'a Option<String>,
) -> Texts<'a> {
    [
        ("name", Some(name)),
        ("title", title.as_ref()),
        ("description", description.as_ref()),
        ("mimeType", mime_type.as_ref()),
    ]
}

/// What resources and templates have in common.
fn item(
    whose: &str,
    texts: Texts<'_>,
    extra: Option<&String>,
    bounds: &CatalogConfig,
) -> Result<Map<String, serde_json::Value>, Problem> {
    if texts[0].1.is_none_or(|name| name.trim().is_empty()) {
        return Err(Problem::bad_resource(format!("{whose}: its name is empty")));
    }
    sized(whose, texts, bounds)?;
    let mut map = Map::new();
    put_texts(&mut map, texts);
    add_extra(&mut map, extra, &EXTRA, bounds)
        .map_err(|reason| Problem::bad_resource(format!("{whose}: {reason}")))?;
    Ok(map)
}

/// An absolute URI of RFC 3986, as clients' own readers take it.
fn absolute(uri: &str) -> Result<(), String> {
    let most = CatalogConfig::URI;
    if uri.len() > most {
        return Err(format!("it has {} bytes, more than {most}", uri.len()));
    }
    let outside =
        |c: char| !c.is_ascii_graphic() || matches!(c, '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}');
    if let Some(c) = uri.chars().find(|c| outside(*c)) {
        return Err(format!("{c:?} cannot stand in a URI; percent-encode it"));
    }
    match url::Url::parse(uri) {
        Ok(_) => Ok(()),
        Err(url::ParseError::RelativeUrlWithoutBase) => {
            Err("it is not absolute: it must begin with a scheme, such as `docs:`".to_owned())
        }
        Err(e) => Err(format!("it is not a URI: {e}")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use serde_json::json;

    use super::*;

    fn resource(uri: &str) -> DeclaredResource {
        DeclaredResource { uri: uri.into(), name: "n".into(), ..DeclaredResource::default() }
    }

    fn template(text: &str) -> DeclaredTemplate {
        DeclaredTemplate { uri_template: text.into(), name: "n".into(), ..DeclaredTemplate::default() }
    }

    #[test]
    fn a_resource_becomes_what_mcp_lists() {
        let declared = DeclaredResource {
            mime_type: Some("text/plain".into()),
            size: Some(7),
            extra: Some(r#"{"annotations":{"audience":["user"],"priority":0.5},"_meta":{"a":1}}"#.into()),
            ..resource("docs://a/b?c#d")
        };
        let built = build(&[declared], &CatalogConfig::default()).unwrap();
        assert_eq!(
            serde_json::to_value(&built[0]).unwrap(),
            json!({"uri": "docs://a/b?c#d", "name": "n", "mimeType": "text/plain", "size": 7,
                "annotations": {"audience": ["user"], "priority": 0.5}, "_meta": {"a": 1}})
        );
        let built = build_templates(&[template("docs://{id}")], &CatalogConfig::default()).unwrap();
        assert_eq!(
            serde_json::to_value(&built[0].listed).unwrap(),
            json!({"uriTemplate": "docs://{id}", "name": "n"})
        );
        assert!(built[0].uris.fits("docs://7"));
    }

    #[test]
    fn bad_resources_are_refused_by_code() {
        let with = |extra: &str| DeclaredResource { extra: Some(extra.into()), ..resource("a:b") };
        let long = format!("a:{}", "b".repeat(CatalogConfig::URI));
        for bad in [
            resource(""),
            resource("relative/path"),
            resource("//host/path"),
            resource("a:b c"),
            resource("a:ä"),
            resource("a:{b}"),
            resource("http://"),
            resource(&long),
            DeclaredResource { name: " ".into(), ..resource("a:b") },
            DeclaredResource { size: Some(1 << 53), ..resource("a:b") },
            with(r#"{"name":"x"}"#),
            with(r#"{"annotations":{"priority":2}}"#),
            with(r#"{"annotations":{"audience":["everybody"]}}"#),
            with(r#"{"annotations":3}"#),
        ] {
            let found = build(std::slice::from_ref(&bad), &CatalogConfig::default());
            assert_eq!(found.expect_err("must be refused").code, "plugin_bad_resource", "{bad:?}");
        }
        let twice = build(&[resource("a:b"), resource("a:b")], &CatalogConfig::default());
        assert_eq!(twice.unwrap_err().code, "plugin_bad_resource");
        let most = CatalogConfig::default().max_resources;
        let many: Vec<_> = (0..=most).map(|i| resource(&format!("a:{i}"))).collect();
        assert_eq!(build(&many, &CatalogConfig::default()).unwrap_err().code, "plugin_too_large");
    }

    #[test]
    fn bad_templates_are_refused_by_code() {
        for bad in [
            template("a:{"),
            template("a:{!x}"),
            DeclaredTemplate { name: String::new(), ..template("a:{b}") },
            DeclaredTemplate { extra: Some(r#"{"size":3}"#.into()), ..template("a:{b}") },
        ] {
            let found = build_templates(std::slice::from_ref(&bad), &CatalogConfig::default());
            assert_eq!(found.expect_err("must be refused").code, "plugin_bad_resource", "{bad:?}");
        }
        let twice = build_templates(&[template("a:{b}"), template("a:{b}")], &CatalogConfig::default());
        assert_eq!(twice.unwrap_err().code, "plugin_bad_resource");
    }
}
