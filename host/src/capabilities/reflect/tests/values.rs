//! Single values of JSON, and what they are read as.

use super::super::{
    json::{Path, read},
    shape::{Integer, Shape},
    *,
};

fn integer(integer: Integer, text: &str) -> Result<Val, String> {
    read(&Shape::Integer(integer), &serde_json::from_str(text).unwrap(), &mut Path::default())
}

#[test]
fn a_whole_number_is_itself_or_refused() {
    for text in ["9007199254740991", "9007199254740991.0", "9.007199254740991e15", "\"9007199254740991\""] {
        assert_eq!(integer(Integer::S64, text), Ok(Val::S64(9_007_199_254_740_991)), "{text}");
        assert_eq!(integer(Integer::U64, text), Ok(Val::U64(9_007_199_254_740_991)), "{text}");
    }
    assert_eq!(integer(Integer::S64, "-9007199254740991"), Ok(Val::S64(-9_007_199_254_740_991)));
    assert_eq!(integer(Integer::S64, "\"-9223372036854775808\""), Ok(Val::S64(i64::MIN)));
    assert_eq!(integer(Integer::U64, "\"18446744073709551615\""), Ok(Val::U64(u64::MAX)));
    for (text, value) in [("-0", 0), ("-0.0", 0), ("3.0", 3), ("0e9", 0)] {
        assert_eq!(integer(Integer::U64, text), Ok(Val::U64(value)), "{text}");
        assert_eq!(integer(Integer::S16, text), Ok(Val::S16(value as i16)), "{text}");
    }
    // Exact here, but who knows what a reader on the way made of it.
    let beyond =
        ["9007199254740992", "-9007199254740992", "9007199254740993.0", "9223372036854775808", "1e300"];
    for text in beyond.iter().chain(&["-9223372036854775809", "9223372036854775807", "18446744073709551616"])
    {
        for ty in [Integer::S64, Integer::U64] {
            let why = integer(ty, text).unwrap_err();
            assert!(why.starts_with("(root): ") && why.contains("give it as a string"), "{text}: {why}");
        }
        let why = integer(Integer::S32, text).unwrap_err();
        assert!(why.contains("from -2147483648 to 2147483647"), "{text}: {why}");
    }
    for text in
        ["1.5", "-1", "\"-9223372036854775809\"", "\"1.0\"", "\"\"", "\"+1\"", "\" 1\"", "\"-\"", "null"]
    {
        let why = integer(Integer::U64, text).unwrap_err();
        assert!(why.contains("from 0 to 18446744073709551615"), "{text}: {why}");
    }
    for text in ["\"1\"", "4294967296", "1e10", "\"a\""] {
        assert!(integer(Integer::U32, text).is_err(), "{text}");
    }
}

#[test]
fn floats_are_the_nearest_or_refused() {
    let float =
        |shape: &Shape, text: &str| read(shape, &serde_json::from_str(text).unwrap(), &mut Path::default());
    assert_eq!(float(&Shape::F64, "9007199254740993"), Ok(Val::Float64(9_007_199_254_740_992.0)));
    assert_eq!(float(&Shape::F64, "-0.0"), Ok(Val::Float64(-0.0)));
    assert_eq!(float(&Shape::F32, "3.4028235e38"), Ok(Val::Float32(f32::MAX)));
    assert_eq!(float(&Shape::F32, "1e-400"), Ok(Val::Float32(0.0)));
    assert_eq!(float(&Shape::F32, "\"NaN\""), Ok(Val::Float32(f32::NAN)));
    assert!(serde_json::from_str::<Value>("1e400").is_err());
    for text in ["3.5e38", "-1e39", "\"nan\"", "\"+Infinity\"", "\"1\"", "null"] {
        assert!(float(&Shape::F32, text).is_err(), "{text}");
    }
}

#[test]
fn other_values_are_themselves_or_refused() {
    let of =
        |shape: &Shape, text: &str| read(shape, &serde_json::from_str(text).unwrap(), &mut Path::default());
    for text in ["\"\"", "\"ab\"", "\"e\u{301}\"", "65", "null"] {
        assert!(of(&Shape::Char, text).is_err(), "{text}");
    }
    assert_eq!(of(&Shape::Char, "\"\\ud83d\\ude00\""), Ok(Val::Char('😀')));
    // Half of a character is no JSON here.
    assert!(serde_json::from_str::<Value>("\"\\ud800\"").is_err());
    let option = Shape::Option(Box::new(Shape::Option(Box::new(Shape::Bool))));
    assert_eq!(of(&option, "null"), Ok(Val::Option(None)));
    assert_eq!(of(&option, "{\"some\":null}"), Ok(Val::Option(Some(Box::new(Val::Option(None))))));
    assert!(of(&option, "true").is_err());
    assert!(of(&Shape::Bytes, "[256]").is_err() && of(&Shape::Bytes, "\"=\"").is_err());
}
