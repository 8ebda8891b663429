//! The attribute `#[tool]` of the crate `layby-plugin`, which documents it by example.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, ItemFn, Lit, LitBool, LitStr, Meta, Result, Token, Type,
    ext::IdentExt, parse::Parse, parse::ParseStream, parse_macro_input, spanned::Spanned,
};

/// Makes a tool of a function.
///
/// The function takes its arguments (any type with `Deserialize` and `JsonSchema`), a `&Call`, both
/// in this order, or neither, and returns `layby_plugin::Result<T>` of an `IntoResult`. Its doc
/// comment is the tool's description. In the parentheses, all optional:
///
/// - `name = "…"` (else the function's name), `title = "…"`, `description = "…"`
/// - `read_only`, `destructive`, `idempotent`, `open_world`: hints; alone or with `= true`, `= false`
/// - `input_schema = EXPR`, `extra = EXPR`: JSON text, instead of the schema of the arguments' type,
///   and for the tool's `icons` and `_meta`
#[proc_macro_attribute]
pub fn tool(options: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let options = parse_macro_input!(options as Options);
    let item = parse_macro_input!(item as ItemFn);
    expand(options, item).unwrap_or_else(Error::into_compile_error).into()
}

/// What stands in the parentheses.
#[derive(Default)]
struct Options {
    name: Option<LitStr>,
    title: Option<LitStr>,
    description: Option<LitStr>,
    read_only: Option<bool>,
    destructive: Option<bool>,
    idempotent: Option<bool>,
    open_world: Option<bool>,
    input_schema: Option<Expr>,
    extra: Option<Expr>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut options = Options::default();
        while !input.is_empty() {
            let key = input.call(syn::Ident::parse_any)?;
            match key.to_string().as_str() {
                "name" => options.name = Some(value(input)?),
                "title" => options.title = Some(value(input)?),
                "description" => options.description = Some(value(input)?),
                "read_only" => options.read_only = Some(flag(input)?),
                "destructive" => options.destructive = Some(flag(input)?),
                "idempotent" => options.idempotent = Some(flag(input)?),
                "open_world" => options.open_world = Some(flag(input)?),
                "input_schema" => options.input_schema = Some(value(input)?),
                "extra" => options.extra = Some(value(input)?),
                _ => return Err(Error::new(key.span(), UNKNOWN)),
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

const UNKNOWN: &str = "unknown option; there are name, title, description, read_only, destructive, \
    idempotent, open_world, input_schema and extra";

fn value<T: Parse>(input: ParseStream<'_>) -> Result<T> {
    input.parse::<Token![=]>()?;
    input.parse()
}

fn flag(input: ParseStream<'_>) -> Result<bool> {
    if input.peek(Token![=]) { Ok(value::<LitBool>(input)?.value) } else { Ok(true) }
}

fn expand(options: Options, item: ItemFn) -> Result<TokenStream> {
    let shape = Shape::of(&item)?;
    let name =
        options.name.unwrap_or_else(|| LitStr::new(&item.sig.ident.to_string(), item.sig.ident.span()));
    check_name(&name)?;
    let description = match options.description {
        Some(description) => description,
        None => doc_of(&item.attrs).ok_or_else(|| {
            let what = "a tool needs a description: write a doc comment, or `description = \"…\"`";
            Error::new(item.sig.ident.span(), what)
        })?,
    };
    let title = option(options.title.as_ref());
    let schema = option(options.input_schema.as_ref());
    let extra = option(options.extra.as_ref());
    let hints = [options.read_only, options.destructive, options.idempotent, options.open_world];
    let [read_only, destructive, idempotent, open_world] = hints.map(|hint| option(hint.as_ref()));
    let body = shape.body(&item.sig.ident);
    let (vis, ident) = (&item.vis, &item.sig.ident);
    Ok(quote! {
        #item

        // Of the same name as the function, in the other namespace: one `use` brings both.
        #[allow(non_camel_case_types, missing_docs, missing_debug_implementations)]
        #vis struct #ident {}

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

/// Which of the two parameters a function takes.
struct Shape {
    arguments: Option<Type>,
    call: bool,
}

impl Shape {
    fn of(item: &ItemFn) -> Result<Self> {
        if let Some(what) = item.sig.asyncness.map(|a| a.span()) {
            return Err(Error::new(what, "a tool is not async: a question waits where it is asked"));
        }
        let mut shape = Shape { arguments: None, call: false };
        for input in &item.sig.inputs {
            let FnArg::Typed(input) = input else {
                return Err(Error::new(input.span(), "a tool is a free function"));
            };
            match &*input.ty {
                Type::Reference(_) if !shape.call => shape.call = true,
                ty if !shape.call && shape.arguments.is_none() => shape.arguments = Some(ty.clone()),
                ty => {
                    return Err(Error::new(
                        ty.span(),
                        "a tool takes its arguments, then `&Call`, and no more",
                    ));
                }
            }
        }
        Ok(shape)
    }

    /// A closure from arguments to result, which captures nothing and so is a function pointer.
    fn body(&self, function: &syn::Ident) -> TokenStream {
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

fn option<T: quote::ToTokens>(value: Option<&T>) -> TokenStream {
    match value {
        Some(value) => quote!(::std::option::Option::Some(#value)),
        None => quote!(::std::option::Option::None),
    }
}

fn check_name(name: &LitStr) -> Result<()> {
    let value = name.value();
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if (1..=128).contains(&value.len()) && value.chars().all(fine) {
        return Ok(());
    }
    Err(Error::new(name.span(), "a tool's name is 1 to 128 of A-Z a-z 0-9 _ - ."))
}

/// The doc comment, with the lines of a paragraph joined.
fn doc_of(attributes: &[Attribute]) -> Option<LitStr> {
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
