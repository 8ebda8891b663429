//! Building what runs inside the sandbox.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result, bail};

use crate::{sh, tools::Environment};

mod c;
mod compiler;
mod go;
mod python;
mod rust;
mod typescript;
mod wasm_tools;

/// A language that plugins are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Language {
    Rust,
    Python,
    Typescript,
    Go,
    C,
}

/// A plugin that has been built.
struct Built {
    /// The name of its folder.
    name: String,
    /// Where its component lies.
    component: PathBuf,
}

impl Language {
    /// All of them, in the order in which they are built.
    pub(crate) const ALL: [Self; 5] = [Self::Rust, Self::Python, Self::Typescript, Self::Go, Self::C];

    /// Its folder's name in `plugins` and `plugins/sdk`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::Typescript => "typescript",
            Self::Go => "go",
            Self::C => "c",
        }
    }

    /// What makes its ordinary tools work; installs them where they are missing.
    pub(crate) fn environment(self) -> Result<Environment> {
        match self {
            Self::Rust => rust::environment(),
            Self::Python => python::environment(),
            Self::Typescript => typescript::environment(),
            Self::Go => go::environment(),
            Self::C => c::environment(),
        }
    }

    /// The unit tests of its plugins and kit, outside the sandbox.
    pub(crate) fn test(self, filter: Option<&str>) -> Result<()> {
        match self {
            Self::Rust => rust::test(filter),
            Self::Python => python::test(filter),
            Self::Typescript => typescript::test(filter),
            Self::Go => go::test(filter),
            Self::C => c::test(filter),
        }
    }

    fn build(self, names: &[String]) -> Result<Vec<Built>> {
        match self {
            Self::Rust => rust::build(names),
            Self::Python => python::build(names),
            Self::Typescript => typescript::build(names),
            Self::Go => go::build(names),
            Self::C => c::build(names),
        }
    }

    /// Builds its plugin `name` again as after a change of it, with all that it stands on compiled, and tells
    /// how long that took.
    pub(crate) fn build_again(self, name: &str) -> Result<Duration> {
        if self == Self::Rust {
            // cargo knows by this whether to build.
            let source = sh::root().join("plugins/rust").join(name).join("src/lib.rs");
            fs::File::options().append(true).open(&source)?.set_modified(SystemTime::now())?;
        } else {
            let folder = sh::root().join(format!("target/guest-build-{}", self.name()));
            for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
                let path = entry?.path();
                if path.is_file()
                    && path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&format!("{name}.")))
                {
                    fs::remove_file(&path)?;
                }
            }
        }
        let begin = Instant::now();
        self.build(&[name.to_owned()])?;
        Ok(begin.elapsed())
    }

    /// The names of its plugins: the folders of `plugins/LANGUAGE`.
    fn plugins(self) -> Result<Vec<String>> {
        let folder = sh::root().join("plugins").join(self.name());
        let mut names = Vec::new();
        let Ok(entries) = fs::read_dir(&folder) else { return Ok(names) };
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot list {}", folder.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // Beside plugins, a workspace of the language may keep what its tools leave, such as `node_modules`.
            if entry.path().is_dir() && !name.starts_with('.') && name != "node_modules" {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Where `cargo xtask plugins` puts the plugin `name`. `target/plugins` can be served as it is; the
    /// plugins that every language has are for tests and the benchmark, and have equal tools.
    fn goes_to(self, name: &str) -> PathBuf {
        if self != Self::Rust || IN_EVERY_LANGUAGE.contains(&name) {
            guests_dir().join(self.name())
        } else if TEST_GUESTS.contains(&name) {
            guests_dir()
        } else {
            plugins_dir()
        }
    }
}

/// Guests that only tests and the benchmark use.
const TEST_GUESTS: [&str; 6] = ["chameleon", "contract", "echo", "echo-minimal", "plain", "probe"];
/// Guests that are the same tools in every language.
const IN_EVERY_LANGUAGE: [&str; 2] = ["table", "trial"];

/// Folders that the policy files grant, beside `target/plugins`; there is nothing to grant in a
/// folder that does not exist.
const GRANTED: [&str; 4] = ["library", "library-index", "tidy", "guests/tables"];

/// Options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these: `LANGUAGE/NAME` by the folders of `plugins`, `LANGUAGE` for all of one, or `NAME` for one in Rust.
    names: Vec<String>,
}

