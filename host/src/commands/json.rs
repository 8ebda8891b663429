//! JSON that a person wrote: a member that stands twice is a mistake, and is told as one. The usual reader keeps
//! the last and drops the others without a word.

use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::base::neutral_line;

/// The value of `text`.
///
/// # Errors
/// It is not JSON, or an object in it has a member twice: which, and where.
pub(crate) fn read(text: &str) -> Result<Value, String> {
    let once = serde_json::from_str(text).map(|Once(value)| value);
    once.map_err(|e| neutral_line(&e.to_string()))
}

struct Once(Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Any.deserialize(from).map(Self)
    }
}

struct Any;

impl<'de> DeserializeSeed<'de> for Any {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Any)? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(de::Error::custom(format!("the member {key:?} stands there twice")));
            }
            let value = members.next_value_seed(Any)?;
            map.insert(key, value);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn it_reads_as_the_usual_reader_does() {
        for text in [
            "null",
            " [true, false, -1, 0, -0, 18446744073709551615, 9223372036854775807, 1.5, 1e300]",
            r#"{"b": {"a": [{}, [], ""]}, "a": "ü\n\u0041"}"#,
        ] {
            assert_eq!(read(text).unwrap(), serde_json::from_str::<Value>(text).unwrap(), "{text}");
        }
        for text in ["", "{", "1e400", "[1,]", "nul", r#""\ud800""#, "{} {}"] {
            assert!(read(text).is_err() && serde_json::from_str::<Value>(text).is_err(), "{text}");
        }
        assert!(read(&"[".repeat(100_000)).unwrap_err().contains("recursion"));
    }

    #[test]
    fn a_member_that_stands_twice_is_named() {
        let why = read("{\"a\": 1,\n \"b\": {\"c\u{202e}\": 1, \"c\u{202e}\": 1}}").unwrap_err();
        assert!(why.contains("c\\u{202e}") && why.contains("twice") && why.contains("line 2"), "{why}");
        assert!(read(r#"{"a": 1, "b": {"a": 1}}"#).is_ok());
    }
}
