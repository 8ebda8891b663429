//! What a component's authors wrote in its WIT: the custom section `package-docs`, a byte of version and then
//! JSON (wit-parser's `PackageMetadata`). It has texts for packages, worlds, interfaces, functions, types,
//! fields and cases; WIT has none for parameters.
//!
//! wit-component writes the section into the WIT package that toolchains embed in a core module
//! (`component-type…`), and takes that away when it makes the component. So a component has documentation where
//! its author kept the section, anywhere in it; every place is looked at.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use wasmparser::{Parser, Payload};
use wasmtime::component::{
    Component, ResourceType,
    types::{ComponentItem, Type},
};

use super::names;
use crate::{
    base::{neutral_line, neutral_text},
    config::CatalogConfig,
};

/// The section's name.
const SECTION: &str = "package-docs";
/// What begins the names of sections with an encoded WIT package.
const EMBEDDED: &str = "component-type";
/// Versions of the section that read alike.
const VERSIONS: [u8; 2] = [0, 1];

type Texts<T> = HashMap<String, T>;

/// One section.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Package {
    // In order: where two say something of one thing, the same one is taken each time.
    worlds: BTreeMap<String, World>,
    interfaces: Texts<Interface>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct World {
    types: Texts<TypeDocs>,
    funcs: Texts<FunctionDocs>,
    func_exports: Texts<FunctionDocs>,
    interfaces: Texts<Interface>,
    interface_exports: Texts<Interface>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Interface {
    docs: Option<String>,
    funcs: Texts<FunctionDocs>,
    types: Texts<TypeDocs>,
}

/// The older version has a text alone.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum FunctionDocs {
    Text(String),
    Record { docs: Option<String> },
    Other(serde::de::IgnoredAny),
}

/// Texts for a type, and for its fields or cases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct TypeDocs {
    pub(super) docs: Option<String>,
    pub(super) items: Texts<String>,
}

/// What is said of an interface, or of all worlds together, by all sections.
#[derive(Default)]
struct Said {
    docs: Option<String>,
    funcs: Texts<String>,
    types: Texts<TypeDocs>,
}

/// All that is known of one component beside its types.
#[derive(Default)]
pub(super) struct Docs {
    worlds: Said,
    interfaces: Texts<Said>,
    /// Types that have names, by what they look like: their interfaces and names.
    types: HashMap<String, Vec<(Option<String>, String)>>,
    /// Fields and cases of the types that were named.
    named: usize,
    resources: Vec<(String, ResourceType)>,
    remarks: Vec<String>,
}

impl Docs {
    /// Reads what is in `bytes`, and the names of `component`'s types. A section that cannot be read is left out:
    /// documentation is no reason not to serve.
    pub(super) fn read(component: &Component, bytes: &[u8]) -> Self {
        let mut sections = Sections::default();
        sections.find(bytes, true);
        let mut docs = Self { remarks: sections.remarks, ..Self::default() };
        let (all, worlds): (Vec<_>, Vec<_>) =
            sections.packages.into_iter().map(|p| (p.interfaces, p.worlds)).unzip();
        // Interfaces that a package has come before those written within a world.
        for (name, interface) in all.into_iter().flatten() {
            docs.interfaces.entry(name).or_default().add(interface);
        }
        for world in worlds.into_iter().flat_map(BTreeMap::into_values) {
            docs.worlds.functions(world.func_exports);
            docs.worlds.functions(world.funcs);
            docs.worlds.types(world.types);
            for (name, interface) in world.interface_exports.into_iter().chain(world.interfaces) {
                docs.interfaces.entry(name).or_default().add(interface);
            }
        }
        docs.name_types(component);
        docs
    }

    /// What of the documentation is left out, and why.
    pub(super) fn remarks(&self) -> &[String] {
        &self.remarks
    }

    fn name_types(&mut self, component: &Component) {
        let engine = component.engine();
        let kind = component.component_type();
        for (name, item) in kind.exports(engine).chain(kind.imports(engine)) {
            match item.ty {
                ComponentItem::ComponentInstance(instance) if !name.starts_with("wasi:") => {
                    for (inner, item) in instance.exports(engine) {
                        self.name_type(Some(name), inner, item.ty);
                    }
                }
                other => self.name_type(None, name, other),
            }
        }
    }

