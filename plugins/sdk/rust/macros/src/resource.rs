//! `#[resource]` and `#[template]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Expr, ItemFn, LitStr, Result};

use crate::{
    function::{Shape, doc_of, name_of, option, with_type},
    options::Options,
};

const RESOURCE: &[&str] = &["uri", "name", "title", "description", "mime_type", "size", "extra"];
const TEMPLATE: &[&str] = &["uri_template", "name", "title", "description", "mime_type", "extra"];

pub(crate) fn resource(mut options: Options, item: &ItemFn) -> Result<TokenStream> {
    options.check(RESOURCE)?;
    let body = Shape::of(item, "a resource")?.without_arguments("a resource")?.body(&item.sig.ident);
    let uri = options.text("uri")?.ok_or_else(|| {
        Error::new(item.sig.ident.span(), "a resource needs its URI: `#[resource(uri = \"…\")]`")
    })?;
    check_scheme(&uri, &uri.value())?;
    let size = option(options.value::<Expr>("size")?.as_ref());
    let mime_type = option(options.text("mime_type")?.as_ref());
    let attributes = attributes(&mut options, item, &mime_type)?;
    let (item, ident) = (with_type(item), &item.sig.ident);
    Ok(quote! {
        #item

        impl ::layby_plugin::Resource for #ident {
            const URI: &'static str = #uri;

            fn definition() -> ::layby_plugin::types::ResourceInfo {
                ::layby_plugin::__private::resource::resource_definition(Self::URI, &#attributes, #size)
            }

            fn read() -> ::std::result::Result<
                ::std::vec::Vec<::layby_plugin::types::EmbeddedResource>,
                ::layby_plugin::types::RequestError,
            > {
                ::layby_plugin::__private::resource::serve_resource(Self::URI, #mime_type, #body)
            }
        }
    })
}

pub(crate) fn template(mut options: Options, item: &ItemFn) -> Result<TokenStream> {
    options.check(TEMPLATE)?;
    let body = Shape::of(item, "a template")?.body(&item.sig.ident);
    let uri_template = options.text("uri_template")?.ok_or_else(|| {
        let what = "a template needs its URI template: `#[template(uri_template = \"…\")]`";
        Error::new(item.sig.ident.span(), what)
    })?;
    check_template(&uri_template)?;
    let mime_type = option(options.text("mime_type")?.as_ref());
    let attributes = attributes(&mut options, item, &mime_type)?;
    let (item, ident) = (with_type(item), &item.sig.ident);
    Ok(quote! {
        #item

        impl ::layby_plugin::Template for #ident {
            const URI_TEMPLATE: &'static str = #uri_template;

            fn definition() -> ::layby_plugin::types::ResourceTemplate {
                ::layby_plugin::__private::resource::template_definition(Self::URI_TEMPLATE, &#attributes)
            }

            fn read(uri: &str) -> ::std::option::Option<::std::result::Result<
                ::std::vec::Vec<::layby_plugin::types::EmbeddedResource>,
                ::layby_plugin::types::RequestError,
            >> {
                ::layby_plugin::__private::resource::serve_template(Self::URI_TEMPLATE, uri, #mime_type, #body)
            }
        }
    })
}

/// What a resource and a template have in common.
fn attributes(options: &mut Options, item: &ItemFn, mime_type: &TokenStream) -> Result<TokenStream> {
    let name = name_of(options.text("name")?, item);
    let title = option(options.text("title")?.as_ref());
    let description = option(options.text("description")?.or_else(|| doc_of(&item.attrs)).as_ref());
    let extra = option(options.value::<Expr>("extra")?.as_ref());
    Ok(quote! {
        ::layby_plugin::__private::resource::Attributes {
            name: #name,
            title: #title,
            description: #description,
            mime_type: #mime_type,
            extra: #extra,
        }
    })
}

fn check_scheme(at: &LitStr, uri: &str) -> Result<()> {
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    if scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(fine) {
        return Ok(());
    }
    Err(Error::new(at.span(), "a URI begins with its scheme, such as `notes:`"))
}

/// The kinds of expression that a URI can be read back by; `uri.rs` of the kit reads them.
fn check_template(template: &LitStr) -> Result<()> {
    let text = template.value();
    check_scheme(template, &text)?;
    let refuse = |what: &str| Err(Error::new(template.span(), what));
    let mut rest = text.as_str();
    while let Some(at) = rest.find(['{', '}']) {
        let Some((expression, after)) = rest[at..].strip_prefix('{').and_then(|rest| rest.split_once('}'))
        else {
            return refuse("a brace of this URI template has no partner");
        };
        let names = expression.strip_prefix(['+', '#', '.', '/', '?', '&']).unwrap_or(expression);
        let name =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !names.split(',').all(name) {
            return refuse(
                "an expression of this URI template is none of `{name}`, `{+name}`, `{#name}`, `{.name}`, \
                 `{/name}`, `{?name}` and `{&name}`, each with one name or several between commas, \
                 and a URI cannot be read back by any other",
            );
        }
        rest = after;
    }
    Ok(())
}
