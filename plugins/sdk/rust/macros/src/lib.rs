//! The attributes and the macro of the crate `layby-plugin`, which documents them by example.

use proc_macro::TokenStream;
use syn::{Error, ItemFn, parse_macro_input};

mod complete;
mod function;
mod options;
mod plugin;
mod prompt;
mod resource;
mod tool;

use options::Options;

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
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    let (options, item) = (parse_macro_input!(options as Options), parse_macro_input!(item as ItemFn));
    tool::expand(options, &item).unwrap_or_else(Error::into_compile_error).into()
}

/// Makes a prompt of a function.
///
/// The function takes its arguments, a `&Call`, both in this order, or neither, and returns
/// `layby_plugin::Result<T>` of an `IntoPrompt`. The arguments are a struct with `Deserialize` and
/// `JsonSchema`: each field is an argument, a string or anything that a string can be read as
/// (numbers, `bool`, enums of unit variants); an `Option` makes it optional, and its doc comment is
/// its description. In the parentheses, all optional:
///
/// - `name = "…"` (else the function's name), `title = "…"`, `description = "…"` (else the doc comment)
/// - `extra = EXPR`: JSON text for the prompt's `icons` and `_meta`
#[proc_macro_attribute]
pub fn prompt(options: TokenStream, item: TokenStream) -> TokenStream {
    let (options, item) = (parse_macro_input!(options as Options), parse_macro_input!(item as ItemFn));
    prompt::expand(options, &item).unwrap_or_else(Error::into_compile_error).into()
}

/// Makes a resource of a function.
///
/// The function takes a `&Call` or nothing, and returns `layby_plugin::Result<T>` of an
/// `IntoContents`: text, bytes, `Json`, or contents with URIs of their own. In the parentheses:
///
/// - `uri = "…"`: needed
/// - `name = "…"` (else the function's name), `title = "…"`, `description = "…"` (else the doc comment),
///   `mime_type = "…"`
/// - `size = EXPR`: bytes
/// - `extra = EXPR`: JSON text for the resource's `annotations`, `icons` and `_meta`
#[proc_macro_attribute]
pub fn resource(options: TokenStream, item: TokenStream) -> TokenStream {
    let (options, item) = (parse_macro_input!(options as Options), parse_macro_input!(item as ItemFn));
    resource::resource(options, &item).unwrap_or_else(Error::into_compile_error).into()
}

/// Makes a family of resources of a function.
///
/// The function takes the template's variables, a `&Call`, both in this order, or neither, and
/// returns what a resource does. The variables are a struct with `Deserialize` and `JsonSchema`, of
/// the same kinds of fields as a prompt's arguments; they come without percent signs. In the parentheses:
///
/// - `uri_template = "…"`: needed; RFC 6570 with the operators `+ # . / ? &` or none, and without
///   modifiers. `{name}` stays within a segment, `{+name}` takes slashes too, and of `{?a,b}` each
///   may be missing: make those an `Option`.
/// - `name`, `title`, `description`, `mime_type`, `extra`: as in `#[resource]`
#[proc_macro_attribute]
pub fn template(options: TokenStream, item: TokenStream) -> TokenStream {
    let (options, item) = (parse_macro_input!(options as Options), parse_macro_input!(item as ItemFn));
    resource::template(options, &item).unwrap_or_else(Error::into_compile_error).into()
}

/// Makes a completion for one argument of a prompt or one variable of a template.
///
/// The function takes the value so far as `&str`, and then, if it wants, the arguments that are
/// settled already as `&Context`, a `&Call`, or both. It returns `layby_plugin::Result<T>` of an
/// `IntoCompletion`, such as a `Vec<String>`. In the parentheses, all needed:
///
/// - `prompt = FUNCTION` or `template = FUNCTION`: what has the argument
/// - `argument = "…"`
#[proc_macro_attribute]
pub fn complete(options: TokenStream, item: TokenStream) -> TokenStream {
    let (options, item) = (parse_macro_input!(options as Options), parse_macro_input!(item as ItemFn));
    complete::expand(options, &item).unwrap_or_else(Error::into_compile_error).into()
}

/// Exports the plugin: lists what it has, by the names of the functions.
///
/// `plugin!(tool, …)` is one with tools alone. One with more names each list:
/// `plugin! { tools: […], prompts: […], resources: […], templates: […], completions: […] }`,
/// in any order and each only where there is something. Only the interfaces of the lists that are
/// there are exported; tools always are.
#[proc_macro]
pub fn plugin(input: TokenStream) -> TokenStream {
    parse_macro_input!(input as plugin::Plugin).expand().into()
}
