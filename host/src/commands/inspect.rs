//! `layby inspect`: what a component file is, before it is given to a host.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Value, json};
use wasmparser::{Encoding, KnownCustom, Parser, Payload};

use super::{
    exit::{Exit, Failure},
    out::Out,
    show,
    store::block_on,
};
use crate::{
    base::{Digest, neutral_line},
    capabilities::{Abort, Granted, Linked, Nobody, Setup, list, wit_types},
    config::{CatalogConfig, HostLimits, Limits},
    engine::Engine,
    plugins::Validator,
};

/// Options of `layby inspect`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Component file
    file: PathBuf,
}

/// What the bytes say of themselves.
#[derive(Debug, Default)]
struct Anatomy {
    component: bool,
    imports: Vec<String>,
    exports: Vec<String>,
    /// `language`, `processed-by`, `sdk` of the producers sections, over all modules inside.
    producers: BTreeMap<String, BTreeSet<String>>,
}

/// Why the host would refuse it: code, reason.
type Refused = (&'static str, String);

/// The bytes of a regular file that a host would read at all.
fn read(file: &Path) -> Result<Vec<u8>, String> {
    let most = CatalogConfig::default().max_component;
    let meta = std::fs::metadata(file).map_err(|e| format!("cannot be read: {e}"))?;
    if !meta.is_file() {
        return Err("is not a regular file".to_owned());
    }
    if meta.len() > most.0 {
        return Err(format!("has {} bytes, more than a host reads ({most})", meta.len()));
    }
    std::fs::read(file).map_err(|e| format!("cannot be read: {e}"))
}

/// Prints what the file is and serves.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn run(args: &Args, out: Out) -> Result<Exit, Failure> {
    let bytes = read(&args.file)
        .map_err(|e| Failure::refused("file_unreadable", format!("{}: {e}", args.file.display())))?;
    let digest = Digest::of(&bytes);
    let (anatomy, tools) = match anatomy(&bytes) {
        Ok(anatomy) => (anatomy, block_on(async { Ok(tools(digest, &bytes).await) })?),
        Err(e) => (Anatomy::default(), Err(("plugin_not_a_component", format!("not WebAssembly: {e}")))),
    };
    let refusals = match &tools {
        Ok(tools) => tools.iter().flat_map(problems).collect(),
        Err(refused) => vec![refused.clone()],
    };
    let tools = tools.unwrap_or_default();
    if out.json {
        out.json(&to_json(&args.file, digest, bytes.len(), &anatomy, &tools, &refusals))?;
    } else {
        out.text(&text(&args.file, digest, bytes.len(), &anatomy, &tools, &refusals))?;
    }
    Ok(if refusals.is_empty() { Exit::Ok } else { Exit::Refused })
}

