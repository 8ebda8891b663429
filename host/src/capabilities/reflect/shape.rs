//! The types of WIT, as far as JSON can say their values: read once, with names in snake case and with what
//! their authors said of them.

use std::collections::HashMap;

use wasmtime::component::types::Type;

use super::{
    docs::{Docs, TypeDocs},
    names::snake,
};
use crate::config::CatalogConfig;

/// A type.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Bool,
    Integer(Integer),
    F32,
    F64,
    Char,
    String,
    /// `list<u8>`.
    Bytes,
    List(Box<Shape>),
    Tuple(Vec<Shape>),
    Record(Named<Item>),
    Variant(Named<Case>),
    /// A `result` within another type.
    Result(Box<[Case; 2]>),
    Enum(Named<Label>),
    Flags(Named<Label>),
    Option(Box<Shape>),
}

/// The integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Integer {
    S8,
    U8,
    S16,
    U16,
    S32,
    U32,
    S64,
    U64,
}

impl Integer {
    /// The least and the largest value.
    pub(super) fn range(self) -> (i128, i128) {
        match self {
            Self::S8 => (i8::MIN.into(), i8::MAX.into()),
            Self::U8 => (0, u8::MAX.into()),
            Self::S16 => (i16::MIN.into(), i16::MAX.into()),
            Self::U16 => (0, u16::MAX.into()),
            Self::S32 => (i32::MIN.into(), i32::MAX.into()),
            Self::U32 => (0, u32::MAX.into()),
            Self::S64 => (i64::MIN.into(), i64::MAX.into()),
            Self::U64 => (0, u64::MAX.into()),
        }
    }

    /// Its name in WIT.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::S8 => "s8",
            Self::U8 => "u8",
            Self::S16 => "s16",
            Self::U16 => "u16",
            Self::S32 => "s32",
            Self::U32 => "u32",
            Self::S64 => "s64",
            Self::U64 => "u64",
        }
    }

    /// True where JSON's numbers, as most readers take them, do not hold all of its values.
    pub(super) fn is_wide(self) -> bool {
        matches!(self, Self::S64 | Self::U64)
    }
}

/// A type with a name of its own, and its fields or cases.
#[derive(Clone, Debug)]
pub(super) struct Named<T> {
    pub(super) name: Option<String>,
    pub(super) docs: Option<String>,
    pub(super) items: Vec<T>,
    /// Places in `items`, by the names in WIT and in JSON: types may have thousands of cases, and lists of them
    /// thousands of items.
    by_wit: HashMap<String, usize>,
    by_json: HashMap<String, usize>,
}

impl<T> Named<T> {
    /// The item with that name in WIT.
    pub(super) fn by_wit(&self, name: &str) -> Option<&T> {
        self.items.get(*self.by_wit.get(name)?)
    }

    /// The item with that name in JSON.
    pub(super) fn by_json(&self, name: &str) -> Option<&T> {
        self.items.get(*self.by_json.get(name)?)
    }
}

/// One case of an enum, or one flag.
#[derive(Clone, Debug)]
pub(super) struct Label {
    /// In WIT.
    pub(super) wit: String,
    /// In JSON.
    pub(super) json: String,
    pub(super) docs: Option<String>,
}

/// One field of a record.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) label: Label,
    pub(super) shape: Shape,
}

/// One case of a variant or a result.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) label: Label,
    pub(super) shape: Option<Box<Shape>>,
}