impl Args {
    /// All of them.
    pub(crate) fn all() -> Self {
        Self { names: Vec::new() }
    }
}

/// Where `cargo xtask plugins` puts the plugins that can be served.
pub(crate) fn plugins_dir() -> PathBuf {
    sh::root().join("target/plugins")
}

/// Where it puts those for tests and the benchmark: `NAME.wasm`, and `LANGUAGE/NAME.wasm` of those that every
/// language has.
pub(crate) fn guests_dir() -> PathBuf {
    sh::root().join("target/guests")
}

/// Builds these alone.
pub(crate) fn build(names: &[&str]) -> Result<()> {
    run(Args { names: names.iter().map(|name| (*name).to_owned()).collect() })
}

pub(crate) fn run(args: Args) -> Result<()> {
    let mut known = Vec::new();
    for language in Language::ALL {
        known.extend(language.plugins()?.into_iter().map(|name| (language, name)));
    }
    let fits = |wanted: &str, (language, name): &(Language, String)| match wanted.split_once('/') {
        Some((of, wanted)) => of == language.name() && wanted == name,
        None => wanted == language.name() || (*language == Language::Rust && wanted == name),
    };
    for wanted in &args.names {
        if !known.iter().any(|plugin| fits(wanted, plugin)) {
            let all: Vec<_> = known.iter().map(|(l, name)| format!("{}/{name}", l.name())).collect();
            bail!("there is no plugin `{wanted}`; there are {}", all.join(", "));
        }
    }
    for language in Language::ALL {
        let wanted = known.iter().filter(|plugin| {
            plugin.0 == language && (args.names.is_empty() || args.names.iter().any(|w| fits(w, plugin)))
        });
        let names: Vec<String> = wanted.map(|(_, name)| name.clone()).collect();
        for built in language.build(&names)? {
            install(language, &built)?;
        }
    }
    if args.names.is_empty() {
        forget(&known)?;
    }
    for folder in GRANTED {
        fs::create_dir_all(sh::root().join("target").join(folder))?;
    }
    Ok(())
}

fn install(language: Language, built: &Built) -> Result<()> {
    let name = &built.name;
    let to = language.goes_to(name);
    fs::create_dir_all(&to)?;
    copy(&built.component, &to.join(format!("{name}.wasm")))?;
    let policy = sh::root().join("plugins").join(language.name()).join(name).join(format!("{name}.toml"));
    if policy.exists() {
        copy(&policy, &to.join(format!("{name}.toml")))?;
    }
    Ok(())
}

/// Copies a file whose contents differ, by an atomic rename: a host may be watching the folder.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let new = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    if fs::read(to).is_ok_and(|old| old == new) {
        return Ok(());
    }
    let temporary = to.with_extension("tmp");
    fs::write(&temporary, &new).with_context(|| format!("cannot write {}", temporary.display()))?;
    fs::rename(&temporary, to).with_context(|| format!("cannot write {}", to.display()))
}

/// Removes what guests that are no more have left.
fn forget(known: &[(Language, String)]) -> Result<()> {
    let mut folders = vec![plugins_dir(), guests_dir()];
    folders.extend(Language::ALL.map(|language| guests_dir().join(language.name())));
    for folder in folders {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
            let ours = path.extension().is_some_and(|e| e == "wasm" || e == "toml");
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let kept = known.iter().any(|(language, name)| *name == stem && language.goes_to(name) == folder);
            if ours && !kept {
                fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
    }
    Ok(())
}

/// What a command prints, trimmed; nothing where it fails.
fn output_of(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|o| o.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
