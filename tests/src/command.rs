//! `layby` commands other than `serve`.

use std::{ffi::OsStr, path::Path, process::Output};

use serde_json::Value;

use crate::guests;

/// A command to start, without the variables that would configure it.
pub fn layby<S: AsRef<OsStr>>(folder: &Path, args: impl IntoIterator<Item = S>) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(guests::layby());
    command.args(args).current_dir(folder).kill_on_drop(true).stdin(std::process::Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LAYBY_") {
            command.env_remove(name);
        }
    }
    command
}

/// What a command printed and how it ended.
pub struct Done {
    /// The exit code; none where a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Done {
    /// Standard output as JSON.
    ///
    /// # Panics
    /// If it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

impl std::fmt::Debug for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit {:?}\nstdout: {}\nstderr: {}", self.code, self.out, self.err)
    }
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs a command to its end.
///
/// # Panics
/// If it does not end within a minute.
pub async fn run(mut command: tokio::process::Command) -> Done {
    let output = tokio::time::timeout(std::time::Duration::from_secs(60), command.output()).await;
    output.unwrap_or_else(|_| panic!("{command:?} did not end")).expect("a command starts").into()
}
