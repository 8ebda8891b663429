//! What stands in the parentheses of an attribute.

use quote::ToTokens;
use syn::{
    Error, Expr, Ident, LitBool, LitStr, Result, Token,
    ext::IdentExt,
    parse::{Parse, ParseStream, Parser},
};

/// `key = value` and `key`, separated by commas.
pub(crate) struct Options(Vec<(Ident, Option<Expr>)>);

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut options = Vec::new();
        while !input.is_empty() {
            let key = input.call(Ident::parse_any)?;
            let value = if input.peek(Token![=]) {
                input.parse::<Token![=]>()?;
                Some(input.parse()?)
            } else {
                None
            };
            options.push((key, value));
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(Self(options))
    }
}

impl Options {
    /// Refuses keys that are not `known`, and ones that come twice.
    pub(crate) fn check(&self, known: &[&str]) -> Result<()> {
        for (at, (key, _)) in self.0.iter().enumerate() {
            if !known.iter().any(|known| key == known) {
                let what = format!("unknown option; there are {}", known.join(", "));
                return Err(Error::new(key.span(), what));
            }
            if self.0[..at].iter().any(|(before, _)| before == key) {
                return Err(Error::new(key.span(), "this option is there twice"));
            }
        }
        Ok(())
    }

    /// The value of a key, as anything that can be parsed.
    pub(crate) fn value<T: Parse>(&mut self, key: &str) -> Result<Option<T>> {
        let Some(at) = self.0.iter().position(|(known, _)| known == key) else { return Ok(None) };
        let (key, value) = self.0.remove(at);
        let Some(value) = value else {
            return Err(Error::new(key.span(), format!("write `{key} = …`")));
        };
        T::parse.parse2(value.into_token_stream()).map(Some).map_err(|e| Error::new(key.span(), e))
    }

    pub(crate) fn text(&mut self, key: &str) -> Result<Option<LitStr>> {
        self.value(key)
    }

    /// A key alone, or with `= true` or `= false`.
    pub(crate) fn flag(&mut self, key: &str) -> Result<Option<bool>> {
        if let Some(at) = self.0.iter().position(|(known, value)| known == key && value.is_none()) {
            self.0.remove(at);
            return Ok(Some(true));
        }
        Ok(self.value::<LitBool>(key)?.map(|value| value.value))
    }
}
