//! The command line: one file per subcommand. Each parses, calls the library, prints.

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

mod add;
mod ask;
mod call;
mod dev;
mod exit;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod inspect;
mod json;
mod logging;
mod new;
mod out;
mod plugins;
mod replay;
mod revoke;
mod serve;
mod show;
mod stack;
mod stdio;
mod store;
mod tasks;
mod temporary;
mod token;

use exit::{EXIT_CODES, Exit, Failure};
use out::{Color, Out};

use crate::config::{self, Config};

/// A host for sandboxed MCP tools: quick calls inline, slow ones as durable tasks.
#[derive(Debug, Parser)]
#[command(name = "layby", version, about, after_help = EXIT_CODES, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options that every command takes.
#[derive(Clone, Debug, clap::Args)]
struct Global {
    /// Configuration file [default: layby.toml, where it is there]
    #[arg(long, global = true, value_name = "FILE", env = "LAYBY_CONFIG")]
    config: Option<PathBuf>,
    /// Print one JSON object on stdout instead of text
    #[arg(long, global = true)]
    json: bool,
    /// When to colour
    #[arg(long, global = true, value_enum, default_value_t, env = "LAYBY_COLOR")]
    color: Color,
    /// Log more on stderr; repeat for still more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// What to log, such as info or layby=debug; goes over --verbose
    #[arg(long, global = true, value_name = "FILTER", env = "LAYBY_LOG")]
    log: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a plugin: write a project with one tool that asks a question
    #[command(after_help = EXIT_CODES)]
    New(new::Args),
    /// Serve the tools of a folder of plugins over MCP
    #[command(after_help = EXIT_CODES)]
    Serve(serve::Args),
    /// Serve the same over standard input and output, to the one client that starts this process
    #[command(after_help = EXIT_CODES)]
    Stdio(stdio::Args),
    /// Call a tool, answer what it asks, and print its result
    #[command(after_help = EXIT_CODES)]
    Call(call::Args),
    /// Build a plugin's project on change, serve it, and show what happens
    #[command(after_help = EXIT_CODES)]
    Dev(dev::Args),
    /// Show what a component file is, imports and serves
    #[command(after_help = EXIT_CODES)]
    Inspect(inspect::Args),
    /// Show the plugins of a data folder: served, without grants, refused
    #[command(after_help = EXIT_CODES)]
    Plugins(plugins::Args),
    /// Do again, offline, what a task's journal has, and show each step
    #[command(after_help = EXIT_CODES)]
    Replay(replay::Args),
    /// See, answer, cancel and export the tasks of a data folder, beside a running server
    #[command(after_help = EXIT_CODES)]
    Tasks(tasks::Args),
    /// Make, show and take back tokens by which callers say who they are
    #[command(after_help = EXIT_CODES)]
    Token(token::Args),
}

/// Variables that belong to the command line and not to the configuration.
const OWN_VARIABLES: [&str; 6] =
    ["LAYBY_CONFIG", "LAYBY_COLOR", "LAYBY_LOG", "LAYBY_TOKEN", add::USER, add::PASSWORD];

impl Global {
    fn out(&self) -> Out {
        Out { json: self.json }
    }

    /// File, then environment, over the defaults.
    fn load(&self) -> Result<Config, Failure> {
        let variables = || {
            let all =
                std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
            all.filter(|(name, _)| !OWN_VARIABLES.contains(&name.as_str())).collect()
        };
        Ok(config::load(self.config.as_deref(), &variables)?)
    }
}

/// Parses the command line, runs the command, and tells how it ended.
pub fn main() -> ExitCode {
    #[cfg(feature = "test-hooks")]
    if crate::base::failpoints::printed() {
        return ExitCode::SUCCESS;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout, the rest to stderr; a closed stream is nothing to tell.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8));
        }
    };
    cli.global.color.install();
    let out = cli.global.out();
    let exit = match run(cli) {
        Ok(exit) => exit,
        Err(failure) => {
            if out.json {
                // Standard output is gone: the exit code still tells.
                let _ = out.json(&failure.to_json());
            } else {
                out::note(&format!("{} {failure}", console::style("error:").for_stderr().red().bold()));
            }
            failure.exit
        }
    };
    ExitCode::from(exit as u8)
}

fn run(cli: Cli) -> Result<Exit, Failure> {
    let Cli { global, command } = cli;
    // `dev` shows the log in its own way.
    if !matches!(command, Command::Dev(_)) {
        let default = if matches!(command, Command::Serve(_) | Command::Stdio(_)) { "info" } else { "warn" };
        logging::install(global.log.as_deref(), global.verbose, default, global.color)?;
    }
    let out = global.out();
    match command {
        Command::Serve(args) => {
            let mut config = global.load()?;
            args.apply(&mut config);
            serve::run(config, out)?;
            Ok(Exit::Ok)
        }
        Command::Stdio(args) => {
            let mut config = global.load()?;
            args.apply(&mut config);
            stdio::run(config)?;
            Ok(Exit::Ok)
        }
        Command::Dev(args) => dev::run(args, &global),
        Command::Call(args) => call::run(args, || global.load(), out),
        Command::New(args) => new::run(&args, out),
        Command::Inspect(args) => inspect::run(&args, out),
        Command::Plugins(args) => plugins::run(&args, global.load()?, out),
        Command::Replay(args) => replay::run(args, global.load()?, out),
        Command::Tasks(args) => tasks::run(args, global.load()?, out),
        Command::Token(args) => token::run(args, &global.load()?, out),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_may_follow_the_command() {
        let cli = Cli::try_parse_from(["layby", "tasks", "list", "--json", "--data", "x"]);
        assert!(cli.is_ok_and(|c| c.global.json));
    }
}
