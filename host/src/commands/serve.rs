//! `layby serve`.

use std::{path::PathBuf, sync::Arc};

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use super::{exit::Failure, out::Out, stack::Stack};
use crate::{config::Config, plugins::Catalog};

/// Serves what a folder of plugins offers over MCP.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Address and port to listen on [default: 127.0.0.1:7331]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    /// Folder of NAME.wasm and NAME.toml [default: plugins]
    #[arg(long, value_name = "DIR")]
    pub(crate) plugins: Option<PathBuf>,
    /// Folder of the database, compiled code and keys [default: data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// PostgreSQL database that hosts on many machines share, as postgres://USER@HOST/DATABASE [default: a file in the data folder]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Allow an address other than loopback without authentication: anybody who can reach it can call every tool
    #[arg(long)]
    pub(crate) allow_unauthenticated: bool,
}

impl Args {
    /// What was given on the command line goes over file and environment.
    pub(crate) fn apply(self, config: &mut Config) {
        let serve = &mut config.serve;
        if let Some(listen) = self.listen {
            serve.listen = listen;
        }
        if let Some(plugins) = self.plugins {
            serve.plugins = plugins;
        }
        if let Some(data) = self.data {
            serve.data = data;
        }
        if let Some(url) = self.store {
            config.store.url = url;
        }
        serve.allow_unauthenticated |= self.allow_unauthenticated;
    }
}

/// A host that serves in this process.
pub(crate) struct Running {
    /// The address of its MCP endpoint, such as `http://127.0.0.1:7331/mcp`.
    pub(crate) url: String,
    stack: Stack,
}

impl Running {
    /// Returns once every plugin is served or refused.
    pub(crate) async fn ready(&self) {
        let mut catalog = self.stack.plugins().watch();
        // An error means that the watcher has ended: nothing more will change.
        let _ = catalog.wait_for(|c| !c.report.iter().any(|entry| entry.compiling)).await;
    }

    /// What it serves, now and at every change.
    pub(crate) fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.stack.plugins().watch()
    }

    /// Drains and stops; returns when nothing of it runs any more.
    pub(crate) async fn stop(self) {
        self.stack.stop().await;
    }
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// An address that cannot be bound, a store that cannot be used, a folder that cannot be read.
pub(crate) fn run(config: Config, out: Out) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().thread_name("http").enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let running = start(config, None).await?;
        // The one line on standard output: programs wait for it, and read the URL from it.
        if out.json {
            out.json(&serde_json::json!({"url": running.url}))?;
        } else {
            out.text(&format!("layby is ready at {}", running.url))?;
        }
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: draining"),
            _ = interrupt.recv() => tracing::info!("interrupted: draining; once more stops at once"),
        }
        tokio::select! {
            () = running.stop() => {}
            _ = interrupt.recv() => tracing::warn!("stopped without draining"),
        }
        Ok(())
    })
}

/// Starts a host inside the caller's runtime. Compiled code is kept below `cache` where it is given,
/// else below the data folder.
///
/// # Errors
/// As [`run`].
pub(crate) async fn start(config: Config, cache: Option<PathBuf>) -> anyhow::Result<Running> {
    let stack = Stack::start(config, cache.as_deref()).await?;
    Ok(Running { url: stack.url.clone(), stack })
}