/// Reads types, and counts what it has read.
pub(super) struct Reader<'a> {
    docs: &'a Docs,
    left: usize,
    /// Bytes of texts that may still be taken: a type's stand wherever it is used.
    texts: usize,
    /// The same of this function.
    own_texts: usize,
    /// There was a text too many.
    cut: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(docs: &'a Docs) -> Self {
        let (texts, own_texts) = (CatalogConfig::REFLECTED_DOCS, CatalogConfig::REFLECTED_TOOL_DOCS);
        Self { docs, left: CatalogConfig::REFLECTED_TYPES, texts, own_texts, cut: false }
    }

    /// Another function begins: it has room for texts of its own.
    pub(super) fn begin(&mut self) {
        self.own_texts = CatalogConfig::REFLECTED_TOOL_DOCS;
    }

    /// True where some text was left out.
    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    /// The shape of `ty`.
    ///
    /// # Errors
    /// JSON cannot say its values, or it is too deep or too large: what is wrong with it.
    pub(super) fn read(&mut self, ty: &Type) -> Result<Shape, String> {
        self.at(ty, 1)
    }

    fn at(&mut self, ty: &Type, depth: usize) -> Result<Shape, String> {
        let most = CatalogConfig::REFLECTED_DEPTH;
        if depth > most {
            return Err(format!("types are nested more than {most} deep"));
        }
        self.spend(1)?;
        Ok(match ty {
            Type::Bool => Shape::Bool,
            Type::S8 => Shape::Integer(Integer::S8),
            Type::U8 => Shape::Integer(Integer::U8),
            Type::S16 => Shape::Integer(Integer::S16),
            Type::U16 => Shape::Integer(Integer::U16),
            Type::S32 => Shape::Integer(Integer::S32),
            Type::U32 => Shape::Integer(Integer::U32),
            Type::S64 => Shape::Integer(Integer::S64),
            Type::U64 => Shape::Integer(Integer::U64),
            Type::Float32 => Shape::F32,
            Type::Float64 => Shape::F64,
            Type::Char => Shape::Char,
            Type::String => Shape::String,
            Type::List(list) => match list.ty() {
                Type::U8 => Shape::Bytes,
                ty => Shape::List(Box::new(self.at(&ty, depth + 1)?)),
            },
            Type::Tuple(tuple) => {
                Shape::Tuple(tuple.types().map(|ty| self.at(&ty, depth + 1)).collect::<Result<_, _>>()?)
            }
            Type::Option(option) => Shape::Option(Box::new(self.at(&option.ty(), depth + 1)?)),
            Type::Result(result) => {
                let case = |wit: &str| Label { wit: wit.to_owned(), json: wit.to_owned(), docs: None };
                Shape::Result(Box::new([
                    Case { label: case("ok"), shape: self.payload(result.ok(), depth)? },
                    Case { label: case("err"), shape: self.payload(result.err(), depth)? },
                ]))
            }
            Type::Record(_) | Type::Variant(_) | Type::Enum(_) | Type::Flags(_) => self.named(ty, depth)?,
            other => return Err(self.refusal(other)),
        })
    }

    fn payload(&mut self, ty: Option<Type>, depth: usize) -> Result<Option<Box<Shape>>, String> {
        ty.map(|ty| self.at(&ty, depth + 1).map(Box::new)).transpose()
    }

    fn named(&mut self, ty: &Type, depth: usize) -> Result<Shape, String> {
        let (name, said) = self.docs.named(ty);
        let name = name.map(str::to_owned);
        let docs = self.text(said.and_then(|said| said.docs.as_deref()));
        Ok(match ty {
            Type::Record(record) => {
                self.spend(record.fields().len())?;
                let items = record.fields().map(|field| {
                    let shape = self.at(&field.ty, depth + 1)?;
                    Ok(Item { label: self.label(field.name, said), shape })
                });
                let items = items.collect::<Result<_, String>>()?;
                Shape::Record(Named { name, docs, items, by_wit: HashMap::new(), by_json: HashMap::new() })
            }
            Type::Variant(variant) => {
                self.spend(variant.cases().len())?;
                let items = variant.cases().map(|case| {
                    let shape = self.payload(case.ty, depth)?;
                    Ok(Case { label: self.label(case.name, said), shape })
                });
                let items = items.collect::<Result<Vec<_>, String>>()?;
                Shape::Variant(indexed(name, docs, items, |case| &case.label))
            }
            Type::Enum(cases) => {
                self.spend(cases.names().len())?;
                let items = cases.names().map(|name| self.label(name, said)).collect();
                Shape::Enum(indexed(name, docs, items, |label| label))
            }
            Type::Flags(flags) => {
                self.spend(flags.names().len())?;
                let items = flags.names().map(|name| self.label(name, said)).collect();
                Shape::Flags(indexed(name, docs, items, |label| label))
            }
            other => return Err(self.refusal(other)),
        })
    }

    fn spend(&mut self, types: usize) -> Result<(), String> {
        self.left = self.left.checked_sub(types).ok_or_else(|| {
            let most = CatalogConfig::REFLECTED_TYPES;
            format!("with it, the signatures have more than {most} types, fields and cases, each counted wherever it is used")
        })?;
        Ok(())
    }

    fn label(&mut self, wit: &str, said: Option<&TypeDocs>) -> Label {
        let docs = self.text(said.and_then(|said| said.items.get(wit)).map(String::as_str));
        Label { wit: wit.to_owned(), json: snake(wit), docs }
    }

    /// `text`, while there is room for it.
    fn text(&mut self, text: Option<&str>) -> Option<String> {
        let text = text?;
        if text.len() > self.texts.min(self.own_texts) {
            self.cut = true;
            return None;
        }
        self.texts -= text.len();
        self.own_texts -= text.len();
        Some(text.to_owned())
    }

    /// Why no JSON can stand for a type.
    fn refusal(&self, ty: &Type) -> String {
        let kind = match ty {
            Type::Own(resource) | Type::Borrow(resource) => {
                let name = self.docs.resource(resource).map_or_else(String::new, |name| format!(" `{name}`"));
                return format!(
                    "the resource{name} is a handle within one instance, and each call has its own"
                );
            }
            Type::Future(_) => "a future",
            Type::Stream(_) => "a stream",
            Type::ErrorContext => "an error-context",
            Type::Map(_) => "a map",
            Type::FixedLengthList(_) => "a list of fixed length",
            _ => "a type of this kind",
        };
        format!("{kind} has no form in JSON here")
    }
}

