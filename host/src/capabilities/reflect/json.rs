//! Values: from JSON to the component model's, and back. Both ways are total: whatever is no value of the type
//! is an error, wherever a schema let it pass.

use std::fmt::Write as _;

use base64::{
    Engine as _,
    alphabet::STANDARD as ALPHABET,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::{Number, Value};
use wasmtime::component::Val;

use super::shape::{Case, Integer, Item, Label, Named, Shape};
use crate::base::neutral_line;

/// Written with padding, read with or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// Largest whole number that every reader of JSON keeps exactly: 2^53 - 1. Those beyond are strings.
pub(super) const EXACT: i128 = (1 << 53) - 1;
/// Characters of a wrong value that an error quotes.
const QUOTED: usize = 80;

/// Where in the arguments a value stands.
#[derive(Default)]
pub(super) struct Path(String);

impl Path {
    fn within<T>(&mut self, step: &str, f: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        let length = self.0.len();
        self.0.push('/');
        self.0.push_str(&step.replace('~', "~0").replace('/', "~1"));
        let result = f(self);
        self.0.truncate(length);
        result
    }

    fn wrong<T>(&self, reason: impl AsRef<str>) -> Result<T, String> {
        let path = if self.0.is_empty() { "(root)" } else { &self.0 };
        Err(format!("{}: {}", neutral_line(path), neutral_line(reason.as_ref())))
    }

    fn wanted<T>(&self, what: &str, found: &Value) -> Result<T, String> {
        let mut text = found.to_string();
        if let Some((cut, _)) = text.char_indices().nth(QUOTED) {
            text.truncate(cut);
            text.push('…');
        }
        self.wrong(format!("{text} is not {what}"))
    }
}

/// The value of type `shape` that `json` stands for.
///
/// # Errors
/// There is none: where, and why.
pub(super) fn read(shape: &Shape, json: &Value, path: &mut Path) -> Result<Val, String> {
    match (shape, json) {
        (Shape::Bool, Value::Bool(b)) => Ok(Val::Bool(*b)),
        (Shape::Integer(integer), json) => read_integer(*integer, json, path),
        (Shape::F32, json) => read_f32(json, path),
        (Shape::F64, json) => match read_float(json) {
            Some(float) => Ok(Val::Float64(float)),
            None => path.wanted("an f64", json),
        },
        (Shape::Char, Value::String(text)) => {
            let mut chars = text.chars();
            match (chars.next(), chars.next()) {
                (Some(c), None) => Ok(Val::Char(c)),
                _ => path.wanted("one character", json),
            }
        }
        (Shape::String, Value::String(text)) => Ok(Val::String(text.clone())),
        (Shape::Bytes, Value::String(text)) => match BASE64.decode(text) {
            Ok(bytes) => Ok(Val::List(bytes.into_iter().map(Val::U8).collect())),
            Err(e) => path.wrong(format!("it is not base64: {e}")),
        },
        (Shape::Bytes, Value::Array(items)) => {
            read_list(items, |item, path| read_integer(Integer::U8, item, path), path).map(Val::List)
        }
        (Shape::List(inner), Value::Array(items)) => {
            read_list(items, |item, path| read(inner, item, path), path).map(Val::List)
        }
        (Shape::Tuple(shapes), Value::Array(items)) if shapes.len() == items.len() => {
            let mut shapes = shapes.iter();
            let one = |item: &Value, path: &mut Path| match shapes.next() {
                Some(shape) => read(shape, item, path),
                None => path.wrong("there is one item too many"),
            };
            read_list(items, one, path).map(Val::Tuple)
        }
        (Shape::Record(record), Value::Object(map)) => {
            let items = record.items.iter().map(|Item { label, shape }| (label, shape));
            read_members(items, map, path).map(Val::Record)
        }
        (Shape::Variant(variant), json) => {
            let (case, value) = read_case(&variant.items, |key| variant.by_json(key), json, path)?;
            Ok(Val::Variant(case.label.wit.clone(), value))
        }
        (Shape::Result(cases), json) => {
            let find = |key: &str| cases.iter().find(|case| case.label.json == key);
            let (case, value) = read_case(&cases[..], find, json, path)?;
            Ok(Val::Result(if case.label.wit == "ok" { Ok(value) } else { Err(value) }))
        }
        (Shape::Enum(names), Value::String(text)) => read_label(names, text, path).map(Val::Enum),
        (Shape::Flags(names), Value::Array(items)) => read_flags(names, items, path),
        (Shape::Option(inner), json) => read_option(inner, json, path),
        (shape, json) => path.wanted(&shape.text(), json),
    }
}

fn read_list(
    items: &[Value],
    mut one: impl FnMut(&Value, &mut Path) -> Result<Val, String>,
    path: &mut Path,
) -> Result<Vec<Val>, String> {
    items.iter().enumerate().map(|(n, item)| path.within(&n.to_string(), |path| one(item, path))).collect()
}

/// The members of an object, in the order of the type. What may be left out is an option.
pub(super) fn read_members<'a>(
    items: impl Iterator<Item = (&'a Label, &'a Shape)>,
    map: &serde_json::Map<String, Value>,
    path: &mut Path,
) -> Result<Vec<(String, Val)>, String> {
    let mut taken = 0;
    let mut values = Vec::new();
    let mut names = Vec::new();
    for (label, shape) in items {
        let value = match map.get(&label.json) {
            Some(json) => {
                taken += 1;
                path.within(&label.json, |path| read(shape, json, path))?
            }
            None if matches!(shape, Shape::Option(_)) => Val::Option(None),
            None => return path.wrong(format!("{:?} is missing", label.json)),
        };
        names.push(label.json.as_str());
        values.push((label.wit.clone(), value));
    }
    if taken < map.len()
        && let Some(unknown) = map.keys().find(|key| !names.contains(&key.as_str()))
    {
        return path.wrong(format!("there is no {unknown:?}; there are {names:?}"));
    }
    Ok(values)
}

