//! `layby stdio`.

use std::{path::PathBuf, sync::Arc};

use tokio::{
    io::BufReader,
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

use super::{exit::Failure, stack::Rooms};
use crate::{base::Millis, config::Config, mcp};

/// Serves what a folder of plugins offers over standard input and output.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Folder of NAME.wasm and NAME.toml [default: plugins]
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
    /// Folder of the database, compiled code and keys [default: data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// PostgreSQL database that hosts on many machines share, as postgres://USER@HOST/DATABASE [default: a file in the data folder]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
}

impl Args {
    /// What was given on the command line goes over file and environment.
    pub(crate) fn apply(self, config: &mut Config) {
        if let Some(plugins) = self.plugins {
            config.serve.plugins = plugins;
        }
        if let Some(data) = self.data {
            config.serve.data = data;
        }
        if let Some(url) = self.store {
            config.store.url = url;
        }
    }
}

/// Serves until the input ends, or SIGTERM or SIGINT.
///
/// # Errors
/// A store that cannot be used, a folder or an input that cannot be read.
pub(crate) fn run(config: Config) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().thread_name("stdio").enable_all().build()?;
    let served = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let config = Arc::new(config);
        let rooms = Rooms::open(&config, None).await?;
        let stop = CancellationToken::new();
        let serving = mcp::stdio::serve(
            rooms.handler.clone(),
            config.serve.clone(),
            BufReader::new(tokio::io::stdin()),
            tokio::io::stdout(),
            stop.clone(),
        );
        let mut serving = std::pin::pin!(serving);
        let served = tokio::select! {
            served = &mut serving => served,
            _ = terminate.recv() => { stop.cancel(); serving.await }
            _ = interrupt.recv() => { stop.cancel(); serving.await }
        };
        // What is still running has lost its client; tasks are settled as interrupted.
        rooms.close(Millis(0)).await;
        served.map_err(anyhow::Error::from)
    });
    // A read of standard input cannot be interrupted: its thread must not keep the process.
    runtime.shutdown_background();
    Ok(served?)
}