    fn name_type(&mut self, interface: Option<&str>, name: &str, item: ComponentItem) {
        if self.types.len() + self.resources.len() >= CatalogConfig::REFLECTED_NAMES
            || self.named >= CatalogConfig::REFLECTED_TYPES
        {
            return;
        }
        match item {
            ComponentItem::Type(ty) => {
                if let Some(look) = look(&ty) {
                    // A type may be exported under thousands of names, and have thousands of fields.
                    self.named += 1 + look.len() / 8;
                    let interface = interface.map(|i| names::interface(i).to_owned());
                    let alike = self.types.entry(look).or_default();
                    // A type that many interfaces use needs not be looked up in all of them.
                    if alike.len() < CatalogConfig::REFLECTED_SECTIONS {
                        alike.push((interface, name.to_owned()));
                    }
                }
            }
            ComponentItem::Resource(resource) => self.resources.push((name.to_owned(), resource)),
            _ => {}
        }
    }

    /// What is said of a function; `export` is the export that holds it.
    pub(super) fn function(&self, export: Option<&str>, name: &str) -> Option<&str> {
        let said = match export {
            None => &self.worlds,
            Some(export) => self.interfaces.get(names::interface(export))?,
        };
        said.funcs.get(name).map(String::as_str)
    }

    /// What is said of an interface.
    pub(super) fn interface(&self, export: &str) -> Option<&str> {
        self.interfaces.get(names::interface(export))?.docs.as_deref()
    }

    /// The name of a type, and what is said of it. Types are told apart by what they look like: where two
    /// that look alike have other names or texts, neither is taken.
    pub(super) fn named(&self, ty: &Type) -> (Option<&str>, Option<&TypeDocs>) {
        let Some(alike) = look(ty).and_then(|look| self.types.get(&look)) else { return (None, None) };
        let Some((_, name)) = alike.first() else { return (None, None) };
        if alike.iter().any(|(_, other)| other != name) {
            return (None, None);
        }
        let mut texts = alike.iter().filter_map(|(interface, name)| self.of_type(interface.as_deref(), name));
        let first = texts.next();
        let differ = texts.any(|other| first.is_some_and(|first| first != other));
        (Some(name), first.filter(|_| !differ))
    }

    /// The name of a resource.
    pub(super) fn resource(&self, resource: &ResourceType) -> Option<&str> {
        Some(self.resources.iter().find(|(_, other)| other == resource)?.0.as_str())
    }

    fn of_type(&self, interface: Option<&str>, name: &str) -> Option<&TypeDocs> {
        let said = match interface {
            None => &self.worlds,
            Some(interface) => self.interfaces.get(interface)?,
        };
        said.types.get(name)
    }
}

impl Said {
    /// What is said first is kept.
    fn add(&mut self, interface: Interface) {
        if self.docs.is_none() {
            self.docs = interface.docs.and_then(|text| clean(&text));
        }
        self.functions(interface.funcs);
        self.types(interface.types);
    }

    fn functions(&mut self, funcs: Texts<FunctionDocs>) {
        for (name, docs) in funcs {
            let text = match docs {
                FunctionDocs::Text(text) => Some(text),
                FunctionDocs::Record { docs } => docs,
                FunctionDocs::Other(_) => None,
            };
            if let Some(text) = text.and_then(|text| clean(&text)) {
                self.funcs.entry(name).or_insert(text);
            }
        }
    }

    fn types(&mut self, types: Texts<TypeDocs>) {
        for (name, TypeDocs { docs, items }) in types {
            let docs = docs.and_then(|text| clean(&text));
            let items = items.into_iter().filter_map(|(item, text)| Some((item, clean(&text)?))).collect();
            self.types.entry(name).or_insert(TypeDocs { docs, items });
        }
    }
}

