//! `#[complete]`.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{Error, ItemFn, Path, Result, Type, spanned::Spanned};

use crate::{
    function::{not_async, typed, with_type},
    options::Options,
};

const KNOWN: &[&str] = &["prompt", "template", "argument"];

pub(crate) fn expand(mut options: Options, item: &ItemFn) -> Result<TokenStream> {
    options.check(KNOWN)?;
    let refuse = |what: &str| Err(Error::new(item.sig.ident.span(), what));
    let reference = match (options.value::<Path>("prompt")?, options.value::<Path>("template")?) {
        (Some(prompt), None) => {
            quote!(::layby_plugin::Reference::Prompt(<#prompt as ::layby_plugin::Prompt>::NAME))
        }
        (None, Some(template)) => {
            quote!(::layby_plugin::Reference::Template(<#template as ::layby_plugin::Template>::URI_TEMPLATE))
        }
        _ => return refuse("say what has the argument: `prompt = FUNCTION` or `template = FUNCTION`"),
    };
    let Some(argument) = options.text("argument")? else {
        return refuse("say which argument: `argument = \"…\"`");
    };
    let body = body(item)?;
    let (item, ident) = (with_type(item), &item.sig.ident);
    Ok(quote! {
        #item

        impl ::layby_plugin::Complete for #ident {
            const REFERENCE: ::layby_plugin::Reference = #reference;
            const ARGUMENT: &'static str = #argument;

            fn complete(
                value: &str,
                context: &::layby_plugin::Context,
            ) -> ::std::result::Result<
                ::layby_plugin::types::Completion,
                ::layby_plugin::types::RequestError,
            > {
                ::layby_plugin::__private::complete::serve(value, context, #body)
            }
        }
    })
}

/// A closure from value and context to result.
fn body(item: &ItemFn) -> Result<TokenStream> {
    const WHAT: &str = "a completion";
    not_async(item, WHAT)?;
    let value = format_ident!("value", span = Span::mixed_site());
    let context = format_ident!("context", span = Span::mixed_site());
    let mut given = Vec::new();
    for (at, input) in item.sig.inputs.iter().enumerate() {
        let ty = typed(input, WHAT)?;
        given.push(match (at, last_of(ty).as_deref()) {
            (0, Some("str")) => quote!(#value),
            (1 | 2, Some("Context")) => quote!(#context),
            (1 | 2, Some("Call")) => quote!(&::layby_plugin::Call::of_host()),
            _ => {
                let what = "a completion takes `&str`, and then `&Context`, `&Call` or both";
                return Err(Error::new(ty.span(), what));
            }
        });
    }
    if given.is_empty() {
        return Err(Error::new(item.sig.ident.span(), "a completion takes the value so far: `value: &str`"));
    }
    let function = &item.sig.ident;
    Ok(
        quote!(|#value: &str, #context: &::layby_plugin::Context| { let _ = #context; #function(#(#given),*) }),
    )
}

/// The last name of what a reference is to.
fn last_of(ty: &Type) -> Option<String> {
    let Type::Reference(reference) = ty else { return None };
    let Type::Path(path) = &*reference.elem else { return None };
    path.path.segments.last().map(|segment| segment.ident.to_string())
}
