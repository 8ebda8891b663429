//! `plugin!`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{
    Error, Ident, Path, Result, Token, bracketed,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
};

/// What a plugin has.
#[derive(Default)]
pub(crate) struct Plugin {
    tools: Option<Vec<Path>>,
    prompts: Option<Vec<Path>>,
    resources: Option<Vec<Path>>,
    templates: Option<Vec<Path>>,
    completions: Option<Vec<Path>>,
}

impl Parse for Plugin {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut plugin = Plugin::default();
        let list = Punctuated::<Path, Token![,]>::parse_terminated;
        let named = input.peek2(Token![:]) && !input.peek2(Token![::]);
        if !named {
            let tools: Vec<_> = list(input)?.into_iter().collect();
            if tools.is_empty() {
                return Err(input.error("a plugin has something: `plugin!(tool, …)`"));
            }
            plugin.tools = Some(tools);
            return Ok(plugin);
        }
        while !input.is_empty() {
            let key: Ident = input.parse()?;
            input.parse::<Token![:]>()?;
            let place = match key.to_string().as_str() {
                "tools" => &mut plugin.tools,
                "prompts" => &mut plugin.prompts,
                "resources" => &mut plugin.resources,
                "templates" => &mut plugin.templates,
                "completions" => &mut plugin.completions,
                _ => {
                    let what = "a plugin has tools, prompts, resources, templates and completions";
                    return Err(Error::new(key.span(), what));
                }
            };
            let content;
            bracketed!(content in input);
            if place.replace(list(&content)?.into_iter().collect()).is_some() {
                return Err(Error::new(key.span(), "this list is there twice"));
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(plugin)
    }
}

impl Plugin {
    pub(crate) fn expand(self) -> TokenStream {
        let tools = tools(&self.tools.unwrap_or_default());
        let prompts = self.prompts.map(|of| prompts(&of));
        let resources = match (self.resources, self.templates) {
            (None, None) => None,
            (of, templates) => Some(resources(&of.unwrap_or_default(), &templates.unwrap_or_default())),
        };
        let completions = self.completions.map(|of| completions(&of));
        quote! {
            // Public, so that what it lists counts as used outside the sandbox too.
            #[doc(hidden)]
            #[allow(missing_debug_implementations, unreachable_pub)]
            pub struct __LaybyPlugin;

            #tools
            #prompts
            #resources
            #completions
        }
    }
}

fn tools(tools: &[Path]) -> TokenStream {
    quote! {
        impl ::layby_plugin::bindings::exports::layby::plugin::tools::Guest for __LaybyPlugin {
            fn list_tools() -> ::std::vec::Vec<::layby_plugin::types::Tool> {
                ::std::vec![#(<#tools as ::layby_plugin::Tool>::definition()),*]
            }

            #[allow(unused_variables)]
            fn call_tool(
                name: ::std::string::String,
                arguments: ::std::string::String,
            ) -> ::std::result::Result<::layby_plugin::types::ToolResult, ::layby_plugin::types::ToolError> {
                #(
                    if name == <#tools as ::layby_plugin::Tool>::NAME {
                        return <#tools as ::layby_plugin::Tool>::call(&arguments);
                    }
                )*
                ::std::result::Result::Err(::layby_plugin::__private::unknown(&name))
            }
        }

        #[cfg(target_family = "wasm")]
        ::layby_plugin::bindings::export!(__LaybyPlugin with_types_in ::layby_plugin::bindings);
    }
}

fn prompts(prompts: &[Path]) -> TokenStream {
    quote! {
        impl ::layby_plugin::bindings::prompts::exports::layby::plugin::prompts::Guest for __LaybyPlugin {
            fn list_prompts() -> ::std::vec::Vec<::layby_plugin::types::Prompt> {
                ::std::vec![#(<#prompts as ::layby_plugin::Prompt>::definition()),*]
            }

            #[allow(unused_variables)]
            fn get_prompt(
                name: ::std::string::String,
                arguments: ::std::vec::Vec<(::std::string::String, ::std::string::String)>,
            ) -> ::std::result::Result<
                ::layby_plugin::types::PromptResult,
                ::layby_plugin::types::RequestError,
            > {
                #(
                    if name == <#prompts as ::layby_plugin::Prompt>::NAME {
                        return <#prompts as ::layby_plugin::Prompt>::get(arguments);
                    }
                )*
                ::std::result::Result::Err(::layby_plugin::types::RequestError::NotFound)
            }
        }

        #[cfg(target_family = "wasm")]
        ::layby_plugin::bindings::prompts::export!(
            __LaybyPlugin with_types_in ::layby_plugin::bindings::prompts
        );
    }
}

fn resources(resources: &[Path], templates: &[Path]) -> TokenStream {
    quote! {
        impl ::layby_plugin::bindings::resources::exports::layby::plugin::resources::Guest for __LaybyPlugin {
            fn list_resources() -> ::std::vec::Vec<::layby_plugin::types::ResourceInfo> {
                ::std::vec![#(<#resources as ::layby_plugin::Resource>::definition()),*]
            }

            fn list_templates() -> ::std::vec::Vec<::layby_plugin::types::ResourceTemplate> {
                ::std::vec![#(<#templates as ::layby_plugin::Template>::definition()),*]
            }

            #[allow(unused_variables)]
            fn read_resource(uri: ::std::string::String) -> ::std::result::Result<
                ::std::vec::Vec<::layby_plugin::types::EmbeddedResource>,
                ::layby_plugin::types::RequestError,
            > {
                #(
                    if uri == <#resources as ::layby_plugin::Resource>::URI {
                        return <#resources as ::layby_plugin::Resource>::read();
                    }
                )*
                #(
                    if let ::std::option::Option::Some(read) =
                        <#templates as ::layby_plugin::Template>::read(&uri)
                    {
                        return read;
                    }
                )*
                ::std::result::Result::Err(::layby_plugin::types::RequestError::NotFound)
            }
        }

        #[cfg(target_family = "wasm")]
        ::layby_plugin::bindings::resources::export!(
            __LaybyPlugin with_types_in ::layby_plugin::bindings::resources
        );
    }
}

fn completions(completions: &[Path]) -> TokenStream {
    quote! {
        impl ::layby_plugin::bindings::completions::exports::layby::plugin::completions::Guest
            for __LaybyPlugin
        {
            #[allow(unused_variables)]
            fn complete(
                reference: ::layby_plugin::types::CompletionReference,
                argument: ::std::string::String,
                value: ::std::string::String,
                context: ::std::vec::Vec<(::std::string::String, ::std::string::String)>,
            ) -> ::std::result::Result<
                ::layby_plugin::types::Completion,
                ::layby_plugin::types::RequestError,
            > {
                let context = ::layby_plugin::Context::of_host(context);
                #(
                    if ::layby_plugin::__private::complete::completes::<#completions>(&reference, &argument) {
                        return <#completions as ::layby_plugin::Complete>::complete(&value, &context);
                    }
                )*
                ::std::result::Result::Ok(::layby_plugin::__private::complete::nothing())
            }
        }

        #[cfg(target_family = "wasm")]
        ::layby_plugin::bindings::completions::export!(
            __LaybyPlugin with_types_in ::layby_plugin::bindings::completions
        );
    }
}
