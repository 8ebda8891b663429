//! The guides of `docs/plugins`, every command and code block of them run.

use std::{
    env,
    ffi::OsString,
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};

use crate::{node::cargo, plugins::Language, sh, test::FEATURES, tools::Environment};

mod fit;
mod page;
mod shell;

use page::Step;
use shell::Shell;

/// Options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these pages of docs/plugins, without `.md`.
    pages: Vec<String>,
    /// The `layby` to use; without it, the debug build, made first. A build for tests takes templates and kits
    /// from this clone all the same.
    #[arg(long, value_name = "FILE")]
    layby: Option<PathBuf>,
}

impl Args {
    /// All pages.
    pub(crate) fn all() -> Self {
        Self { pages: Vec::new(), layby: None }
    }
}

/// Runs every page, each in a folder of its own; goes on after one that fails, and fails in the end.
pub(crate) fn run(args: &Args) -> Result<()> {
    let all = pages()?;
    for wanted in &args.pages {
        ensure!(all.contains(wanted), "there is no page `{wanted}`; there are {}", all.join(", "));
    }
    let layby = match &args.layby {
        Some(file) => file.canonicalize().with_context(|| format!("{} cannot be found", file.display()))?,
        None => build()?,
    };
    let mut failed = Vec::new();
    for name in all.iter().filter(|name| args.pages.is_empty() || args.pages.contains(name)) {
        let start = Instant::now();
        if let Err(error) = guide(name, &layby) {
            eprintln!("xtask: docs/plugins/{name}.md: {error:#}");
            failed.push(name.as_str());
        } else {
            eprintln!("xtask: docs/plugins/{name}.md: {:.1} s", start.elapsed().as_secs_f64());
        }
    }
    ensure!(failed.is_empty(), "guides that do not hold: {}", failed.join(", "));
    Ok(())
}

fn folder() -> PathBuf {
    sh::root().join("docs/plugins")
}

/// The names of all pages.
fn pages() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder()).context("docs/plugins cannot be listed")? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "md") {
            names.push(path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// The debug build, as tests have it.
fn build() -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--workspace", "--all-targets"]).args(FEATURES).current_dir(sh::root());
    sh::run("the host", &mut build)?;
    Ok(sh::root().join("target/debug/layby").canonicalize()?)
}

/// The tools of the page's language; a page of no language shows things in Rust.
fn environment(page: &str) -> Result<Environment> {
    let of_page = Language::ALL.into_iter().find(|language| language.name() == page);
    of_page.unwrap_or(Language::Rust).environment()
}

fn guide(name: &str, layby: &Path) -> Result<()> {
    let file = folder().join(format!("{name}.md"));
    let text = fs::read_to_string(&file)?;
    let steps = page::steps(&text)?;
    let mut environment = environment(name)?;
    environment.path.insert(0, programs(layby)?);
    // What cargo compiles on the way is kept for the next run; what it makes is in the project as ever.
    let built = sh::root().join("target/guides-build").into_os_string();
    environment.variables.push(("CARGO_BUILD_BUILD_DIR".to_owned(), built));
    // As files, so that a template can be tried with a host of another clone. What is embedded has its own tests.
    environment.variables.push(("LAYBY_TEST_NEW".to_owned(), sh::root().join("host").into_os_string()));
    let mut shell = Shell::new(&place().join(name), environment)?;
    for step in steps {
        match step {
            Step::Run { line, script, output } => {
                eprintln!("xtask: {name}.md:{line} …");
                let printed = shell.run(&script).with_context(|| format!("line {line}"))?;
                if let Some(expected) = output
                    && let Err(difference) = fit::fits(&expected, &printed)
                {
                    bail!(
                        "line {}: what line {line} printed is something else:\n{difference}",
                        expected.line
                    );
                }
            }
            Step::Background { line, script } => {
                shell.start(&script).with_context(|| format!("line {line}"))?;
            }
            Step::Write { line, path, text } => {
                shell.write(&path, &text).with_context(|| format!("line {line}"))?;
            }
        }
    }
    shell.end()
}

/// Where the pages' folders are: outside the repository, so that no tool takes it for their parent; and
/// always the same for one clone, so that tools which remember paths know them again.
fn place() -> PathBuf {
    let mut hash = DefaultHasher::new();
    env!("CARGO_MANIFEST_DIR").hash(&mut hash);
    env::temp_dir().join(format!("layby-guides-{:016x}", hash.finish()))
}

/// A folder with nothing but `layby` in it, for PATH.
fn programs(layby: &Path) -> Result<PathBuf> {
    let folder = place().join("bin");
    fs::create_dir_all(&folder)?;
    let link = folder.join("layby");
    // There is none in the first run.
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(layby, link)?;
    Ok(folder)
}

/// Variables of this process that are none of a guide's commands' business: cargo's for the chore itself, and
/// what would configure Layby or compilers.
fn foreign(name: &OsString) -> bool {
    let name = name.to_string_lossy();
    let starts = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_", "LAYBY_"];
    name == "CARGO"
        || name == "CARGO_TARGET_DIR"
        || name.ends_with("RUSTFLAGS")
        || starts.iter().any(|s| name.starts_with(s))
}
