//! From what a caller gave to a value, as JSON Schema has it.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// 2^53: up to here, a double is exact.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Reads JSON. To JSON Schema, and so to the host, `1.0` and `1e1` are whole numbers, and serde refuses
/// them for an integer: so what does not fit is read again with them as integers. The error is the reason.
pub(crate) fn json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let error = match serde_json::from_str(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let Ok(mut value) = serde_json::from_str(text) else { return Err(error.to_string()) };
    with_integers(&mut value);
    serde_json::from_value(value).map_err(|error| in_words(&error.to_string()))
}

fn with_integers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = |n: &f64| n.fract() == 0.0 && n.abs() <= EXACT;
            if let Some(n) = number.as_f64().filter(|n| number.is_f64() && whole(n)) {
                // Exact: it is whole, and far within 64 bits.
                *number = (n as i64).into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(with_integers),
        Value::Object(members) => members.values_mut().for_each(with_integers),
        _ => {}
    }
}

/// What serde says, with Rust's types in the words of JSON: a caller does not know them.
fn in_words(error: &str) -> String {
    const EXPECTED: &str = ", expected ";
    let Some((before, kind)) = error.rsplit_once(EXPECTED) else { return error.to_owned() };
    let whole = |least: i128, most: i128| format!("a whole number from {least} to {most}");
    let words = match kind {
        "i8" => whole(i8::MIN.into(), i8::MAX.into()),
        "i16" => whole(i16::MIN.into(), i16::MAX.into()),
        "i32" => whole(i32::MIN.into(), i32::MAX.into()),
        "i64" | "isize" => whole(i64::MIN.into(), i64::MAX.into()),
        "u8" => whole(0, u8::MAX.into()),
        "u16" => whole(0, u16::MAX.into()),
        "u32" => whole(0, u32::MAX.into()),
        "u64" | "usize" => whole(0, u64::MAX.into()),
        "f32" | "f64" => "a number".to_owned(),
        _ if kind.starts_with("struct ") => "an object".to_owned(),
        other => other.to_owned(),
    };
    format!("{before}{EXPECTED}{words}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Inner {
        n: i64,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Taken {
        byte: Option<u8>,
        #[serde(default)]
        list: Vec<i64>,
        number: Option<f64>,
        text: Option<String>,
        inner: Option<Inner>,
    }

    #[test]
    fn whole_numbers_are_integers_however_they_are_written() {
        let given = r#"{"byte":2.55e2,"list":[1.0,1e1,-0.0,9007199254740992.0],"number":1.0,"text":"1.0","inner":{"n":3.0}}"#;
        let expected = Taken {
            byte: Some(255),
            list: vec![1, 10, 0, 1 << 53],
            number: Some(1.0),
            text: Some("1.0".to_owned()),
            inner: Some(Inner { n: 3 }),
        };
        assert_eq!(json::<Taken>(given).unwrap(), expected);
        // What fits as it is stays as it is.
        assert_eq!(json::<Value>("[1.0]").unwrap().to_string(), "[1.0]");
    }

    #[test]
    fn what_does_not_fit_is_told_in_words() {
        let cases = [
            (r#"{"byte":1.5}"#, "invalid type: floating point `1.5`, expected a whole number from 0 to 255"),
            (r#"{"byte":256.0}"#, "invalid value: integer `256`, expected a whole number from 0 to 255"),
            (
                r#"{"byte":1e300}"#,
                "invalid type: floating point `1e+300`, expected a whole number from 0 to 255",
            ),
            (r#"{"inner":5}"#, "invalid type: integer `5`, expected an object"),
            (r#"{"text":5}"#, "invalid type: integer `5`, expected a string"),
        ];
        for (given, expected) in cases {
            assert_eq!(json::<Taken>(given).unwrap_err(), expected, "{given}");
        }
        assert!(json::<Taken>("{").unwrap_err().contains("EOF"));
    }
}
