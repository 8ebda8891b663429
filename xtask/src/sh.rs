//! Running other programs, and where things are.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Instant, SystemTime},
};

use anyhow::{Context, Result, ensure};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Runs `command` from start to end, with its output on ours; tells how long it took.
pub(crate) fn run(what: &str, command: &mut Command) -> Result<()> {
    let start = Instant::now();
    eprintln!("xtask: {what} …");
    let status = command.status().with_context(|| format!("{what}: cannot start {command:?}"))?;
    ensure!(status.success(), "{what}: {command:?} ended with {status}");
    eprintln!("xtask: {what}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Standard output of a command that succeeded; its standard error is dropped.
pub(crate) fn output_of(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Installs Debian's `packages`; none where this system has no apt-get.
pub(crate) fn apt(packages: &[&str]) -> Option<Result<()>> {
    output_of(Command::new("apt-get").arg("--version"))?;
    let mut update = Command::new("apt-get");
    update.args(["update", "--quiet=2"]);
    let mut install = Command::new("apt-get");
    install.args(["install", "--yes", "--quiet=2", "--no-install-recommends"]).args(packages);
    install.env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
    let updated = run("apt-get update", &mut update);
    Some(updated.and_then(|()| run("apt-get install (needs root)", &mut install)))
}

/// Whether `file` is there and newer than all of `others`.
pub(crate) fn is_newer(file: &Path, others: &[PathBuf]) -> bool {
    let time = |path: &Path| -> Option<SystemTime> { fs::metadata(path).ok()?.modified().ok() };
    let Some(made) = time(file) else { return false };
    others.iter().all(|other| time(other).is_some_and(|changed| changed < made))
}

/// `text` as one word of a shell.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
