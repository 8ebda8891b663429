//! Entries for the fuzz targets in `fuzz/host`: the rooms that serve, without a socket. Never in a release.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Method, Request, Uri},
};
use futures::StreamExt as _;
use tokio::runtime::Runtime;

use super::stack::{Rooms, clock};
use crate::{
    base::Digest,
    capabilities::Linked,
    config::{AuthConfig, Config},
    engine::Engine,
    http::{App, Auth, route},
    plugins::{self, Looked, Stop},
};

/// An answer that is still to come after this is a finding, but for one in pieces.
const PATIENCE: Duration = Duration::from_secs(5);

/// A host that serves in this process.
pub struct Host {
    runtime: Runtime,
    /// To whoever comes.
    open: Arc<App>,
    /// To who has a token.
    closed: Arc<App>,
    peer: SocketAddr,
    _rooms: Rooms,
}

/// One request, in bytes that HTTP's types may refuse.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The method.
    pub method: Vec<u8>,
    /// The target, with or without an authority.
    pub target: Vec<u8>,
    /// Names and values.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// The body.
    pub body: Vec<u8>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Answered {
    /// The status.
    pub status: u16,
    /// Names and values.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body, as far as it came.
    pub body: Vec<u8>,
    /// All of the body came.
    pub whole: bool,
}

impl Host {
    /// A host of `config`, which names its folders, that has been asked at `address` and answers once all its plugins serve.
    /// `tokens` is what its second door asks for.
    ///
    /// # Errors
    /// It cannot serve, or one of its plugins cannot.
    pub fn start(config: Config, tokens: &AuthConfig, address: SocketAddr) -> anyhow::Result<Self> {
        // One thread: what an input does is done when the next one comes.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let config = Arc::new(config);
        let rooms = runtime.block_on(Rooms::open(&config, None))?;
        let mut catalog = rooms.handler.plugins().watch();
        let catalog = runtime.block_on(catalog.wait_for(|c| c.report.iter().all(|e| !e.compiling)))?.clone();
        let refused = catalog.report.iter().find(|entry| entry.refusal.is_some() || entry.serving.is_none());
        anyhow::ensure!(refused.is_none() && !catalog.report.is_empty(), "not all serve: {refused:?}");
        let _entered = runtime.enter();
        let app = |auth: &AuthConfig| {
            let auth = Auth::open(auth, clock())?;
            anyhow::Ok(App::new(rooms.handler.clone(), config.serve.clone(), auth, address))
        };
        let (open, closed) = (app(&AuthConfig::default())?, app(tokens)?);
        drop(_entered);
        let peer = SocketAddr::from(([127, 0, 0, 1], 50_000));
        Ok(Self { runtime, open, closed, peer, _rooms: rooms })
    }

    /// Answers one request, at the door that asks for a token or at the other one; none where HTTP's own types refuse it.
    /// What comes in pieces is waited for as long as `pieces`.
    ///
    /// # Panics
    /// Where no answer comes.
    pub fn answer(&self, tokens: bool, asked: Asked, pieces: Duration) -> Option<Answered> {
        let mut request = Request::new(Body::from(asked.body));
        *request.method_mut() = Method::from_bytes(&asked.method).ok()?;
        *request.uri_mut() = Uri::try_from(asked.target).ok()?;
        for (name, value) in asked.headers {
            let name = HeaderName::from_bytes(&name).ok()?;
            request.headers_mut().append(name, HeaderValue::from_bytes(&value).ok()?);
        }
        let app = if tokens { &self.closed } else { &self.open };
        Some(self.runtime.block_on(async {
            let answered = tokio::time::timeout(PATIENCE, route(app.clone(), self.peer, request)).await;
            let (parts, body) = answered.unwrap_or_else(|_| panic!("no answer in {PATIENCE:?}")).into_parts();
            let (mut bytes, mut frames) = (Vec::new(), body.into_data_stream());
            let read = async {
                while let Some(frame) = frames.next().await {
                    bytes.extend(frame.unwrap_or_else(|e| panic!("an answer broke off: {e}")));
                }
            };
            let whole = tokio::time::timeout(pieces, read).await.is_ok();
            let text =
                |(name, value): (&HeaderName, &HeaderValue)| (name.to_string(), value.as_bytes().to_vec());
            let headers = parts.headers.iter().map(text).collect();
            Answered { status: parts.status.as_u16(), headers, body: bytes, whole }
        }))
    }
}

/// Checks components as a host does that has been given one.
pub struct Checker {
    runtime: Runtime,
    engine: Arc<Engine>,
    linked: Linked,
    config: Config,
}

impl Checker {
    /// One with the bounds of `config`.
    ///
    /// # Errors
    /// The engine cannot start.
    pub fn new(config: Config) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let engine = Engine::open(None, 4)?;
        let linked = Linked::new(&engine)?;
        Ok(Self { runtime, engine, linked, config })
    }

    /// All that is done to `bytes` before they may serve.
    ///
    /// # Errors
    /// Why they may not.
    pub fn look(&self, bytes: &[u8]) -> Result<Looked, Stop> {
        let digest = Digest::of(bytes);
        self.runtime.block_on(plugins::look_by(&self.engine, &self.linked, digest, bytes, &self.config))
    }

    /// All that is done to what a plugin lists, as a row of the store has it, and to arguments of its tools; the number of
    /// its tools.
    ///
    /// # Errors
    /// They are not of that form, or the first thing that cannot be served.
    pub fn declared(&self, row: &str, values: &[serde_json::Value]) -> Result<usize, String> {
        plugins::declared(row, values, &self.config)
    }
}
