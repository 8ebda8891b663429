//! Components that know nothing of Layby: each function that one exports is served as a tool. What its name,
//! description and schemas are is read from the component once, when it is prepared; a call turns JSON into
//! the component model's values, and the answer back.
//!
//! *Grant*: none. *Effect class* and what is *recorded*: those of what the function itself reaches.

mod docs;
mod json;
mod names;
mod schema;
mod shape;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use wasmtime::{
    Store,
    component::{
        Component, ComponentExportIndex, Instance, Val,
        types::{ComponentFunc, ComponentItem, Type},
    },
};

use super::{
    State,
    run::{returned, too_large},
    state::Ended,
    wit_types::{Content, Tool, ToolAnnotations, ToolError, ToolResult},
};
use crate::{base::neutral_line, config::CatalogConfig};
use docs::Docs;
use json::{Path, Text, Unwritten};
use schema::For;
use shape::{Label, Reader, Shape};

/// What a function without a result answers: MCP wants some content.
const DONE: &str = "done";
/// What begins the names of interfaces that are the system's: they are no tools.
const SYSTEM: &str = "wasi:";

/// The functions of one component, as tools.
pub(super) struct Reflected {
    functions: BTreeMap<String, Function>,
    /// In the order in which the component exports them.
    tools: Vec<Tool>,
    remarks: Vec<String>,
}

/// One function.
struct Function {
    /// As people name it.
    whole: String,
    index: ComponentExportIndex,
    params: Vec<(Label, Shape)>,
    returns: Returns,
}

/// What a function returns.
enum Returns {
    Nothing,
    Value(Shape),
    /// A `result` at the top: its error is the tool's.
    Fallible {
        ok: Option<Shape>,
        err: Option<Shape>,
    },
}

/// One exported function, before it is a tool.
struct Found {
    /// The export that holds it, where that is an interface.
    interface: Option<String>,
    name: String,
    ty: ComponentFunc,
}

impl Reflected {
    /// The functions of `component`, whose bytes are `bytes` (for what they say of themselves).
    ///
    /// # Errors
    /// It exports no function, or one that cannot be a tool: why.
    pub(super) fn of(component: &Component, bytes: &[u8]) -> Result<Self, String> {
        let found = find(component)?;
        let docs = Docs::read(component, bytes);
        let mut reader = Reader::new(&docs);
        let (mut functions, mut origins) = (BTreeMap::new(), BTreeMap::new());
        let mut tools = Vec::with_capacity(found.len());
        for found in found {
            reader.begin();
            let function = found.function(component, &mut reader).map_err(|e| format!("{found}: {e}"))?;
            let name = names::tool(found.interface.as_deref(), &found.name);
            if let Some(other) = origins.insert(name.clone(), found.to_string()) {
                return Err(format!(
                    "{other} and {found} would both be the tool `{name}`; rename one of them"
                ));
            }
            tools.push(function.tool(&name, &found, &docs));
            functions.insert(name, function);
        }
        let mut remarks = docs.remarks().to_vec();
        if reader.is_cut() {
            remarks.push(
                "its types have more documentation than goes into schemas; a part is left out".to_owned(),
            );
        }
        Ok(Self { functions, tools, remarks })
    }

    /// What of the component's documentation is left out, and why: nothing that stops it from being served.
    pub(super) fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// What a plugin's own `list-tools` would answer.
    pub(super) fn tools(&self) -> Vec<Tool> {
        self.tools.clone()
    }

    /// Calls the function that is the tool `name`.
    ///
    /// # Errors
    /// What ended the guest.
    pub(super) async fn call(
        &self,
        store: &mut Store<State>,
        instance: &Instance,
        name: &str,
        arguments: &str,
    ) -> wasmtime::Result<Result<ToolResult, ToolError>> {
        let missing = || wasmtime::Error::msg(format!("the component exports no function for `{name}`"));
        let function = self.functions.get(name).ok_or_else(missing)?;
        let params = match function.arguments(arguments) {
            Ok(params) => params,
            Err(reason) => return Ok(Err(failed(reason))),
        };
        let called = instance.get_func(&mut *store, function.index).ok_or_else(missing)?;
        let mut results = match function.returns {
            Returns::Nothing => Vec::new(),
            _ => vec![Val::Bool(false)],
        };
        returned(&function.whole, called.call_async(&mut *store, &params, &mut results).await)?;
        let most = store.data().limits.output.as_usize();
        match function.answer(name, results.pop(), most) {
            Ok(answer) => Ok(answer),
            Err(Unwritten::TooLong) => Err(Ended(too_large(store)).into()),
            Err(Unwritten::Mismatch) => {
                returned(&function.whole, Err(wasmtime::Error::msg("it is not of its type")))
            }
        }
    }
}

