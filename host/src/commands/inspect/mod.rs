//! `layby inspect`: what a component file is, before it is given to a host.

mod anatomy;
mod grants;
mod schema;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use self::anatomy::{Anatomy, anatomy, language};

use super::{
    exit::{Exit, Failure},
    out::Out,
    show,
    store::block_on,
};
use crate::{
    base::{Digest, neutral_line, read_file},
    config::{CatalogConfig, Config},
    engine::Engine,
    plugins::{Looked, Stop, look},
};

/// Options of `layby inspect`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Component file
    file: PathBuf,
}

/// All that is printed of a file.
struct Report<'a> {
    file: &'a Path,
    digest: Digest,
    size: usize,
    anatomy: Anatomy,
    looked: Looked,
}

/// Prints what the file is and serves, and what a host with built-in defaults and no policy for it refuses.
///
/// # Errors
/// The file cannot be read, or something failed that says nothing about it.
pub(crate) fn run(args: &Args, out: Out) -> Result<Exit, Failure> {
    // What a host with built-in defaults would read at all.
    let bytes = read_file(&args.file, CatalogConfig::default().max_component).map_err(|e| {
        Failure::refused("file_unreadable", format!("{}: cannot be read: {e}", args.file.display()))
    })?;
    let digest = Digest::of(&bytes);
    let looked = block_on(async {
        let engine = Engine::open(None, 1)?;
        match look(&engine, digest, &bytes, &Config::default()).await {
            Ok(looked) => Ok(looked),
            Err(Stop::Refused(problem)) => Ok(Looked { problem: Some(problem), ..Looked::default() }),
            Err(Stop::Failed(reason)) => Err(anyhow::anyhow!(reason).into()),
        }
    })?;
    // What is no WebAssembly has no anatomy, and has been refused for it.
    let anatomy = anatomy(&bytes).unwrap_or_default();
    let report = Report { file: &args.file, digest, size: bytes.len(), anatomy, looked };
    if out.json {
        out.json(&report.to_json())?;
    } else {
        out.text(&report.text())?;
    }
    Ok(if report.looked.problem.is_none() { Exit::Ok } else { Exit::Refused })
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

fn kind(anatomy: &Anatomy) -> &'static str {
    if anatomy.component { "component" } else { "not a component" }
}

/// JSON that a plugin wrote, or its text where it is none.
fn own_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

