//! `#[tool]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Expr, ItemFn, Result};

use crate::{
    function::{Shape, check_name, doc_of, name_of, option, with_type},
    options::Options,
};

const KNOWN: &[&str] = &[
    "name",
    "title",
    "description",
    "read_only",
    "destructive",
    "idempotent",
    "open_world",
    "input_schema",
    "extra",
];

pub(crate) fn expand(mut options: Options, item: &ItemFn) -> Result<TokenStream> {
    options.check(KNOWN)?;
    let body = Shape::of(item, "a tool")?.body(&item.sig.ident);
    let name = name_of(options.text("name")?, item);
    check_name(&name, "a tool")?;
    let description = match options.text("description")? {
        Some(description) => description,
        None => doc_of(&item.attrs).ok_or_else(|| {
            let what = "a tool needs a description: write a doc comment, or `description = \"…\"`";
            Error::new(item.sig.ident.span(), what)
        })?,
    };
    let title = option(options.text("title")?.as_ref());
    let schema = option(options.value::<Expr>("input_schema")?.as_ref());
    let extra = option(options.value::<Expr>("extra")?.as_ref());
    let mut hint = |key| options.flag(key).map(|hint| option(hint.as_ref()));
    let (read_only, destructive) = (hint("read_only")?, hint("destructive")?);
    let (idempotent, open_world) = (hint("idempotent")?, hint("open_world")?);
    let (item, ident) = (with_type(item), &item.sig.ident);
    Ok(quote! {
        #item

        impl ::layby_plugin::Tool for #ident {
            const NAME: &'static str = #name;

            fn definition() -> ::layby_plugin::types::Tool {
                ::layby_plugin::__private::definition(
                    Self::NAME,
                    #title,
                    #description,
                    ::layby_plugin::types::ToolAnnotations {
                        read_only: #read_only,
                        destructive: #destructive,
                        idempotent: #idempotent,
                        open_world: #open_world,
                    },
                    (#schema, #extra),
                    #body,
                )
            }

            fn call(
                arguments: &str,
            ) -> ::std::result::Result<::layby_plugin::types::ToolResult, ::layby_plugin::types::ToolError> {
                ::layby_plugin::__private::serve(arguments, #body)
            }
        }
    })
}