fn indexed<T>(
    name: Option<String>,
    docs: Option<String>,
    items: Vec<T>,
    label: impl Fn(&T) -> &Label,
) -> Named<T> {
    let by_wit = items.iter().enumerate().map(|(n, item)| (label(item).wit.clone(), n)).collect();
    let by_json = items.iter().enumerate().map(|(n, item)| (label(item).json.clone(), n)).collect();
    Named { name, docs, items, by_wit, by_json }
}

impl Shape {
    /// As it stands in a signature; bounded in length by the names that types have.
    pub(super) fn text(&self) -> String {
        self.text_at(0)
    }

    fn text_at(&self, depth: usize) -> String {
        // Deeper types would make the text longer than its use.
        if depth > 3 {
            return "…".to_owned();
        }
        let named = |name: &Option<String>, kind: &str| name.clone().unwrap_or_else(|| kind.to_owned());
        let inner = |shape: &Shape| shape.text_at(depth + 1);
        match self {
            Self::Bool => "bool".to_owned(),
            Self::Integer(i) => i.name().to_owned(),
            Self::F32 => "f32".to_owned(),
            Self::F64 => "f64".to_owned(),
            Self::Char => "char".to_owned(),
            Self::String => "string".to_owned(),
            Self::Bytes => "list<u8>".to_owned(),
            Self::List(shape) => format!("list<{}>", inner(shape)),
            Self::Option(shape) => format!("option<{}>", inner(shape)),
            Self::Tuple(shapes) => {
                format!("tuple<{}>", shapes.iter().map(inner).collect::<Vec<_>>().join(", "))
            }
            Self::Result(cases) => {
                let [ok, err] = cases.each_ref().map(|case| case.shape.as_deref().map(inner));
                result_text(ok, err)
            }
            Self::Record(named_) => named(&named_.name, "record"),
            Self::Variant(named_) => named(&named_.name, "variant"),
            Self::Enum(named_) => named(&named_.name, "enum"),
            Self::Flags(named_) => named(&named_.name, "flags"),
        }
    }
}

/// A `result` as WIT writes it.
pub(super) fn result_text(ok: Option<String>, err: Option<String>) -> String {
    match (ok, err) {
        (None, None) => "result".to_owned(),
        (Some(ok), None) => format!("result<{ok}>"),
        (ok, Some(err)) => format!("result<{}, {err}>", ok.as_deref().unwrap_or("_")),
    }
}
