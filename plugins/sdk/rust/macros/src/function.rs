//! The function below an attribute.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, ItemFn, Lit, LitStr, Meta, Result, Type, spanned::Spanned,
};

/// Which of its two parameters a function takes.
pub(crate) struct Shape {
    arguments: Option<Type>,
    call: bool,
}

impl Shape {
    /// `what` is the thing in words: `a tool`.
    pub(crate) fn of(item: &ItemFn, what: &str) -> Result<Self> {
        not_async(item, what)?;
        let mut shape = Shape { arguments: None, call: false };
        for input in &item.sig.inputs {
            match typed(input, what)? {
                Type::Reference(_) if !shape.call => shape.call = true,
                ty if !shape.call && shape.arguments.is_none() => shape.arguments = Some(ty.clone()),
                ty => {
                    let what = format!("{what} takes its arguments, then `&Call`, and no more");
                    return Err(Error::new(ty.span(), what));
                }
            }
        }
        Ok(shape)
    }

    /// Refuses arguments.
    pub(crate) fn without_arguments(self, what: &str) -> Result<Self> {
        match &self.arguments {
            Some(ty) => Err(Error::new(ty.span(), format!("{what} takes `&Call`, or nothing"))),
            None => Ok(self),
        }
    }

    /// A closure from arguments to result, which captures nothing and so is a function pointer.
    pub(crate) fn body(&self, function: &syn::Ident) -> TokenStream {
        let args = format_ident!("args", span = Span::mixed_site());
        let ty = match &self.arguments {
            Some(ty) => quote!(#ty),
            None => quote!(::layby_plugin::__private::NoArguments),
        };
        let given = self.arguments.as_ref().map(|_| quote!(#args,));
        let call = self.call.then(|| quote!(&::layby_plugin::Call::of_host()));
        let name = if given.is_some() { args } else { format_ident!("_args") };
        quote!(|#name: #ty| #function(#given #call))
    }
}

pub(crate) fn not_async(item: &ItemFn, what: &str) -> Result<()> {
    match &item.sig.asyncness {
        Some(it) => {
            Err(Error::new(it.span(), format!("{what} is not async: a question waits where it is asked")))
        }
        None => Ok(()),
    }
}

/// The type of a parameter.
pub(crate) fn typed<'a>(input: &'a FnArg, what: &str) -> Result<&'a Type> {
    match input {
        FnArg::Typed(input) => Ok(&input.ty),
        FnArg::Receiver(_) => Err(Error::new(input.span(), format!("{what} is a free function"))),
    }
}

/// The function, and beside it a type of the same name in the other namespace: one `use` brings both.
pub(crate) fn with_type(item: &ItemFn) -> TokenStream {
    let (vis, ident) = (&item.vis, &item.sig.ident);
    quote! {
        #item

        #[allow(non_camel_case_types, missing_docs, missing_debug_implementations)]
        #vis struct #ident {}
    }
}

pub(crate) fn option<T: quote::ToTokens>(value: Option<&T>) -> TokenStream {
    match value {
        Some(value) => quote!(::std::option::Option::Some(#value)),
        None => quote!(::std::option::Option::None),
    }
}

/// The name that is given, or else the function's.
pub(crate) fn name_of(given: Option<LitStr>, item: &ItemFn) -> LitStr {
    given.unwrap_or_else(|| LitStr::new(&item.sig.ident.to_string(), item.sig.ident.span()))
}

/// Checks the name of a tool or a prompt.
pub(crate) fn check_name(name: &LitStr, what: &str) -> Result<()> {
    let value = name.value();
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if (1..=128).contains(&value.len()) && value.chars().all(fine) {
        return Ok(());
    }
    Err(Error::new(name.span(), format!("{what}'s name is 1 to 128 of A-Z a-z 0-9 _ - .")))
}

/// The doc comment, with the lines of a paragraph joined.
pub(crate) fn doc_of(attributes: &[Attribute]) -> Option<LitStr> {
    let mut text = String::new();
    let mut span = None;
    for attribute in attributes {
        let Meta::NameValue(meta) = &attribute.meta else { continue };
        let Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) = &meta.value else { continue };
        if !meta.path.is_ident("doc") {
            continue;
        }
        span.get_or_insert(line.span());
        let line = line.value();
        let line = line.trim();
        match () {
            () if line.is_empty() => text.push_str("\n\n"),
            () if text.is_empty() || text.ends_with('\n') => text.push_str(line),
            () => {
                text.push(' ');
                text.push_str(line);
            }
        }
    }
    let text = text.trim();
    span.filter(|_| !text.is_empty()).map(|span| LitStr::new(text, span))
}
