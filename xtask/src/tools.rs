//! The ordinary tools of each guest language, as a shell finds them.

use std::{env, ffi::OsString, path::PathBuf, process::Command};

use anyhow::Result;

use crate::{plugins::Language, sh};

/// What a program needs in its environment for a language's tools to work.
#[derive(Default)]
pub(crate) struct Environment {
    /// Folders to look for programs in first.
    pub(crate) path: Vec<PathBuf>,
    /// Variables.
    pub(crate) variables: Vec<(String, OsString)>,
}

impl Environment {
    /// Gives `command` this environment.
    pub(crate) fn apply(&self, command: &mut Command) -> Result<()> {
        command.env("PATH", self.joined_path()?);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        Ok(())
    }

    fn joined_path(&self) -> Result<OsString> {
        let old = env::var_os("PATH").unwrap_or_default();
        Ok(env::join_paths(self.path.iter().cloned().chain(env::split_paths(&old)))?)
    }
}

/// Options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The language.
    language: Language,
}

/// Prints what a shell reads by `eval "$(cargo xtask tools LANGUAGE)"`.
pub(crate) fn run(args: &Args) -> Result<()> {
    let environment = args.language.environment()?;
    let path = environment.joined_path()?;
    println!("export PATH={}", sh::quoted(&path.to_string_lossy()));
    for (name, value) in &environment.variables {
        println!("export {name}={}", sh::quoted(&value.to_string_lossy()));
    }
    Ok(())
}