type Payload = Option<Box<Val>>;

fn read_case<'a>(
    cases: &'a [Case],
    find: impl Fn(&str) -> Option<&'a Case>,
    json: &Value,
    path: &mut Path,
) -> Result<(&'a Case, Payload), String> {
    let Value::Object(map) = json else {
        return path.wanted("an object with the name of one case as its only member", json);
    };
    let mut members = map.iter();
    let (Some((key, inner)), None) = (members.next(), members.next()) else {
        return path.wrong(format!("it has {} members, and must have one, which names the case", map.len()));
    };
    let Some(case) = find(key) else {
        let names: Vec<_> = cases.iter().map(|case| case.label.json.as_str()).collect();
        return path.wrong(format!("there is no case {key:?}; there are {names:?}"));
    };
    let value = path.within(key, |path| match (&case.shape, inner) {
        (Some(shape), inner) => read(shape, inner, path).map(|value| Some(Box::new(value))),
        (None, Value::Null) => Ok(None),
        (None, other) => path.wanted("null: this case has no value", other),
    })?;
    Ok((case, value))
}

fn read_label(labels: &Named<Label>, text: &str, path: &Path) -> Result<String, String> {
    match labels.by_json(text) {
        Some(label) => Ok(label.wit.clone()),
        None => {
            let names: Vec<_> = labels.items.iter().map(|label| label.json.as_str()).collect();
            path.wrong(format!("{text:?} is none of {names:?}"))
        }
    }
}

fn read_flags(labels: &Named<Label>, items: &[Value], path: &mut Path) -> Result<Val, String> {
    let mut set: Vec<String> = Vec::new();
    for (n, item) in items.iter().enumerate() {
        let name = path.within(&n.to_string(), |path| match item {
            Value::String(text) => read_label(labels, text, path),
            other => path.wanted("the name of a flag", other),
        })?;
        if set.contains(&name) {
            return path.wrong(format!("{name:?} stands there twice"));
        }
        set.push(name);
    }
    Ok(Val::Flags(set))
}

fn read_option(inner: &Shape, json: &Value, path: &mut Path) -> Result<Val, String> {
    let value = match (inner, json) {
        (_, Value::Null) => return Ok(Val::Option(None)),
        (Shape::Option(_), Value::Object(map)) if map.len() == 1 && map.contains_key("some") => {
            path.within("some", |path| read(inner, &map["some"], path))?
        }
        (Shape::Option(_), other) => {
            return path.wanted("null or an object with the one member \"some\"", other);
        }
        (inner, json) => read(inner, json, path)?,
    };
    Ok(Val::Option(Some(Box::new(value))))
}