/// `text` as it may stand in a list: of bounded length, and with nothing in it that changes how other text is shown.
/// None where nothing is left.
fn clean(text: &str) -> Option<String> {
    let most = CatalogConfig::REFLECTED_TEXT;
    let text = text.trim();
    let mut clean = neutral_text(&text[..text.floor_char_boundary(most)]);
    if text.len() > most || clean.len() > most {
        clean.truncate(clean.floor_char_boundary(most));
        clean.push('…');
    }
    (!clean.is_empty()).then_some(clean)
}

/// What a type with a name looks like, to the depth of one: comparing types whole costs more than it is worth.
fn look(ty: &Type) -> Option<String> {
    let named = |kind: &str, items: &mut dyn Iterator<Item = (&str, Option<Type>)>| {
        items.fold(kind.to_owned(), |mut text, (name, ty)| {
            text.push(' ');
            text.push_str(name);
            if let Some(ty) = ty {
                text.push(':');
                text.push_str(kind_of(&ty));
            }
            text
        })
    };
    Some(match ty {
        Type::Record(record) => named("record", &mut record.fields().map(|f| (f.name, Some(f.ty)))),
        Type::Variant(variant) => named("variant", &mut variant.cases().map(|c| (c.name, c.ty))),
        Type::Enum(cases) => named("enum", &mut cases.names().map(|name| (name, None))),
        Type::Flags(flags) => named("flags", &mut flags.names().map(|name| (name, None))),
        _ => return None,
    })
}

fn kind_of(ty: &Type) -> &'static str {
    match ty {
        Type::Bool => "bool",
        Type::S8 => "s8",
        Type::U8 => "u8",
        Type::S16 => "s16",
        Type::U16 => "u16",
        Type::S32 => "s32",
        Type::U32 => "u32",
        Type::S64 => "s64",
        Type::U64 => "u64",
        Type::Float32 => "f32",
        Type::Float64 => "f64",
        Type::Char => "char",
        Type::String => "string",
        Type::List(_) => "list",
        Type::Record(_) => "record",
        Type::Tuple(_) => "tuple",
        Type::Variant(_) => "variant",
        Type::Enum(_) => "enum",
        Type::Option(_) => "option",
        Type::Result(_) => "result",
        Type::Flags(_) => "flags",
        _ => "other",
    }
}

/// The sections of a component.
#[derive(Default)]
struct Sections {
    packages: Vec<Package>,
    remarks: Vec<String>,
    /// Those that were looked at, whether they could be read or not.
    seen: usize,
}

impl Sections {
    /// Finds those of `bytes`, and where `embedded` those of the WIT packages that are embedded in them.
    fn find(&mut self, bytes: &[u8], embedded: bool) {
        for payload in Parser::new(0).parse_all(bytes) {
            // What is no WebAssembly is the engine's to refuse.
            let Ok(payload) = payload else { return };
            let Payload::CustomSection(section) = payload else { continue };
            if section.name() == SECTION {
                self.add(section.data());
            } else if embedded && section.name().starts_with(EMBEDDED) {
                self.find(section.data(), false);
            }
        }
    }

    fn add(&mut self, data: &[u8]) {
        let most = CatalogConfig::REFLECTED_SECTIONS;
        self.seen += 1;
        if self.seen > most {
            if self.seen == most + 1 {
                self.remarks
                    .push(format!("it has more than {most} sections `{SECTION}`; the others are left out"));
            }
            return;
        }
        match package(data) {
            Ok(package) => self.packages.push(package),
            Err(reason) => self.remarks.push(format!("its section `{SECTION}` {reason}, and is left out")),
        }
    }
}

fn package(data: &[u8]) -> Result<Package, String> {
    let most = CatalogConfig::REFLECTED_DOCS;
    if data.len() > most {
        return Err(format!("has {} bytes, more than {most}", data.len()));
    }
    let (version, json) = data.split_first().ok_or("is empty")?;
    if !VERSIONS.contains(version) {
        return Err(format!("is of the version {version}, which is not known here"));
    }
    serde_json::from_slice(json).map_err(|e| format!("cannot be read: {}", neutral_line(&e.to_string())))
}
