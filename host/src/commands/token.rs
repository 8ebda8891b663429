//! `layby token`: static bearer tokens, of which a file keeps the hashes.

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::json;

use super::{
    exit::{Exit, Failure},
    out::{Out, note, table},
};
use crate::{
    base::{Digest, Millis, read_file, text_of},
    config::{AuthConfig, Config, LONGEST, TokenEntry, TokenFile},
};

/// What every token begins with: whoever finds one in a log or a repository knows what it is.
const PREFIX: &str = "layby_";
/// Where tokens are kept if neither option nor configuration names a file.
const FILE: &str = "tokens.toml";

/// Options of `layby token`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File of tokens [default: auth.tokens-file, or tokens.toml]
    #[arg(long, value_name = "FILE", global = true)]
    file: Option<PathBuf>,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Make a token and print it, this once: the file keeps only its hash
    New(New),
    /// Show the tokens of the file
    List,
    /// Take back every token of a name
    Remove {
        /// Name of the tokens
        name: String,
    },
}

#[derive(Debug, clap::Args)]
struct New {
    /// Who will bear it: tasks belong to this name, also after the token was replaced
    name: String,
    /// A scope of it, as [auth.scopes] has it; repeat for more
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// How long it counts, such as 90d [default: until it is removed]
    #[arg(long, value_name = "SPAN")]
    expires: Option<Millis>,
    /// Take back the tokens that have the name now
    #[arg(long)]
    replace: bool,
}

/// Makes, shows or takes back tokens.
///
/// # Errors
/// A file that is none, or cannot be written; a name that is none, or that nobody has.
pub(crate) fn run(args: Args, config: &Config, out: Out) -> Result<Exit, Failure> {
    let configured = Some(&config.auth.tokens_file).filter(|file| !file.as_os_str().is_empty());
    let path = args.file.or_else(|| configured.cloned()).unwrap_or_else(|| FILE.into());
    match args.what {
        What::New(new) => make(new, &path, configured == Some(&path), out)?,
        What::List => list(&read(&path)?, out)?,
        What::Remove { name } => remove(&name, &path, out)?,
    }
    Ok(Exit::Ok)
}

fn make(new: New, path: &Path, configured: bool, out: Out) -> Result<(), Failure> {
    let wrong = |reason: String| Failure::usage("token_invalid", reason);
    if let Some(span) = new.expires.filter(|span| *span > LONGEST) {
        return Err(wrong(format!("--expires is {span}, and must be at most {LONGEST}")));
    }
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|e| anyhow::anyhow!("the system has no randomness: {e}"))?;
    let token = format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(random));
    let now = SystemTime::now();
    let entry = TokenEntry {
        name: new.name.clone(),
        sha256: Digest::of(token.as_bytes()),
        scopes: new.scopes,
        created: Some(time(now)),
        expires: new.expires.map(|span| time(now + span.duration())),
    };
    // What the file cannot hold would make all of it unreadable.
    entry.check().map_err(wrong)?;
    change(path, |file| {
        if new.replace {
            file.tokens.retain(|entry| entry.name != new.name);
        }
        file.tokens.push(entry);
        Ok(())
    })?;
    if out.json {
        return out.json(&json!({"token": token, "name": new.name, "file": path}));
    }
    out.text(&token)?;
    let file = path.display();
    note(&format!("This is token:{}, shown only now; {file} keeps its hash.", new.name));
    if !configured {
        note(&format!(
            "A host takes it with `tokens-file = {:?}` under [auth] in its layby.toml.",
            path.display().to_string()
        ));
    }
    Ok(())
}

fn list(file: &TokenFile, out: Out) -> Result<(), Failure> {
    if out.json {
        return out.json(&json!({"tokens": file.tokens}));
    }
    if file.tokens.is_empty() {
        return out.text("No tokens. `layby token new NAME` makes one.");
    }
    let dash = || "-".to_owned();
    let row = |entry: &TokenEntry| {
        vec![
            entry.name.clone(),
            if entry.scopes.is_empty() { dash() } else { entry.scopes.join(" ") },
            entry.created.clone().unwrap_or_else(dash),
            entry.expires.clone().unwrap_or_else(dash),
            entry.sha256.short(),
        ]
    };
    let rows: Vec<_> = file.tokens.iter().map(row).collect();
    out.text(&table(&["NAME", "SCOPES", "CREATED", "EXPIRES", "HASH"], &rows))
}

fn remove(name: &str, path: &Path, out: Out) -> Result<(), Failure> {
    let mut removed = 0;
    change(path, |file| {
        let before = file.tokens.len();
        file.tokens.retain(|entry| entry.name != name);
        removed = before - file.tokens.len();
        if removed == 0 {
            let text = format!(
                "{} has no token of the name {name:?}: `layby token list` shows them",
                path.display()
            );
            return Err(Failure::refused("token_unknown", text));
        }
        Ok(())
    })?;
    if out.json { out.json(&json!({"removed": removed})) } else { out.text(&format!("{removed} removed")) }
}

/// Reads, changes and replaces the file, one process at a time.
fn change(path: &Path, with: impl FnOnce(&mut TokenFile) -> Result<(), Failure>) -> Result<(), Failure> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let wrong = |e: std::io::Error| {
        Failure::usage("token_file", format!("{} cannot be written: {e}", path.display()))
    };
    let lock = File::open(folder).map_err(wrong)?;
    // Where the file system knows no locks, two who write at once may lose one's change.
    let _ = lock.lock();
    let mut file = read(path)?;
    with(&mut file)?;
    let text = file.to_text();
    if text.len() > AuthConfig::FILE.as_usize() {
        let text = format!("{} would be larger than {}: remove tokens", path.display(), AuthConfig::FILE);
        return Err(Failure::usage("token_file", text));
    }
    // Readable by its owner alone, and whole for whoever reads it meanwhile.
    let mut temporary = tempfile::NamedTempFile::new_in(folder).map_err(wrong)?;
    temporary.write_all(text.as_bytes()).map_err(wrong)?;
    temporary.as_file().sync_all().map_err(wrong)?;
    temporary.persist(path).map_err(|e| wrong(e.error))?;
    Ok(())
}

/// The tokens of the file; none where there is no file.
fn read(path: &Path) -> Result<TokenFile, Failure> {
    match read_file(path, AuthConfig::FILE).and_then(text_of) {
        Ok(text) => Ok(TokenFile::parse(&text, path)?),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(TokenFile::default()),
        Err(e) => Err(Failure::usage("token_file", format!("{} cannot be read: {e}", path.display()))),
    }
}

/// To the second.
fn time(at: SystemTime) -> String {
    humantime::format_rfc3339_seconds(at).to_string()
}