fn anatomy(bytes: &[u8]) -> wasmparser::Result<Anatomy> {
    let mut found = Anatomy::default();
    let mut depth = 0_u32;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::Version { encoding, .. } => {
                if depth == 0 {
                    found.component = encoding == Encoding::Component;
                }
                depth += 1;
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    found.imports.push(import?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    found.exports.push(export?.name.name.to_owned());
                }
            }
            Payload::CustomSection(section) => {
                if let KnownCustom::Producers(fields) = section.as_known() {
                    for field in fields {
                        let field = field?;
                        let values = found.producers.entry(field.name.to_owned()).or_default();
                        for value in field.values {
                            let value = value?;
                            values.insert(format!("{} {}", value.name, value.version).trim().to_owned());
                        }
                    }
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Lists the tools as a host would: no grants, an inert caller, a small budget.
async fn tools(digest: Digest, bytes: &[u8]) -> Result<Vec<wit_types::Tool>, Refused> {
    let fail = |code: &'static str| move |e: anyhow::Error| (code, format!("{e:#}"));
    let engine = Engine::open(None, 1).map_err(fail("engine_failed"))?;
    let component = engine.component(digest, bytes).map_err(fail("plugin_not_a_component"))?;
    let linked = Linked::new(&engine).map_err(fail("engine_failed"))?;
    let prepared = linked.prepare(&component).map_err(fail("plugin_wrong_world"))?;
    let setup = Setup {
        limits: Limits::default(),
        grants: Arc::new(Granted::default()),
        caller: Arc::new(Nobody(|message: &str| tracing::info!("the plugin says: {message}"))),
        seed: [0; 32],
        fuel_slice: HostLimits::default().fuel_slice,
        meter: Arc::default(),
    };
    let listed = list(&prepared, setup).await.map(|listing| listing.tools);
    listed.map_err(|abort| ("plugin_list_tools_failed", reason(&abort)))
}

fn reason(abort: &Abort) -> String {
    match abort {
        Abort::Limit { name, value, advice } => format!("it hit the limit {name} = {value}: {advice}"),
        Abort::Trap(text) | Abort::Host(text) => text.clone(),
    }
}

/// What the host refuses in one tool.
fn problems(tool: &wit_types::Tool) -> Vec<Refused> {
    let mut problems = Vec::new();
    let fits = (1..=128).contains(&tool.name.len())
        && tool.name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    if !fits {
        let text =
            format!("the tool name {:?} is not 1 to 128 of A-Z a-z 0-9 _ - .", neutral_line(&tool.name));
        problems.push(("plugin_bad_tool_name", text));
    }
    let schemas = [("input", Some(&tool.input_schema)), ("output", tool.output_schema.as_ref())];
    for (which, schema) in schemas.into_iter().filter_map(|(which, s)| Some((which, s?))) {
        let checked = serde_json::from_str(schema)
            .map_err(|e| format!("it is not JSON: {e}"))
            .and_then(|schema: Value| Validator::new(&schema).map(|_| ()));
        if let Err(why) = checked {
            problems.push((
                "plugin_bad_schema",
                format!("the {which} schema of {:?}: {why}", neutral_line(&tool.name)),
            ));
        }
    }
    problems
}

/// What an import lets a guest do, and the grant that makes it work. Imports alone grant nothing.
fn grant_hint(import: &str) -> Option<&'static str> {
    let name = import.split('@').next().unwrap_or(import);
    Some(match name {
        "layby:plugin/call" => "progress, cancellation, questions: grant `ask` where it asks",
        "wasi:filesystem/preopens" => "files: grant `files`",
        "wasi:cli/environment" => "environment variables: grant `env`",
        "wasi:config/store" | "wasi:config/runtime" => "configuration values: grant `config`",
        "wasi:http/outgoing-handler" => "outgoing HTTP: grant `http`",
        _ if name.starts_with("wasi:sockets/") => "sockets: always denied",
        _ => return None,
    })
}

/// The source language: as the producers section has it, else by the tools that left their names.
/// (Rust's own entry goes when symbols are stripped; its bindings' stays.)
fn language(anatomy: &Anatomy) -> String {
    // An interpreter's component holds the interpreter's own languages: what built it says more.
    const INTERPRETERS: [(&str, &str); 3] = [
        ("ComponentizeJS", "JavaScript"),
        ("componentize-py", "Python"),
        ("component-init-transform", "Python"),
    ];
    const BINDINGS: [(&str, &str); 4] = [
        ("wit-bindgen-go", "Go"),
        ("Go", "Go"),
        ("wit-bindgen-rust", "Rust"),
        // Last: the SDKs of other languages use it, too.
        ("wit-bindgen-c", "C"),
    ];
    let left = |mark: &str| anatomy.producers.values().flatten().any(|value| value.starts_with(mark));
    let by = |marks: &[(&str, &str)]| {
        let (mark, language) = marks.iter().find(|(mark, _)| left(mark))?;
        Some(format!("{language} (by {mark})"))
    };
    let named = || Some(anatomy.producers.get("language")?.iter().cloned().collect::<Vec<_>>().join(", "));
    by(&INTERPRETERS).or_else(named).or_else(|| by(&BINDINGS)).unwrap_or_else(|| "unknown".to_owned())
}

fn kind(anatomy: &Anatomy) -> &'static str {
    if anatomy.component { "component" } else { "not a component" }
}

fn schema_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn to_json(
    file: &Path,
    digest: Digest,
    size: usize,
    anatomy: &Anatomy,
    tools: &[wit_types::Tool],
    refusals: &[Refused],
) -> Value {
    let imports = anatomy.imports.iter().map(|i| json!({"name": i, "grant": grant_hint(i)}));
    let tools = tools.iter().map(|t| {
        json!({
            "name": t.name, "title": t.title, "description": t.description,
            "inputSchema": schema_json(&t.input_schema),
            "outputSchema": t.output_schema.as_deref().map(schema_json),
            "annotations": {
                "readOnlyHint": t.annotations.read_only, "destructiveHint": t.annotations.destructive,
                "idempotentHint": t.annotations.idempotent, "openWorldHint": t.annotations.open_world,
            },
        })
    });
    json!({
        "file": file.display().to_string(), "digest": digest.to_string(), "size": size, "kind": kind(anatomy),
        "language": language(anatomy), "producers": anatomy.producers, "imports": imports.collect::<Vec<_>>(), "exports": anatomy.exports,
        "tools": tools.collect::<Vec<_>>(),
        "refusals": refusals.iter().map(|(code, reason)| json!({"code": code, "reason": reason})).collect::<Vec<_>>(),
    })
}

fn text(
    file: &Path,
    digest: Digest,
    size: usize,
    anatomy: &Anatomy,
    tools: &[wit_types::Tool],
    refusals: &[Refused],
) -> String {
    let list = |values: Option<&BTreeSet<String>>| {
        values.map_or_else(|| "unknown".to_owned(), |v| v.iter().cloned().collect::<Vec<_>>().join(", "))
    };
    let mut text = format!(
        "file      {}\nsha256    {digest}\nsize      {}\nkind      {}\nlanguage  {}\nmade by   {}\n",
        neutral_line(&file.display().to_string()),
        show::size(size as u64),
        kind(anatomy),
        neutral_line(&language(anatomy)),
        neutral_line(&list(anatomy.producers.get("processed-by"))),
    );
    text.push_str("\nimports\n");
    for import in &anatomy.imports {
        let hint = grant_hint(import).map_or_else(String::new, |h| format!("  ({h})"));
        text.push_str(&format!("  {}{hint}\n", neutral_line(import)));
    }
    text.push_str("exports\n");
    for export in &anatomy.exports {
        text.push_str(&format!("  {}\n", neutral_line(export)));
    }
    for tool in tools {
        text.push_str(&format!("\ntool {}\n", neutral_line(&tool.name)));
        text.push_str(&format!("  {}\n", neutral_line(&tool.description)));
        text.push_str(&format!("  arguments {}\n", neutral_line(&tool.input_schema)));
        if let Some(schema) = &tool.output_schema {
            text.push_str(&format!("  result    {}\n", neutral_line(schema)));
        }
    }
    for (code, reason) in refusals {
        text.push_str(&format!("\na host refuses it: {} ({code})\n", neutral_line(reason)));
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_anatomy_of_a_component_is_read() {
        let bytes = wat::parse_str(
            r#"(component
                 (import "wasi:cli/environment@0.2.0" (instance))
                 (core module (@producers (language "Rust" "1.95") (processed-by "rustc" "1.95")))
                 (component $inner (import "hidden" (func)))
                 (export "run" (component $inner)))"#,
        )
        .unwrap();
        let found = anatomy(&bytes).unwrap();
        assert!(found.component);
        assert_eq!(found.imports, ["wasi:cli/environment@0.2.0"]);
        assert_eq!(found.exports, ["run"]);
        assert_eq!(found.producers["language"].iter().collect::<Vec<_>>(), ["Rust 1.95"]);
        assert_eq!(language(&found), "Rust 1.95");
        let stripped = Anatomy {
            producers: BTreeMap::from([(
                "processed-by".into(),
                BTreeSet::from(["wit-bindgen-rust 0.61.1".into()]),
            )]),
            ..Anatomy::default()
        };
        assert_eq!(language(&stripped), "Rust (by wit-bindgen-rust)");
        assert_eq!(language(&Anatomy::default()), "unknown");
        assert!(grant_hint(&found.imports[0]).is_some_and(|h| h.contains("env")));
    }

    #[test]
    fn a_core_module_and_noise_are_told_apart() {
        assert!(!anatomy(&wat::parse_str("(module)").unwrap()).unwrap().component);
        assert!(anatomy(b"no wasm at all").is_err());
    }

    #[test]
    fn sockets_are_never_a_grant() {
        assert_eq!(grant_hint("wasi:sockets/tcp@0.2.6"), Some("sockets: always denied"));
        assert_eq!(grant_hint("wasi:clocks/wall-clock@0.2.6"), None);
    }
}
