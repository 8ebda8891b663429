//! All rooms, put together: what `serve` runs, and what `call` runs in its own process.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;

use super::exit::Failure;
use crate::{
    base::{Clock, Millis, SystemClock, private_folder},
    capabilities::Linked,
    config::{Config, ConfigError},
    engine::Engine,
    http::{App, Auth, Server, Tls, bind},
    mcp::Handler,
    plugins::Plugins,
    runs::{Runs, SEALING_KEY},
    store::{self, Store, Vault},
    tasks::Tasks,
};

/// All rooms but a transport.
pub(crate) struct Rooms {
    /// What a transport serves.
    pub(crate) handler: Arc<Handler>,
    plugins: Arc<Plugins>,
    runs: Arc<Runs>,
    tasks: Arc<Tasks>,
    store: Arc<dyn Store>,
}

impl Rooms {
    /// Opens them. Compiled code is kept below `cache` where it is given, else below the data folder.
    ///
    /// # Errors
    /// A store that cannot be used, a folder that cannot be read.
    pub(crate) async fn open(config: &Arc<Config>, cache: Option<&Path>) -> anyhow::Result<Self> {
        if !config.store.url.is_empty() {
            // It keeps the name of this replica.
            let data = &config.serve.data;
            private_folder(data)
                .with_context(|| format!("the data folder {} cannot be made", data.display()))?;
        }
        let vault = Vault::open(config).map_err(|e| Failure::usage("seal_key_invalid", format!("{e:#}")))?;
        let vault = Arc::new(vault);
        if !config.store.url.is_empty() && config.store.seal_key.as_os_str().is_empty() {
            tracing::warn!(
                "store.seal-key is not set: a task whose plugin has an environment or configuration goes on at this host \
                 alone; give all hosts of the database the same file of keys"
            );
        }
        let store = store::open(&config.serve.data, &config.store).await?;
        let clock = store::clock(store.clone(), clock()).await?;
        let instances = config.host.concurrency.saturating_add(config.host.waiting);
        let engine = Engine::open(Some(cache.unwrap_or(&config.serve.data)), instances)?;
        let linked = Arc::new(Linked::new(&engine)?);
        let stalls = engine.stalls();
        let tasks = Tasks::open(store.clone(), clock.clone(), config).await?;
        let plugins =
            Plugins::open(config.clone(), engine, linked, store.clone(), vault.clone(), clock).await?;
        let sealing_key = sealing_key(&*store).await?;
        let runs = Runs::start(config, plugins.clone(), tasks.clone(), &sealing_key, vault, stalls)?;
        let handler = Handler::new(runs.clone(), tasks.clone(), plugins.clone(), config);
        let handler = Arc::new(handler);
        Ok(Self { handler, plugins, runs, tasks, store })
    }

    /// Stops, from the outside in, after the transport has; runs may go on for `within`.
    pub(crate) async fn close(self, within: Millis) {
        self.runs.close(within).await;
        self.plugins.close().await;
        self.tasks.close().await;
        self.store.close().await;
    }
}

/// A whole host in this process.
pub(crate) struct Stack {
    /// The MCP endpoint, such as `http://127.0.0.1:7331/mcp`.
    pub(crate) url: String,
    rooms: Rooms,
    server: Server,
    drain: Millis,
}

impl Stack {
    /// Starts everything; when this returns, the endpoint answers. `cache` is as for [`Rooms::open`].
    ///
    /// # Errors
    /// An address that cannot be bound, a store that cannot be used, a folder that cannot be read.
    pub(crate) async fn start(config: Config, cache: Option<&Path>) -> anyhow::Result<Self> {
        // First, since it is what goes wrong most: nothing else has been touched then.
        let listener = bind(&config.serve, config.auth.is_on())
            .await
            .map_err(|e| Failure::usage("listen_refused", format!("{e:#}")))?;
        let address = listener.local_addr().context("the socket has no address")?;
        crate::base::listens(address);
        let auth = Auth::open(&config.auth, clock())
            .map_err(|e| Failure::usage(ConfigError::CODE, format!("{e:#}")))?;
        let tls =
            Tls::open(&config.serve).map_err(|e| Failure::usage(ConfigError::CODE, format!("{e:#}")))?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let config = Arc::new(config);
        let rooms = Rooms::open(&config, cache).await?;
        let app = App::new(rooms.handler.clone(), config.serve.clone(), auth, address);
        let server = Server::start(app, listener, tls);
        Ok(Self { url: format!("{scheme}://{address}/mcp"), rooms, server, drain: config.serve.drain })
    }

    /// The catalog; for waiting until every plugin is served or refused.
    pub(crate) fn plugins(&self) -> &Arc<Plugins> {
        &self.rooms.plugins
    }

    /// Drains and stops, from the outside in; returns when nothing of it runs any more.
    pub(crate) async fn stop(self) {
        let start = std::time::Instant::now();
        self.server.stop().await;
        self.rooms.close(self.drain.saturating_sub(start.elapsed().into())).await;
    }
}

/// The key of request states, made by the first process on this store.
async fn sealing_key(store: &dyn Store) -> anyhow::Result<Vec<u8>> {
    let mut fresh = vec![0; 32];
    getrandom::fill(&mut fresh).context("no randomness")?;
    Ok(store.secret(SEALING_KEY, fresh).await?)
}

#[cfg(not(feature = "test-hooks"))]
pub(super) fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

/// One that a test can move, where a test asks for it.
#[cfg(feature = "test-hooks")]
pub(super) fn clock() -> Arc<dyn Clock> {
    match crate::base::MovedClock::from_env() {
        Some(moved) => Arc::new(moved),
        None => Arc::new(SystemClock),
    }
}
