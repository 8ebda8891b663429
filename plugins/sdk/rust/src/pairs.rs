//! From pairs of names and texts to a Rust type: what prompts, templates and completions are given.

use std::fmt::Display;

use serde::{
    Deserializer,
    de::{
        DeserializeOwned, EnumAccess, Error as _, IntoDeserializer, Visitor,
        value::{Error, MapDeserializer, StringDeserializer},
    },
    forward_to_deserialize_any,
};

/// Reads a struct whose fields are texts, or anything that a text can be read as.
pub(crate) fn read<T: DeserializeOwned>(pairs: Vec<(String, String)>) -> Result<T, Error> {
    let pairs = pairs.into_iter().map(|(name, value)| (name, Text(value)));
    T::deserialize(MapDeserializer::new(pairs))
}

struct Text(String);

impl Text {
    fn parse<T: std::str::FromStr<Err: Display>>(&self) -> Result<T, Error> {
        self.0.parse().map_err(|e| Error::custom(format!("`{}`: {e}", self.0)))
    }
}

impl IntoDeserializer<'_, Error> for Text {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! parsed {
    ($($method:ident $visit:ident),+ $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit(self.parse()?)
        }
    )+};
}

impl<'de> Deserializer<'de> for Text {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self)
    }

    parsed! {
        deserialize_bool visit_bool,
        deserialize_i8 visit_i8,
        deserialize_i16 visit_i16,
        deserialize_i32 visit_i32,
        deserialize_i64 visit_i64,
        deserialize_u8 visit_u8,
        deserialize_u16 visit_u16,
        deserialize_u32 visit_u32,
        deserialize_u64 visit_u64,
        deserialize_f32 visit_f32,
        deserialize_f64 visit_f64,
    }

    forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}

impl<'de> EnumAccess<'de> for Text {
    type Error = Error;
    type Variant = <StringDeserializer<Error> as EnumAccess<'de>>::Variant;

    fn variant_seed<V: serde::de::DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self::Variant), Error> {
        let text: StringDeserializer<Error> = self.0.into_deserializer();
        text.variant_seed(seed)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Tone {
        Warm,
        Dry,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Id(u32);

    #[derive(Debug, Deserialize, PartialEq)]
    struct All {
        name: String,
        nick: Option<String>,
        tone: Option<Tone>,
        id: Id,
        share: f64,
        #[serde(default)]
        loud: bool,
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn texts_become_what_the_fields_are() {
        let all: All =
            read(pairs(&[("name", "Ada"), ("tone", "dry"), ("id", "7"), ("share", "0.5"), ("loud", "true")]))
                .unwrap();
        let tone = Some(Tone::Dry);
        assert_eq!(all, All { name: "Ada".into(), nick: None, tone, id: Id(7), share: 0.5, loud: true });
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let why = |given: &[(&str, &str)]| read::<All>(pairs(given)).unwrap_err().to_string();
        assert!(why(&[]).contains("missing field `name`"));
        assert!(why(&[("name", "Ada"), ("id", "seven")]).contains("`seven`"));
        assert!(why(&[("name", "Ada"), ("tone", "rude")]).contains("rude"));
    }
}
