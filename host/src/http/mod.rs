//! The wire over HTTP: the MCP front for 2026-07-28, health and readiness, and the accept loop.

mod front;
mod guard;
mod headers;
mod health;
mod listen;
mod reply;
mod serve;

use std::sync::Arc;

use rmcp::{RoleServer, service::Peer};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{config::ServeConfig, mcp::Handler};

pub use serve::{Server, bind};

/// What every request shares.
pub struct App {
    handler: Handler,
    config: ServeConfig,
    guard: guard::Guard,
    /// rmcp's context wants a peer; nobody is behind this one, and nothing may be sent to it.
    peer: Peer<RoleServer>,
    subscriptions: Arc<Semaphore>,
    /// Ends the streams, in order.
    shutdown: CancellationToken,
}

impl App {
    /// The shared part of a server that listens on `address`.
    pub fn new(handler: Handler, config: ServeConfig, address: std::net::SocketAddr) -> Arc<Self> {
        Arc::new(Self {
            handler,
            guard: guard::Guard::new(&config, address),
            peer: idle_peer(),
            subscriptions: Arc::new(Semaphore::new(config.max_subscriptions as usize)),
            config,
            shutdown: CancellationToken::new(),
        })
    }
}

/// A peer without a connection: the context that rmcp's dispatch takes must have one.
fn idle_peer() -> Peer<RoleServer> {
    struct Nobody;
    impl rmcp::ServerHandler for Nobody {}
    let (near, _far) = tokio::io::duplex(64);
    let service =
        rmcp::service::serve_directly::<RoleServer, _, _, _, _>(Nobody, tokio::io::split(near), None);
    let peer = service.peer().clone();
    // Its loop ends by itself, since the far end is gone.
    drop(service);
    peer
}
