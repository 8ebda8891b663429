//! The wire over HTTP: the MCP front for 2026-07-28, health and readiness, and the accept loop.

mod auth;
mod browser;
mod front;
mod guard;
mod headers;
mod health;
mod listen;
mod older;
mod reply;
mod serve;
mod socket;
mod tls;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::{
    config::ServeConfig,
    mcp::{Handler, dispatch::Desk, listen::Places},
};

pub use auth::Auth;
#[cfg(feature = "fuzzing")]
pub(crate) use serve::route;
pub use serve::{Server, bind};
pub use tls::Tls;

/// What every request shares.
pub struct App {
    desk: Desk,
    config: ServeConfig,
    guard: guard::Guard,
    auth: auth::Auth,
    places: Places,
    older: older::Sessions,
    /// Ends the streams, in order.
    shutdown: CancellationToken,
}

impl App {
    /// The shared part of a server that listens on `address`.
    pub fn new(
        handler: Arc<Handler>,
        config: ServeConfig,
        auth: Auth,
        address: std::net::SocketAddr,
    ) -> Arc<Self> {
        Arc::new(Self {
            older: older::Sessions::new(&handler, &config),
            desk: Desk::new(handler),
            guard: guard::Guard::new(&config, address),
            auth,
            places: Places::new(&config),
            config,
            shutdown: CancellationToken::new(),
        })
    }
}