/// Every function that `component` exports, in its order.
///
/// # Errors
/// It exports something that is neither function nor type, too many functions, or none.
fn find(component: &Component) -> Result<Vec<Found>, String> {
    let engine = component.engine();
    let kind = component.component_type();
    let mut found = Vec::new();
    let mut other = Vec::new();
    for (name, item) in kind.exports(engine) {
        match item.ty {
            ComponentItem::ComponentInstance(_) if name.starts_with(SYSTEM) => other.push(name),
            ComponentItem::ComponentInstance(instance) => {
                for (inner, item) in instance.exports(engine) {
                    let outer = Some(name.to_owned());
                    found.extend(function(outer, inner, item.ty)?);
                }
            }
            item => found.extend(function(None, name, item)?),
        }
    }
    let most = CatalogConfig::REFLECTED_FUNCTIONS;
    if found.len() > most {
        return Err(format!("it exports {} functions, more than {most}", found.len()));
    }
    if found.is_empty() {
        let has = if other.is_empty() { "nothing".to_owned() } else { format!("`{}`", other.join("`, `")) };
        return Err(format!(
            "it does not export `layby:plugin/tools`, nor a function that could be a tool (it exports {has})"
        ));
    }
    Ok(found)
}

fn function(interface: Option<String>, name: &str, item: ComponentItem) -> Result<Option<Found>, String> {
    let kind = match item {
        ComponentItem::ComponentFunc(ty) => {
            return Ok(Some(Found { interface, name: name.to_owned(), ty }));
        }
        // Types are for what the functions have; a resource alone, which nothing makes, does no harm.
        ComponentItem::Type(_) | ComponentItem::Resource(_) => return Ok(None),
        ComponentItem::CoreFunc(_) => "a core function",
        ComponentItem::Module(_) => "a core module",
        ComponentItem::Component(_) => "a component",
        ComponentItem::ComponentInstance(_) => "an interface within an interface",
    };
    let whole = interface.map_or_else(|| name.to_owned(), |interface| format!("{interface}/{name}"));
    Err(format!("its export `{}` is {kind}; only functions can be tools", neutral_line(&whole)))
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the function `{}`", neutral_line(&self.name))?;
        match &self.interface {
            Some(interface) => write!(f, " of `{}`", neutral_line(interface)),
            None => Ok(()),
        }
    }
}

impl Found {
    fn function(&self, component: &Component, reader: &mut Reader<'_>) -> Result<Function, String> {
        if self.ty.async_() {
            return Err("it is async, which this host does not call".to_owned());
        }
        let mut params = Vec::with_capacity(self.ty.params().len());
        for (name, ty) in self.ty.params() {
            let label = Label { wit: name.to_owned(), json: names::snake(name), docs: None };
            let shape =
                reader.read(&ty).map_err(|e| format!("its parameter `{}`: {e}", neutral_line(name)))?;
            params.push((label, shape));
        }
        let mut results = self.ty.results();
        let returns = match (results.next(), results.next()) {
            (None, _) => Returns::Nothing,
            (Some(ty), None) => returns(&ty, reader).map_err(|e| format!("its result: {e}"))?,
            (Some(_), Some(_)) => return Err("it has more than one result".to_owned()),
        };
        // Of a resource, even where neither has it: it belongs to what cannot be called here.
        if self.name.starts_with('[') {
            return Err("it belongs to a resource, which is a handle within one instance".to_owned());
        }
        let outer = self.interface.as_deref().map(|name| component.get_export_index(None, name));
        let index = match outer {
            None => component.get_export_index(None, &self.name),
            Some(outer) => outer.and_then(|outer| component.get_export_index(Some(&outer), &self.name)),
        };
        let index = index.ok_or("it cannot be found again")?;
        Ok(Function { whole: self.to_string(), index, params, returns })
    }
}

fn returns(ty: &Type, reader: &mut Reader<'_>) -> Result<Returns, String> {
    let Type::Result(result) = ty else { return reader.read(ty).map(Returns::Value) };
    let mut read = |ty: Option<Type>| ty.map(|ty| reader.read(&ty)).transpose();
    Ok(Returns::Fallible { ok: read(result.ok())?, err: read(result.err())? })
}

impl Function {
    /// The tool as a plugin would list it. Nothing says what the function does to the world, so there are no hints.
    fn tool(&self, name: &str, found: &Found, docs: &Docs) -> Tool {
        let inputs = self.params.iter().map(|(label, shape)| (label, shape));
        let input = schema::members(inputs, For::Arguments);
        let said = docs.function(found.interface.as_deref(), &found.name);
        let description = said.map_or_else(|| self.signature(found, docs), str::to_owned);
        Tool {
            name: name.to_owned(),
            title: None,
            description,
            input_schema: Value::Object(input).to_string(),
            output_schema: self.output().map(|map| Value::Object(map).to_string()),
            annotations: ToolAnnotations {
                read_only: None,
                destructive: None,
                idempotent: None,
                open_world: None,
            },
            extra: None,
        }
    }

