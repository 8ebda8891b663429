//! Running other programs, and where things are.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::Instant,
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
