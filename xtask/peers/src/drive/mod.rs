//! The driver: few instructions a request, so that one core of it keeps one core of a server busy.

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

mod http;
mod inline;
mod mcp;
mod paced;
mod poll;
mod promote;
mod resume;
mod settle;
mod start;
mod stats;

/// What to send.
#[derive(clap::Subcommand)]
pub(crate) enum Mode {
    /// Calls that are answered at once; each answer must equal the first.
    Inline(inline::Args),
    /// Calls that ask at once and so become tasks; each is answered.
    Promote(promote::Args),
    /// Polls of tasks.
    Poll(poll::Args),
    /// Starts calls that become tasks, and leaves them running.
    Start(start::Args),
    /// Calls that become tasks and end soon after.
    Settle(settle::Args),
    /// Answers to parked tasks, and how soon those go on.
    Resume(resume::Args),
    /// Calls at a fixed rate, while something else goes on.
    Paced(paced::Args),
}

/// Where, how many at once, and for how long.
#[derive(Clone, clap::Args)]
struct Load {
    /// The endpoint, such as `http://127.0.0.1:7331/mcp`.
    #[arg(long)]
    url: String,
    /// Connections, each with one request at a time.
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// How long to measure.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// How long to send before measuring.
    #[arg(long, default_value_t = 0.3)]
    warmup: f64,
    /// The server's process, whose use of the processor is then measured too.
    #[arg(long)]
    pid: Option<u32>,
}

impl Load {
    fn warmup(&self) -> Duration {
        Duration::from_secs_f64(self.warmup)
    }

    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

/// Runs one mode on one thread.
pub(crate) fn run(mode: Mode) -> Result<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match mode {
            Mode::Inline(args) => inline::run(args).await,
            Mode::Promote(args) => promote::run(args).await,
            Mode::Poll(args) => poll::run(args).await,
            Mode::Start(args) => start::run(args).await,
            Mode::Settle(args) => settle::run(args).await,
            Mode::Resume(args) => resume::run(args).await,
            Mode::Paced(args) => paced::run(args).await,
        }
    })
}
