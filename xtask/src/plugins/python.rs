//! Guests in Python.

use std::{
    collections::hash_map::DefaultHasher,
    fs,
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::Built;
use crate::{python, sh, tools::Environment};

/// The name of the environment with the tools.
const ENVIRONMENT: &str = "componentize";
/// The world that the kit is written for.
const WORLD: &str = "standard";
/// What `unittest` of Python 3.12 and later ends with where a filter leaves no test.
const NO_TESTS: i32 = 5;

/// Builds the plugins `names` of `plugins/python`.
pub(super) fn build(names: &[String]) -> Result<Vec<Built>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    prepare()?;
    fs::create_dir_all(output_dir())?;
    names.iter().map(|name| build_one(name)).collect()
}

/// The unit tests of plugins and their kit, outside the sandbox, and their types.
pub(super) fn test(filter: Option<&str>) -> Result<()> {
    prepare()?;
    let mut rooms = vec![("the kit for Python".to_owned(), kit_dir())];
    for name in super::Language::Python.plugins()? {
        rooms.push((format!("{name} in Python"), plugins_dir().join(&name)));
    }
    let bindings = bindings()?;
    for (what, folder) in &rooms {
        test_one(what, folder, filter)?;
        check_types(what, folder, &bindings)?;
    }
    Ok(())
}

/// What makes a plain `componentize-py …` work.
pub(super) fn environment() -> Result<Environment> {
    prepare()?;
    Ok(Environment { path: vec![bin_dir()], ..Environment::default() })
}

fn prepare() -> Result<()> {
    python::ensure_venv()?;
    python::install(ENVIRONMENT, &requirements())
}

fn build_one(name: &str) -> Result<Built> {
    let component = output_dir().join(format!("{name}.wasm"));
    // Written last, so it tells what the component was made of.
    let note = output_dir().join(format!("{name}.digest"));
    let digest = digest(&[&wit_dir(), &kit_dir().join("layby"), &plugins_dir().join(name), &requirements()])?;
    if !component.exists() || fs::read_to_string(&note).ok().as_ref() != Some(&digest) {
        let mut componentize = tool("componentize-py");
        // From its own folder: the names of its files are in what it writes to standard error.
        componentize.current_dir(plugins_dir().join(name));
        componentize.args(["--quiet", "--wit-path"]).arg(wit_dir()).args(["--world", WORLD, "componentize"]);
        componentize.args(["--python-path", ".", "--python-path"]).arg(kit_dir());
        componentize.args(["app", "--output"]).arg(&component);
        sh::run(&format!("{name} in Python"), &mut componentize)?;
        fs::write(&note, &digest).with_context(|| format!("cannot write {}", note.display()))?;
    }
    Ok(Built { name: name.to_owned(), component })
}

/// Stands for the names and contents of all files under `roots`. Only this program compares it, so
/// a hash that another version may compute otherwise will do.
fn digest(roots: &[&Path]) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    for root in roots {
        hash(root, &mut hasher)?;
    }
    Ok(format!("{:016x}\n", hasher.finish()))
}

fn hash(path: &Path, hasher: &mut DefaultHasher) -> Result<()> {
    let reading = || format!("cannot read {}", path.display());
    if path.is_dir() {
        let mut entries = fs::read_dir(path)
            .and_then(|entries| entries.collect::<Result<Vec<_>, _>>())
            .with_context(reading)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in
            entries.iter().filter(|entry| entry.file_name() != "__pycache__" && entry.file_name() != "tests")
        {
            entry.file_name().hash(hasher);
            hash(&entry.path(), hasher)?;
        }
    } else {
        fs::read(path).with_context(reading)?.hash(hasher);
    }
    Ok(())
}

fn test_one(what: &str, folder: &Path, filter: Option<&str>) -> Result<()> {
    let mut unittest = tool("python");
    unittest.current_dir(folder).args(["-m", "unittest", "discover", "--start-directory", "tests"]);
    unittest.args(["--top-level-directory", "."]);
    if let Some(filter) = filter {
        unittest.args(["-k", filter]);
    }
    unittest.env("PYTHONPATH", kit_dir());
    eprintln!("xtask: the tests of {what} …");
    let status = unittest.status().with_context(|| format!("cannot start {unittest:?}"))?;
    let none = filter.is_some() && status.code() == Some(NO_TESTS);
    ensure!(status.success() || none, "the tests of {what} ended with {status}");
    Ok(())
}

fn check_types(what: &str, folder: &Path, bindings: &Path) -> Result<()> {
    let mut mypy = tool("mypy");
    mypy.current_dir(folder).args(["--strict", "--no-error-summary", "--python-version", "3.11"]);
    // There the kit has its other half.
    mypy.args(["--platform", "wasi", "--cache-dir"]).arg(output_dir().join("mypy")).arg(".");
    mypy.env("MYPYPATH", std::env::join_paths([kit_dir(), bindings.to_path_buf()])?);
    sh::run(&format!("the types of {what}"), &mut mypy)
}

/// What componentize-py generates for the world, for the types in it.
fn bindings() -> Result<PathBuf> {
    let folder = output_dir().join("bindings");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let mut generate = tool("componentize-py");
    generate.args(["--quiet", "--wit-path"]).arg(wit_dir()).args(["--world", WORLD, "bindings"]).arg(&folder);
    sh::run("Python's bindings", &mut generate)?;
    Ok(folder)
}

/// A program of the environment, that leaves nothing beside the sources and takes no packages of others.
fn tool(name: &str) -> Command {
    let mut command = Command::new(bin_dir().join(name));
    command.env("PYTHONPYCACHEPREFIX", output_dir().join("pycache"));
    command.env_remove("VIRTUAL_ENV").env_remove("PYTHONPATH");
    command
}

fn bin_dir() -> PathBuf {
    python::folder(ENVIRONMENT).join("bin")
}

fn output_dir() -> PathBuf {
    sh::root().join("target/guest-build-python")
}

fn wit_dir() -> PathBuf {
    sh::root().join("wit")
}

fn kit_dir() -> PathBuf {
    sh::root().join("plugins/sdk/python")
}

fn plugins_dir() -> PathBuf {
    sh::root().join("plugins/python")
}

/// Every package with its version.
fn requirements() -> PathBuf {
    kit_dir().join("requirements.txt")
}