    /// A description for a function of which its author said nothing.
    fn signature(&self, found: &Found, docs: &Docs) -> String {
        let params: Vec<_> =
            self.params.iter().map(|(label, shape)| format!("{}: {}", label.json, shape.text())).collect();
        let text = |shape: &Option<Shape>| shape.as_ref().map(Shape::text);
        let result = match &self.returns {
            Returns::Nothing => String::new(),
            Returns::Value(shape) => format!(" -> {}", shape.text()),
            Returns::Fallible { ok, err } => format!(" -> {}", shape::result_text(text(ok), text(err))),
        };
        let call = format!("{}({}){result}", found.name, params.join(", "));
        match &found.interface {
            None => format!("Calls `{call}`."),
            Some(interface) => {
                let about = docs.interface(interface).map_or_else(String::new, |text| format!("\n\n{text}"));
                format!("Calls `{call}` of the interface `{interface}`.{about}")
            }
        }
    }

    /// What a result that is no failure has.
    fn shape(&self) -> Option<&Shape> {
        match &self.returns {
            Returns::Nothing => None,
            Returns::Value(shape) => Some(shape),
            Returns::Fallible { ok, .. } => ok.as_ref(),
        }
    }

    /// The schema of `structuredContent`: a record as it is, anything else under `result`.
    fn output(&self) -> Option<Map<String, Value>> {
        let shape = self.shape()?;
        let inner = schema::schema(shape, For::Results);
        if matches!(shape, Shape::Record(_)) {
            return Some(inner);
        }
        let mut map = Map::new();
        map.insert("type".into(), "object".into());
        map.insert("properties".into(), json!({"result": inner}));
        map.insert("required".into(), json!(["result"]));
        map.insert("additionalProperties".into(), false.into());
        Some(map)
    }

    /// # Errors
    /// Where the arguments are not what the function takes, and why.
    fn arguments(&self, text: &str) -> Result<Vec<Val>, String> {
        let map: Map<String, Value> = serde_json::from_str(text)
            .map_err(|e| format!("(root): the arguments are no JSON object: {e}"))?;
        let params = self.params.iter().map(|(label, shape)| (label, shape));
        let values = json::read_members(params, &map, &mut Path::default())?;
        Ok(values.into_iter().map(|(_, value)| value).collect())
    }

    /// What `value` is to MCP. Text over `most` bytes is not made.
    fn answer(
        &self,
        name: &str,
        value: Option<Val>,
        most: usize,
    ) -> Result<Result<ToolResult, ToolError>, Unwritten> {
        let (shape, value) = match (&self.returns, value) {
            (Returns::Nothing, _) => return Ok(Ok(said(DONE.to_owned()))),
            (Returns::Value(shape), Some(value)) => (Some(shape), Some(value)),
            (Returns::Fallible { ok, .. }, Some(Val::Result(Ok(value)))) => (ok.as_ref(), value.map(|v| *v)),
            (Returns::Fallible { err, .. }, Some(Val::Result(Err(value)))) => {
                return failure(name, err.as_ref(), value.as_deref(), most).map(|text| Err(failed(text)));
            }
            _ => return Err(Unwritten::Mismatch),
        };
        let (Some(shape), Some(value)) = (shape, value) else { return Ok(Ok(said(DONE.to_owned()))) };
        let mut text = Text::new(most);
        if matches!(shape, Shape::Record(_)) {
            text.value(shape, &value)?;
        } else {
            text.push("{")?;
            text.key("result")?;
            text.value(shape, &value)?;
            text.push("}")?;
        }
        let json = text.done();
        Ok(Ok(ToolResult { structured_content: Some(json.clone()), ..said(json) }))
    }
}

/// The text of an `err`: a string or a case's name as it is, anything else as JSON.
fn failure(name: &str, shape: Option<&Shape>, value: Option<&Val>, most: usize) -> Result<String, Unwritten> {
    let silent = || Ok(format!("`{name}` failed and gave no message"));
    match (shape, value) {
        (Some(Shape::String), Some(Val::String(text))) => {
            if text.trim().is_empty() {
                silent()
            } else if text.len() > most {
                Err(Unwritten::TooLong)
            } else {
                Ok(text.clone())
            }
        }
        (Some(Shape::Enum(names)), Some(Val::Enum(case))) => {
            names.by_wit(case).map(|label| label.json.clone()).ok_or(Unwritten::Mismatch)
        }
        (Some(shape), Some(value)) => {
            let mut text = Text::new(most);
            text.value(shape, value)?;
            Ok(text.done())
        }
        _ => silent(),
    }
}

fn said(text: String) -> ToolResult {
    ToolResult { content: vec![Content::Text(text)], structured_content: None, meta: None }
}

fn failed(text: String) -> ToolError {
    ToolError::Failed(said(text))
}

#[cfg(test)]
mod tests;
