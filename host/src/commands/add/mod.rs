//! `layby plugins add`: puts a component into the plugin folder, from a file or, by digest, from an OCI registry.

mod artifact;
mod credentials;
mod place;
mod reference;
mod registry;

use std::path::{Path, PathBuf};

use serde_json::json;
use wasmparser::Parser;

use self::{
    place::{Pin, Placed, pin, put},
    reference::{Named, Source, Speak},
    registry::Repository,
};
use super::{
    exit::{Exit, Failure},
    out::Out,
    store::block_on,
};
use crate::{
    base::{ByteSize, Digest, neutral_line, read_file},
    config::{Config, RegistryRules},
    plugins::{component_path, signature_path},
};

pub(super) use self::credentials::{PASSWORD, USER};

/// Options of `layby plugins add`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// FILE.wasm, or oci://REGISTRY/REPOSITORY[:TAG]@sha256:DIGEST
    #[arg(value_name = "SOURCE")]
    source: String,
    /// Folder to put it in [default: serve.plugins, or plugins]
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
    /// The plugin's name [default: the file's, or the last part of the repository's]
    #[arg(long)]
    name: Option<String>,
    /// Put it in the place of another component of this name
    #[arg(long)]
    replace: bool,
    /// Speak plain HTTP to a registry on another machine: whoever is between sees the credentials
    #[arg(long)]
    plain_http: bool,
    /// Speak HTTPS to a registry on this machine, too
    #[arg(long, conflicts_with = "plain_http")]
    https: bool,
}

/// A component and where it comes from.
struct Fetched {
    bytes: Vec<u8>,
    digest: Digest,
    /// As it can be asked for again; of a file, its path.
    from: String,
}

/// Fetches, checks and places the component.
///
/// # Errors
/// It cannot be had, is not what was asked for, is no component, or may not be placed.
pub(crate) fn run(args: &Args, config: &Config, out: Out) -> Result<Exit, Failure> {
    let source = Source::parse(&args.source)?;
    let name = source.name(args.name.as_deref())?;
    let folder = args.plugins.as_deref().unwrap_or(&config.serve.plugins);
    if !folder.is_dir() {
        let text = format!(
            "{}: no such folder of plugins. Make it, or name another with --plugins",
            folder.display()
        );
        return Err(Failure::usage("plugins_folder_missing", text));
    }
    let most = config.catalog.max_component;
    let fetched = match source {
        Source::File(path) => from_file(&path, most)?,
        Source::Registry(named) => block_on(from_registry(named, args.speak(), most))?,
    };
    component(&fetched.bytes)?;
    let path = component_path(folder, &name);
    let placed = put(&path, &fetched.bytes, args.replace, most)?;
    let (policy, pin) = pin(folder, &name, fetched.digest, config);
    let signature = config.catalog.is_signed().then(|| signature_path(folder, &name));
    let signature = signature.as_deref();
    let report =
        Report { name: &name, path: &path, fetched: &fetched, placed, policy: &policy, pin: &pin, signature };
    if out.json {
        out.json(&report.to_json())?
    } else {
        out.text(&report.text())?
    }
    Ok(Exit::Ok)
}

impl Args {
    fn speak(&self) -> Speak {
        match (self.plain_http, self.https) {
            (true, _) => Speak::Plain,
            (_, true) => Speak::Https,
            _ => Speak::ByAddress,
        }
    }
}

fn from_file(path: &Path, most: ByteSize) -> Result<Fetched, Failure> {
    let bytes = read_file(path, most).map_err(|e| {
        Failure::refused("file_unreadable", format!("{}: cannot be read: {e}", path.display()))
    })?;
    Ok(Fetched { digest: Digest::of(&bytes), bytes, from: path.display().to_string() })
}

