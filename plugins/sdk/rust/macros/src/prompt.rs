//! `#[prompt]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Expr, ItemFn, Result};

use crate::{
    function::{Shape, check_name, doc_of, name_of, option, with_type},
    options::Options,
};

const KNOWN: &[&str] = &["name", "title", "description", "extra"];

pub(crate) fn expand(mut options: Options, item: &ItemFn) -> Result<TokenStream> {
    options.check(KNOWN)?;
    let body = Shape::of(item, "a prompt")?.body(&item.sig.ident);
    let name = name_of(options.text("name")?, item);
    check_name(&name, "a prompt")?;
    let title = option(options.text("title")?.as_ref());
    let description = option(options.text("description")?.or_else(|| doc_of(&item.attrs)).as_ref());
    let extra = option(options.value::<Expr>("extra")?.as_ref());
    let (item, ident) = (with_type(item), &item.sig.ident);
    Ok(quote! {
        #item

        impl ::layby_plugin::Prompt for #ident {
            const NAME: &'static str = #name;

            fn definition() -> ::layby_plugin::types::Prompt {
                ::layby_plugin::__private::prompt::definition(
                    Self::NAME, #title, #description, #extra, #body,
                )
            }

            fn get(
                arguments: ::std::vec::Vec<(::std::string::String, ::std::string::String)>,
            ) -> ::std::result::Result<
                ::layby_plugin::types::PromptResult,
                ::layby_plugin::types::RequestError,
            > {
                ::layby_plugin::__private::prompt::serve(arguments, #body)
            }
        }
    })
}