impl Report<'_> {
    /// Names of the interfaces that it serves, `tools` first.
    fn interfaces(&self) -> Vec<&'static str> {
        let exports = self.looked.exports;
        let optional = [
            (exports.prompts, "prompts"),
            (exports.resources, "resources"),
            (exports.completions, "completions"),
        ];
        // Without tools it is linked to nothing, and lists nothing.
        let tools = self.anatomy.exports.iter().any(|name| name.starts_with("layby:plugin/tools@"));
        let optional = optional.into_iter().filter_map(|(has, name)| has.then_some(name));
        let functions = exports.functions.then_some("functions");
        tools.then_some("tools").into_iter().chain(functions).chain(optional).collect()
    }

    fn to_json(&self) -> Value {
        let Self { anatomy, looked, .. } = self;
        let imports = anatomy.imports.iter().map(|i| json!({"name": i, "grant": grant_hint(i)}));
        let refusals =
            looked.problem.iter().map(|p| json!({"code": p.code, "reason": p.reason, "advice": p.advice}));
        let mut json = json!({
            "file": self.file.display().to_string(), "digest": self.digest.to_string(), "size": self.size,
            "kind": kind(anatomy), "language": language(anatomy), "producers": anatomy.producers,
            "imports": imports.collect::<Vec<_>>(), "exports": anatomy.exports, "interfaces": self.interfaces(),
            "grants": self.grants_json(), "durable": self.durable_json(), "refusals": refusals.collect::<Vec<_>>(),
        });
        for (list, items) in self.lists_json() {
            json[list] = items.into();
        }
        json
    }

    /// What is no component can be granted nothing.
    fn is_component(&self) -> bool {
        let refused = self.looked.problem.as_ref().is_some_and(|p| p.code == "plugin_not_a_component");
        self.anatomy.component && !refused
    }

    /// Whether its runs go on after a crash; null where nothing can be run of it.
    fn durable_json(&self) -> Value {
        if !self.is_runnable() {
            return Value::Null;
        }
        json!({ "resumable": self.looked.pins.is_none(), "pinnedBy": self.looked.pins })
    }

    fn is_runnable(&self) -> bool {
        self.is_component() && !self.interfaces().is_empty()
    }

    fn grants_json(&self) -> Value {
        if !self.is_component() {
            return Value::Null;
        }
        let lines = grants::lines(&self.anatomy);
        let lines = lines.iter().map(|line| {
            let need = if line.need == grants::Need::Likely { "likely" } else { "possible" };
            json!({"line": line.toml, "need": need, "why": line.why})
        });
        json!({
            "remark": grants::remark(&self.anatomy), "policy": grants::policy(&self.anatomy),
            "lines": lines.collect::<Vec<_>>(),
        })
    }

    fn lists_json(&self) -> [(&'static str, Vec<Value>); 4] {
        let listing = &self.looked.listing;
        let extra = |extra: &Option<String>| extra.as_deref().map(own_json);
        let tools = listing.tools.iter().map(|t| {
            json!({
                "name": t.name, "title": t.title, "description": t.description,
                "inputSchema": own_json(&t.input_schema),
                "outputSchema": t.output_schema.as_deref().map(own_json),
                "annotations": {
                    "readOnlyHint": t.annotations.read_only, "destructiveHint": t.annotations.destructive,
                    "idempotentHint": t.annotations.idempotent, "openWorldHint": t.annotations.open_world,
                },
                "extra": extra(&t.extra),
            })
        });
        let prompts = listing.prompts.iter().map(|p| {
            let arguments = p.arguments.iter().map(|a| {
                json!({"name": a.name, "title": a.title, "description": a.description, "required": a.required})
            });
            json!({
                "name": p.name, "title": p.title, "description": p.description,
                "arguments": arguments.collect::<Vec<_>>(), "extra": extra(&p.extra),
            })
        });
        let resources = listing.resources.iter().map(|r| {
            json!({
                "uri": r.uri, "name": r.name, "title": r.title, "description": r.description,
                "mimeType": r.mime_type, "size": r.size, "extra": extra(&r.extra),
            })
        });
        let templates = listing.templates.iter().map(|t| {
            json!({
                "uriTemplate": t.uri_template, "name": t.name, "title": t.title, "description": t.description,
                "mimeType": t.mime_type, "extra": extra(&t.extra),
            })
        });
        [
            ("tools", tools.collect()),
            ("prompts", prompts.collect()),
            ("resources", resources.collect()),
            ("templates", templates.collect()),
        ]
    }

    fn text(&self) -> String {
        let Self { anatomy, looked, .. } = self;
        let list = |values: Option<&BTreeSet<String>>| {
            values.map_or_else(|| "unknown".to_owned(), |v| v.iter().cloned().collect::<Vec<_>>().join(", "))
        };
        let mut text = format!(
            "file      {}\nsha256    {}\nsize      {}\nkind      {}\nlanguage  {}\nmade by   {}\n",
            neutral_line(&self.file.display().to_string()),
            self.digest,
            show::size(self.size as u64),
            kind(anatomy),
            neutral_line(&language(anatomy)),
            neutral_line(&list(anatomy.producers.get("processed-by"))),
        );
        if !self.interfaces().is_empty() {
            text.push_str(&format!("serves    {}\n", self.interfaces().join(", ")));
        }
        if self.is_runnable() {
            let durable = match &looked.pins {
                None => "yes".to_owned(),
                Some(call) => format!("pinned: it imports {}, which cannot be replayed", neutral_line(call)),
            };
            text.push_str(&format!("durable   {durable}\n"));
        }
        if !anatomy.imports.is_empty() {
            text.push_str("\nimports\n");
        }
        for import in &anatomy.imports {
            let hint = grant_hint(import).map_or_else(String::new, |h| format!("  ({h})"));
            text.push_str(&format!("  {}{hint}\n", neutral_line(import)));
        }
        if !anatomy.exports.is_empty() {
            text.push_str("exports\n");
        }
        for export in &anatomy.exports {
            text.push_str(&format!("  {}\n", neutral_line(export)));
        }
        self.lists_text(&mut text);
        if self.is_component() {
            let (remark, policy) = (grants::remark(anatomy), grants::policy(anatomy));
            text.push_str(&format!("\npolicy lines ({remark})\n\n{policy}"));
        }
        if let Some(p) = &looked.problem {
            let reason = neutral_line(&p.reason);
            text.push_str(&format!("\na host refuses it: {reason} ({})\n  {}\n", p.code, p.advice));
        }
        text
    }

    fn lists_text(&self, text: &mut String) {
        let listing = &self.looked.listing;
        let mut line = |start: &str, words: &str| text.push_str(&format!("{start}{}\n", neutral_line(words)));
        for tool in &listing.tools {
            line("\ntool ", &tool.name);
            line("  ", &tool.description);
            for (name, schema) in
                [("arguments", Some(&tool.input_schema)), ("result", tool.output_schema.as_ref())]
            {
                let Some(schema) = schema else { continue };
                line("  ", name);
                for shown in schema::lines(schema) {
                    line("    ", &shown);
                }
            }
        }
        for prompt in &listing.prompts {
            line("\nprompt ", &prompt.name);
            if let Some(description) = &prompt.description {
                line("  ", description);
            }
            for argument in &prompt.arguments {
                let need = if argument.required { "required" } else { "optional" };
                line("  argument ", &format!("{} ({need})", argument.name));
            }
        }
        let resources = listing.resources.iter().map(|r| ("\nresource ", &r.uri, &r.name, &r.description));
        let templates =
            listing.templates.iter().map(|t| ("\ntemplate ", &t.uri_template, &t.name, &t.description));
        for (kind, uri, name, description) in resources.chain(templates) {
            line(kind, uri);
            line("  ", description.as_ref().map_or(name, |d| d));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_never_a_grant() {
        assert_eq!(grant_hint("wasi:sockets/tcp@0.2.6"), Some("sockets: always denied"));
        assert_eq!(grant_hint("wasi:clocks/wall-clock@0.2.6"), None);
    }
}