async fn from_registry(named: Named, speak: Speak, most: ByteSize) -> Result<Fetched, Failure> {
    let fetch = async {
        let mut repository = Repository::open(named.clone(), speak)?;
        let (manifest, digest) = repository.manifest().await?;
        let from = named.with(digest);
        if named.digest.is_none() {
            // A tag is whatever its registry says at the moment: it is for a person to look at what stands there now.
            let text = format!(
                "a tag may stand for something else at any time. What it stands for now is added, once you have \
                 checked it, by: layby plugins add {from}"
            );
            return Err(Failure {
                data: Box::new(json!({ "reference": from })),
                ..Failure::refused("registry_no_digest", text)
            });
        }
        let layer = artifact::layer(&manifest)?;
        if layer.size > most {
            let text = format!(
                "the component has {} bytes, more than `catalog.max-component` allows ({most})",
                layer.size.0
            );
            return Err(Failure::refused("plugin_too_large", text));
        }
        let bytes = repository.blob(layer.digest, layer.size).await?;
        Ok(Fetched { bytes, digest: layer.digest, from })
    };
    let total = RegistryRules::TOTAL;
    tokio::select! {
        fetched = tokio::time::timeout(total.duration(), fetch) => fetched.unwrap_or_else(|_| {
            Err(Failure::unreachable("registry_failed", format!("the registry needs more than {total}")))
        }),
        _ = tokio::signal::ctrl_c() => {
            Err(Failure::new(Exit::Interrupted, "ctrl_c", "stopped by Ctrl-C: nothing was added"))
        }
    }
}

/// Refuses what a host would refuse at the first look.
fn component(bytes: &[u8]) -> Result<(), Failure> {
    if Parser::is_component(bytes) {
        return Ok(());
    }
    let text = if Parser::is_core_wasm(bytes) {
        "it is a core module, and not a component: run `wasm-tools component new` on it, or build for wasm32-wasip2"
    } else {
        "it is not a WebAssembly component"
    };
    Err(Failure::refused("plugin_not_a_component", text))
}

/// What is told of it.
struct Report<'a> {
    name: &'a str,
    path: &'a Path,
    fetched: &'a Fetched,
    placed: Placed,
    policy: &'a Path,
    pin: &'a Pin,
    /// Where its signature goes, where the host wants one.
    signature: Option<&'a Path>,
}

impl Report<'_> {
    fn to_json(&self) -> serde_json::Value {
        let pin = match self.pin {
            Pin::NoPolicy | Pin::None => "none",
            Pin::This => "this",
            Pin::Other(_) => "other",
            Pin::Unreadable(_) => "unreadable",
        };
        let placed = match self.placed {
            Placed::New => "added",
            Placed::Replaced => "replaced",
            Placed::Same => "unchanged",
        };
        json!({
            "status": placed, "name": self.name, "file": self.path, "from": self.fetched.from,
            "digest": self.fetched.digest.to_string(), "size": self.fetched.bytes.len(),
            "policy": {"file": self.policy, "there": *self.pin != Pin::NoPolicy, "pin": pin},
            "signature": self.signature.map(|file| json!({"file": file, "there": file.exists()})),
        })
    }

    fn text(&self) -> String {
        let (path, policy) = (self.path.display(), self.policy.display());
        let what = match self.placed {
            Placed::New => "added as",
            Placed::Replaced => "added in the place of another:",
            Placed::Same => "there already:",
        };
        let head = format!(
            "{} {what} {path}, {} bytes, from {}",
            self.name,
            self.fetched.bytes.len(),
            self.fetched.from
        );
        let pin = match self.pin {
            Pin::NoPolicy => {
                format!(
                    "There is no {policy}: it is served without grants. This line there pins the component:"
                )
            }
            Pin::None => format!("{policy} pins no component. This line pins this one:"),
            Pin::This => format!("{policy} pins it:"),
            Pin::Other(_) => {
                format!(
                    "{policy} pins another component, so that this one is refused. If you trust it, change the line to:"
                )
            }
            Pin::Unreadable(why) => {
                format!(
                    "{policy} is no policy ({why}), so that this component is refused. The line that pins it:"
                )
            }
        };
        let line = format!("sha256 = \"{}\"", self.fetched.digest);
        let signature = self.signature.map(|file| {
            let file = file.display();
            format!("`catalog.signers` is set: it is loaded once its signature is beside it, as {file}.")
        });
        let lines = [Some(head), Some(pin), Some(line), signature];
        lines.into_iter().flatten().map(|line| neutral_line(&line)).collect::<Vec<_>>().join("\n")
    }
}
