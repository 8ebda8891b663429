//! A host for one call, in this process: its own store in a temporary folder.

use std::path::{Path, PathBuf};

use super::{
    super::{
        exit::{Exit, Failure},
        serve::{self, Running},
        temporary::Temporary,
    },
    interrupts::Interrupts,
    progress::Display,
};
use crate::config::Config;

/// What a private host starts with.
pub(crate) struct Start {
    config: Config,
    /// The data folder whose compiled code is used, where there is one.
    cache: Option<PathBuf>,
    folder: Temporary,
}

/// `config` for a private host: loopback, any free port, a temporary data folder.
///
/// # Errors
/// The temporary folder cannot be made; `plugins` is no folder.
pub(crate) fn config(
    mut config: Config,
    plugins: Option<&Path>,
    data: Option<&Path>,
) -> Result<Start, Failure> {
    let serve = &mut config.serve;
    if let Some(plugins) = plugins {
        serve.plugins = plugins.into();
    }
    if !serve.plugins.is_dir() {
        let text = format!(
            "{}: no such folder of plugins. Name one with --plugins, or a server with --url",
            serve.plugins.display()
        );
        return Err(Failure::usage("plugins_folder_missing", text));
    }
    let data = data.map_or_else(|| serve.data.clone(), Path::to_path_buf);
    let cache = data.is_dir().then_some(data);
    let folder = Temporary::new("layby-call")?;
    serve.data = folder.path().to_owned();
    serve.listen = "127.0.0.1:0".into();
    config.store.url.clear();
    config.store.seal_key.clear();
    let serve = &mut config.serve;
    serve.allow_unauthenticated = false;
    Ok(Start { config, cache, folder })
}

/// A host that runs in this process for one call.
pub(crate) struct Private {
    running: Running,
    _folder: Temporary,
}

impl Private {
    /// Starts, and waits until every plugin is served or refused.
    ///
    /// # Errors
    /// As [`serve::start`]; Ctrl-C.
    pub(crate) async fn start(
        start: Start,
        display: &Display,
        interrupts: &mut Interrupts,
    ) -> Result<Self, Failure> {
        display.status("Loading plugins");
        let interrupted = || Failure::new(Exit::Interrupted, "ctrl_c", "stopped before the call");
        let running = tokio::select! {
            running = serve::start(start.config, start.cache) => running?,
            () = interrupts.next() => return Err(interrupted()),
        };
        let ready = tokio::select! {
            () = running.ready() => true,
            () = interrupts.next() => false,
        };
        if !ready {
            running.stop().await;
            return Err(interrupted());
        }
        Ok(Self { running, _folder: start.folder })
    }

    /// Its MCP endpoint.
    pub(crate) fn url(&self) -> &str {
        &self.running.url
    }

    /// Stops it and removes its folder.
    pub(crate) async fn stop(self) {
        self.running.stop().await;
    }
}