fn read_integer(integer: Integer, json: &Value, path: &Path) -> Result<Val, String> {
    let (least, largest) = integer.range();
    let value = match json {
        Value::Number(n) => {
            let value = whole_number(n);
            // Some reader on the way may have rounded such a number already, this one's own among them.
            if value.is_none_or(|value| !(-EXACT..=EXACT).contains(&value))
                && integer.is_wide()
                && n.as_f64().is_some_and(|f| f.fract() == 0.0)
            {
                return path.wrong(format!(
                    "numbers of JSON are exact up to {EXACT} only, and this one is beyond: give it as a string \
                     of digits ({})",
                    integer.name()
                ));
            }
            value
        }
        Value::String(text) if integer.is_wide() => decimal(text),
        _ => None,
    };
    let Some(value) = value.filter(|value| (least..=largest).contains(value)) else {
        let name = integer.name();
        return path.wanted(&format!("a whole number from {least} to {largest} ({name})"), json);
    };
    // The range above is the type's own.
    Ok(match integer {
        Integer::S8 => Val::S8(value as i8),
        Integer::U8 => Val::U8(value as u8),
        Integer::S16 => Val::S16(value as i16),
        Integer::U16 => Val::U16(value as u16),
        Integer::S32 => Val::S32(value as i32),
        Integer::U32 => Val::U32(value as u32),
        Integer::S64 => Val::S64(value as i64),
        Integer::U64 => Val::U64(value as u64),
    })
}

/// A number that is whole. `3.0` is, in JSON Schema.
fn whole_number(n: &Number) -> Option<i128> {
    let float = || n.as_f64().filter(|f| f.fract() == 0.0 && f.abs() <= EXACT as f64);
    n.as_i64().map(i128::from).or_else(|| n.as_u64().map(i128::from)).or_else(|| float().map(|f| f as i128))
}

/// Digits, perhaps after a minus sign: what the schema's pattern says.
fn decimal(text: &str) -> Option<i128> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let good = (1..=20).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    if good { text.parse().ok() } else { None }
}

