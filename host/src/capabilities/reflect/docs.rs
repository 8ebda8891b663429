//! What a component's authors wrote in its WIT: the custom section `package-docs`, a byte of version and then
//! JSON (wit-parser's `PackageMetadata`). It has texts for packages, worlds, interfaces, functions, types,
//! fields and cases; WIT has none for parameters.
//!
//! wit-component writes the section into the WIT package that toolchains embed in a core module
//! (`component-type…`), and takes that away when it makes the component. So a component has documentation where
//! its author kept the section, anywhere in it; every place is looked at.

use std::collections::HashMap;

use serde::Deserialize;
use wasmparser::{Parser, Payload};
use wasmtime::component::{
    Component, ResourceType,
    types::{ComponentItem, Type},
};

use super::names;
use crate::config::CatalogConfig;

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
    worlds: Texts<World>,
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

impl FunctionDocs {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Record { docs } => docs.as_deref(),
            Self::Other(_) => None,
        }
    }
}

/// Texts for a type, and for its fields or cases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct TypeDocs {
    pub(super) docs: Option<String>,
    pub(super) items: Texts<String>,
}

/// All that is known of one component beside its types.
#[derive(Default)]
pub(super) struct Docs {
    packages: Vec<Package>,
    /// Types that have names, by what they look like: their interfaces and names.
    types: HashMap<String, Vec<(Option<String>, String)>>,
    resources: Vec<(String, ResourceType)>,
}

impl Docs {
    /// Reads what is in `bytes`, and the names of `component`'s types. A section that cannot be read is left out:
    /// documentation is no reason not to serve.
    pub(super) fn read(component: &Component, bytes: &[u8]) -> Self {
        let mut docs = Self::default();
        sections(bytes, true, &mut docs.packages);
        docs.name_types(component);
        docs
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
        if self.types.len() + self.resources.len() >= CatalogConfig::REFLECTED_NAMES {
            return;
        }
        match item {
            ComponentItem::Type(ty) => {
                if let Some(look) = look(&ty) {
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
        let text = match export {
            None => {
                self.worlds().find_map(|w| w.func_exports.get(name).or_else(|| w.funcs.get(name))?.text())
            }
            Some(export) => self.interfaces(names::interface(export)).find_map(|i| i.funcs.get(name)?.text()),
        };
        text.map(str::trim).filter(|text| !text.is_empty())
    }

    /// What is said of an interface.
    pub(super) fn interface(&self, export: &str) -> Option<&str> {
        let text = self.interfaces(names::interface(export)).find_map(|i| i.docs.as_deref());
        text.map(str::trim).filter(|text| !text.is_empty())
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
        match interface {
            None => self.worlds().find_map(|w| w.types.get(name)),
            Some(interface) => self.interfaces(interface).find_map(|i| i.types.get(name)),
        }
    }

    fn worlds(&self) -> impl Iterator<Item = &World> {
        self.packages.iter().flat_map(|p| p.worlds.values())
    }

    /// Interfaces of that name: those that a package has, then those written within a world.
    fn interfaces(&self, name: &str) -> impl Iterator<Item = &Interface> {
        let own = self.packages.iter().filter_map(move |p| p.interfaces.get(name));
        let within = self
            .worlds()
            .filter_map(move |w| w.interface_exports.get(name).or_else(|| w.interfaces.get(name)));
        own.chain(within)
    }
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

/// Collects the sections of `bytes`, and of the WIT packages that are embedded in them.
fn sections(bytes: &[u8], embedded: bool, into: &mut Vec<Package>) {
    for payload in Parser::new(0).parse_all(bytes) {
        // What is no WebAssembly is the engine's to refuse.
        let Ok(payload) = payload else { return };
        let Payload::CustomSection(section) = payload else { continue };
        if section.name() == SECTION {
            match package(section.data()) {
                Ok(_) if into.len() >= CatalogConfig::REFLECTED_SECTIONS => {}
                Ok(package) => into.push(package),
                Err(reason) => tracing::warn!("the documentation in a component is left out: {reason}"),
            }
        } else if embedded && section.name().starts_with(EMBEDDED) {
            sections(section.data(), false, into);
        }
    }
}

fn package(data: &[u8]) -> Result<Package, String> {
    let most = CatalogConfig::REFLECTED_DOCS;
    if data.len() > most {
        return Err(format!("its section `{SECTION}` has {} bytes, more than {most}", data.len()));
    }
    let (version, json) = data.split_first().ok_or("its section is empty")?;
    if !VERSIONS.contains(version) {
        return Err(format!("its section `{SECTION}` is of the version {version}, which is not known here"));
    }
    serde_json::from_slice(json).map_err(|e| format!("its section `{SECTION}` cannot be read: {e}"))
}
