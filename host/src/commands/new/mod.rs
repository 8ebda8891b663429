//! `layby new`: a project to start a plugin from.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

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

    /// What to type in a new project, in this order: to install what it needs, to test it outside the sandbox, and to
    /// build it.
    fn commands(self) -> &'static [(&'static str, &'static str)] {
        const TEST: &str = "test the tool outside the sandbox";
        const BUILD: &str = "build the component";
        match self {
            Self::Rust => &[("cargo test", TEST), ("cargo build --release --target wasm32-wasip2", BUILD)],
            Self::Python => &[
                ("python3 -m venv .venv && . .venv/bin/activate", "once"),
                ("pip install -r requirements.txt", "once"),
                ("make test", TEST),
                ("make", BUILD),
            ],
            Self::Typescript => &[("npm install", "once"), ("npm test", TEST), ("npm run build", BUILD)],
            Self::Go | Self::C => &[("make test", TEST), ("make", BUILD)],
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
    let files = Arc::new(files);
    write(&to, &files).map_err(|error| unwritten(&to, &error))?;
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

/// Writes `files` to the folder `to`. A signal to end stops it, and then nothing of it is left.
fn write(to: &Path, files: &Arc<files::Files>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let mut hangup = signal(SignalKind::hangup())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let stop = Arc::new(AtomicBool::new(false));
        let (to, files, stopped) = (to.to_owned(), Arc::clone(files), Arc::clone(&stop));
        let mut writing = tokio::task::spawn_blocking(move || write::project(&to, &files, &stopped));
        let written = tokio::select! {
            written = &mut writing => written,
            _ = hangup.recv() => stop_and_join(&stop, writing).await,
            _ = interrupt.recv() => stop_and_join(&stop, writing).await,
            _ = terminate.recv() => stop_and_join(&stop, writing).await,
        };
        written.map_err(io::Error::other)?
    })
}

async fn stop_and_join<T>(
    stop: &AtomicBool,
    work: tokio::task::JoinHandle<T>,
) -> Result<T, tokio::task::JoinError> {
    stop.store(true, Ordering::SeqCst);
    work.await
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
        io::ErrorKind::Interrupted => Failure::new(
            Exit::Interrupted,
            "ctrl_c",
            format!("stopped before {shown} was made: nothing of it is left. Run it again"),
        ),
        _ => Failure::new(Exit::Failed, "command_failed", format!("{shown} cannot be made: {error}")),
    }
}

/// What was made, and what to type next.
fn next(lang: Lang, name: &str, to: &Path) -> String {
    let shown = neutral_line(&to.display().to_string());
    let cd = format!("cd {}", word(&shown));
    let rows = [(cd.as_str(), "")]
        .into_iter()
        .chain(lang.commands().iter().copied())
        .chain([("layby dev .", "build and serve it again at every change")]);
    let mut text = format!("Made {shown}, a plugin in {} with the tool `greet`. Next:\n\n", lang.title());
    for (command, why) in rows {
        let line = if why.is_empty() { format!("  {command}") } else { format!("  {command:<46}# {why}") };
        text.push_str(&line);
        text.push('\n');
    }
    text.push_str(&format!("\nREADME.md says how to call it, and {name}.toml is its policy.\n"));
    text
}

/// `text` as one word of a shell, as it is where it can be.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%=".contains(c);
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('-') {
        text.to_owned()
    } else {
        // A name that begins with a dash would be an option of `cd`.
        let dot = if text.starts_with('-') { "./" } else { "" };
        format!("'{dot}{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_one_word_of_a_shell() {
        for (text, one) in [
            ("sub/my-tool", "sub/my-tool"),
            ("my tool", "'my tool'"),
            ("it's $HOME", r"'it'\''s $HOME'"),
            ("-n", "'./-n'"),
            ("~", "'~'"),
            ("caf\u{e9}", "'caf\u{e9}'"),
        ] {
            assert_eq!(word(text), one);
        }
        let text = next(Lang::Rust, "hello", Path::new("a b"));
        assert!(text.contains("\n  cd 'a b'\n"), "{text}");
    }

    #[test]
    fn what_is_needed_is_installed_first() {
        let text = next(Lang::Typescript, "hello", Path::new("hello"));
        let place = |command: &str| text.find(&format!("\n  {command} "));
        assert!(place("npm install").is_some(), "{text}");
        assert!(
            place("npm install") < place("npm test") && place("npm test") < place("npm run build"),
            "{text}"
        );
    }
}