fn read_float(json: &Value) -> Option<f64> {
    match json {
        Value::Number(n) => n.as_f64(),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn read_f32(json: &Value, path: &Path) -> Result<Val, String> {
    match read_float(json) {
        // To the nearest one; but a number never becomes an infinity.
        Some(wide) if (wide as f32).is_finite() || !wide.is_finite() => Ok(Val::Float32(wide as f32)),
        _ => path.wanted("an f32", json),
    }
}

/// Why a value was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unwritten {
    /// It takes more bytes than may be.
    TooLong,
    /// It is not of its type, which wasmtime rules out.
    Mismatch,
}

/// The JSON text of a value, as it grows; it may have so many bytes.
pub(super) struct Text {
    out: String,
    most: usize,
}

impl Text {
    pub(super) fn new(most: usize) -> Self {
        Self { out: String::new(), most }
    }

    pub(super) fn done(self) -> String {
        self.out
    }

    pub(super) fn push(&mut self, text: &str) -> Result<(), Unwritten> {
        if self.out.len().saturating_add(text.len()) > self.most {
            return Err(Unwritten::TooLong);
        }
        self.out.push_str(text);
        Ok(())
    }

    fn string(&mut self, text: &str) -> Result<(), Unwritten> {
        if text.len() > self.most {
            return Err(Unwritten::TooLong);
        }
        self.push(&Value::from(text).to_string())
    }

    /// `text` as a key and its colon.
    pub(super) fn key(&mut self, text: &str) -> Result<(), Unwritten> {
        self.string(text)?;
        self.push(":")
    }

    fn integer(&mut self, value: i128) -> Result<(), Unwritten> {
        let mut text = String::new();
        let exact = (-EXACT..=EXACT).contains(&value);
        // Writing into a string never fails.
        let _ = if exact { write!(text, "{value}") } else { write!(text, "\"{value}\"") };
        self.push(&text)
    }

    fn float(&mut self, value: f64) -> Result<(), Unwritten> {
        match serde_json::Number::from_f64(value) {
            Some(number) => self.push(&number.to_string()),
            None if value.is_nan() => self.push("\"NaN\""),
            None if value > 0.0 => self.push("\"Infinity\""),
            None => self.push("\"-Infinity\""),
        }
    }

    fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut one: impl FnMut(&mut Self, T) -> Result<(), Unwritten>,
    ) -> Result<(), Unwritten> {
        self.push("[")?;
        for (n, item) in items.into_iter().enumerate() {
            if n > 0 {
                self.push(",")?;
            }
            one(self, item)?;
        }
        self.push("]")
    }

    /// Writes `value`, which is of type `shape`.
    ///
    /// # Errors
    /// It takes too many bytes, or is not of that type.
    pub(super) fn value(&mut self, shape: &Shape, value: &Val) -> Result<(), Unwritten> {
        match (shape, value) {
            (Shape::Bool, Val::Bool(b)) => self.push(if *b { "true" } else { "false" }),
            (Shape::Integer(integer), value) => {
                let (least, largest) = integer.range();
                let fits = |value: &i128| (least..=largest).contains(value);
                self.integer(whole(value).filter(fits).ok_or(Unwritten::Mismatch)?)
            }
            (Shape::F32, Val::Float32(f)) => self.float(widened(*f)),
            (Shape::F64, Val::Float64(f)) => self.float(*f),
            (Shape::Char, Val::Char(c)) => self.string(c.encode_utf8(&mut [0; 4])),
            (Shape::String, Val::String(text)) => self.string(text),
            (Shape::Bytes, Val::List(items)) => {
                let bytes: Option<Vec<u8>> = items
                    .iter()
                    .map(|item| match item {
                        Val::U8(byte) => Some(*byte),
                        _ => None,
                    })
                    .collect();
                self.string(&BASE64.encode(bytes.ok_or(Unwritten::Mismatch)?))
            }
            (Shape::List(inner), Val::List(items)) => self.list(items, |text, item| text.value(inner, item)),
            (Shape::Tuple(shapes), Val::Tuple(items)) if shapes.len() == items.len() => {
                self.list(shapes.iter().zip(items), |text, (shape, item)| text.value(shape, item))
            }
            (Shape::Record(record), Val::Record(fields)) => self.record(&record.items, fields),
            (Shape::Variant(variant), Val::Variant(name, value)) => {
                self.case(variant.by_wit(name), value.as_deref())
            }
            (Shape::Result(cases), Val::Result(Ok(value))) => self.case(cases.first(), value.as_deref()),
            (Shape::Result(cases), Val::Result(Err(value))) => self.case(cases.last(), value.as_deref()),
            (Shape::Enum(names), Val::Enum(name)) => self.label(names, name),
            (Shape::Flags(names), Val::Flags(set)) => self.list(set, |text, name| text.label(names, name)),
            (Shape::Option(_), Val::Option(None)) => self.push("null"),
            (Shape::Option(inner), Val::Option(Some(value))) if matches!(**inner, Shape::Option(_)) => {
                self.push("{\"some\":")?;
                self.value(inner, value)?;
                self.push("}")
            }
            (Shape::Option(inner), Val::Option(Some(value))) => self.value(inner, value),
            _ => Err(Unwritten::Mismatch),
        }
    }

    /// Without the fields that are options and have nothing.
    fn record(&mut self, items: &[Item], fields: &[(String, Val)]) -> Result<(), Unwritten> {
        if items.len() != fields.len() {
            return Err(Unwritten::Mismatch);
        }
        self.push("{")?;
        let mut first = true;
        for (item, (_, value)) in items.iter().zip(fields) {
            if matches!(value, Val::Option(None)) {
                continue;
            }
            if !std::mem::replace(&mut first, false) {
                self.push(",")?;
            }
            self.key(&item.label.json)?;
            self.value(&item.shape, value)?;
        }
        self.push("}")
    }

    fn case(&mut self, case: Option<&Case>, value: Option<&Val>) -> Result<(), Unwritten> {
        let case = case.ok_or(Unwritten::Mismatch)?;
        self.push("{")?;
        self.key(&case.label.json)?;
        match (&case.shape, value) {
            (Some(shape), Some(value)) => self.value(shape, value)?,
            (None, None) => self.push("null")?,
            _ => return Err(Unwritten::Mismatch),
        }
        self.push("}")
    }

    fn label(&mut self, labels: &Named<Label>, name: &str) -> Result<(), Unwritten> {
        let label = labels.by_wit(name).ok_or(Unwritten::Mismatch)?;
        self.string(&label.json)
    }
}

fn whole(value: &Val) -> Option<i128> {
    Some(match value {
        Val::S8(v) => (*v).into(),
        Val::U8(v) => (*v).into(),
        Val::S16(v) => (*v).into(),
        Val::U16(v) => (*v).into(),
        Val::S32(v) => (*v).into(),
        Val::U32(v) => (*v).into(),
        Val::S64(v) => (*v).into(),
        Val::U64(v) => (*v).into(),
        _ => return None,
    })
}

/// The `f64` that the shortest text of `f` stands for: `0.1` and not `0.10000000149011612`.
fn widened(f: f32) -> f64 {
    if !f.is_finite() {
        return f.into();
    }
    match f.to_string().parse::<f64>() {
        Ok(wide) if wide as f32 == f => wide,
        _ => f.into(),
    }
}
