//! `layby new`: a project to start a plugin from.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde_json::json;

use super::{
    exit::{Exit, Failure},
    out::Out,
};
use crate::base::neutral_line;

mod files;
mod name;
#[cfg(feature = "test-hooks")]
mod source;
mod write;

/// Options of `layby new`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Language of the plugin
    #[arg(long, value_enum)]
    lang: Lang,
    /// Name of the plugin: 1 to 64 of a-z, 0-9 and -, beginning with a letter
    name: String,
    /// Folder to make; its parent must be there [default: NAME]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

/// A language that there is a kit for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Lang {
    /// Rust
    Rust,
    /// Python
    Python,
    /// TypeScript
    Typescript,
    /// Go
    Go,
    /// C
    C,
}

impl Lang {
    /// As on the command line, and of its folders.
    fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::Typescript => "typescript",
            Self::Go => "go",
            Self::C => "c",
        }
    }

    /// As people write it.
    fn title(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Python => "Python",
            Self::Typescript => "TypeScript",
            Self::Go => "Go",
            Self::C => "C",
        }
    }

    /// What to type in a new project, to build it and to test it outside the sandbox.
    fn commands(self) -> [&'static str; 2] {
        match self {
            Self::Rust => ["cargo build --release --target wasm32-wasip2", "cargo test"],
            Self::Python => ["make", "make test"],
            Self::Typescript => ["npm install && npm run build", "npm test"],
            Self::Go | Self::C => ["make", "make test"],
        }
    }
}

/// Writes the project.
///
/// # Errors
/// The name will not do, there is something of that name, or it cannot be written.
pub(crate) fn run(args: &Args, out: Out) -> Result<Exit, Failure> {
    let Args { lang, name, path } = args;
    name::check(name, *lang).map_err(|why| Failure::usage("name_invalid", why))?;
    let to = path.clone().unwrap_or_else(|| PathBuf::from(name));
    let files = files::files(*lang, name).ok_or_else(|| {
        Failure::new(
            Exit::Failed,
            "command_failed",
            format!("this build has no template for {}", lang.name()),
        )
    })?;
    write::project(&to, &files).map_err(|error| unwritten(&to, &error))?;
    if out.json {
        let files: Vec<_> = files.keys().collect();
        out.json(
            &json!({"name": name, "lang": lang.name(), "path": to.display().to_string(), "files": files}),
        )?;
    } else {
        out.text(&next(*lang, name, &to))?;
    }
    Ok(Exit::Ok)
}

fn unwritten(to: &Path, error: &io::Error) -> Failure {
    let shown = to.display();
    match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::refused(
            "path_taken",
            format!(
                "there is something at {shown} already, and nothing is overwritten: choose another NAME or --path"
            ),
        ),
        io::ErrorKind::NotFound => Failure::refused(
            "path_missing",
            format!(
                "{shown} cannot be made, because the folder that it would be in is missing: make that first"
            ),
        ),
        _ => Failure::new(Exit::Failed, "command_failed", format!("{shown} cannot be made: {error}")),
    }
}

/// What was made, and what to type next.
fn next(lang: Lang, name: &str, to: &Path) -> String {
    let shown = neutral_line(&to.display().to_string());
    let [build, test] = lang.commands();
    let rows = [
        (format!("cd {shown}"), ""),
        (test.to_owned(), "test the tool outside the sandbox"),
        (build.to_owned(), "build the component"),
        ("layby dev .".to_owned(), "build and serve it again at every change"),
    ];
    let mut text = format!("Made {shown}, a plugin in {} with the tool `greet`. Next:\n\n", lang.title());
    for (command, why) in rows {
        let line = if why.is_empty() { format!("  {command}") } else { format!("  {command:<46}# {why}") };
        text.push_str(&line);
        text.push('\n');
    }
    text.push_str(&format!("\nREADME.md says how to call it, and {name}.toml is its policy.\n"));
    text
}
