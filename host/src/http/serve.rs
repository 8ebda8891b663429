//! The accept loop: bounds on connections and headers, no delay on sockets, an end in order.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use axum::{
    body::Body,
    http::{HeaderValue, Method, Request, Response, StatusCode, header},
};
use futures::FutureExt as _;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::{net::TcpListener, sync::Semaphore};

use super::{App, auth::WELL_KNOWN, browser, front, health, older, reply, socket::Impatient, tls::Tls};
use crate::{base::Fault, config::ServeConfig};

/// Largest head of a request: names, session headers and a mirrored parameter fit well.
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Most headers of a request.
const MAX_HEADERS: usize = 100;

/// What hyper may read before it gives up, so that what is only somewhat too large gets an answer from us. hyper
/// takes the bytes of a head in steps, and so lets some more pass than its own bound says.
const HYPER_HEADERS: usize = 2 * MAX_HEADERS;

/// Binds the configured address.
///
/// # Errors
/// An address that is not one, is in use, or is not loopback while nothing is authenticated.
pub async fn bind(config: &ServeConfig, authenticated: bool) -> anyhow::Result<TcpListener> {
    let address: SocketAddr = match tokio::net::lookup_host(&config.listen).await {
        Ok(mut found) => found
            .next()
            .ok_or_else(|| anyhow::anyhow!("serve.listen = {:?} has no address", config.listen))?,
        Err(e) => anyhow::bail!(
            "serve.listen = {:?} is not an address and port such as \"127.0.0.1:7331\": {e}",
            config.listen
        ),
    };
    if !address.ip().is_loopback() && !authenticated && !config.allow_unauthenticated {
        anyhow::bail!(
            "refusing to listen on {address}: it is not a loopback address, and callers are not authenticated, so \
             anybody who can reach it could call every tool. Make tokens with `layby token new` and name their file \
             in auth.tokens-file, or configure an issuer in [auth.oauth]; or say --allow-unauthenticated (serve.allow-unauthenticated = true) if the network is \
             closed to others."
        );
    }
    TcpListener::bind(address).await.map_err(|e| {
        let mend = match e.kind() {
            std::io::ErrorKind::AddrInUse => {
                "; another host may be running there: end it, or choose another address with --listen"
            }
            _ => "; choose another address with --listen",
        };
        anyhow::anyhow!("cannot listen on {address}: {e}{mend}")
    })
}

/// A server that accepts until it is stopped.
pub struct Server {
    app: Arc<App>,
    accepting: tokio::task::JoinHandle<GracefulShutdown>,
    stop: tokio_util::sync::CancellationToken,
}

impl Server {
    /// Starts to accept on `listener`, over TLS or without.
    pub fn start(app: Arc<App>, listener: TcpListener, tls: Option<Tls>) -> Self {
        let stop = tokio_util::sync::CancellationToken::new();
        let accepting = tokio::spawn(accept(app.clone(), listener, tls, stop.clone()));
        Self { app, accepting, stop }
    }

    /// No new connections; streams end with their final result; waits up to the configured drain.
    pub async fn stop(self) {
        self.app.shutdown.cancel();
        self.stop.cancel();
        let drain = self.app.config.drain.duration();
        let Ok(graceful) = self.accepting.await else { return };
        // Streams of older clients have no end of their own: they go once the calls have been answered.
        let calls = async {
            self.app.older.idle().await;
            self.app.older.end();
        };
        let closing = async { tokio::join!(calls, graceful.shutdown()) };
        if tokio::time::timeout(drain, closing).await.is_err() {
            self.app.older.end();
        }
    }
}

async fn accept(
    app: Arc<App>,
    listener: TcpListener,
    tls: Option<Tls>,
    stop: tokio_util::sync::CancellationToken,
) -> GracefulShutdown {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(app.config.max_connections as usize));
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(app.config.header_timeout.duration())
        .max_headers(HYPER_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES)
        .pipeline_flush(true);
    let patience = app.config.write_timeout.duration();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return graceful,
            accepted = listener.accept() => accepted,
        };
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(e) => {
                // Out of descriptors, most likely: others must end before it gets better.
                tracing::warn!("cannot accept a connection: {e}");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            tracing::warn!(%peer, "refused a connection: serve.max-connections are open");
            continue;
        };
        // Without it each streamed answer waits for the peer's delayed acknowledgement, 40 ms and more.
        let _ = socket.set_nodelay(true);
        let (app, http, watcher) = (app.clone(), http.clone(), graceful.watcher());
        let acceptor = tls.as_ref().map(Tls::acceptor);
        let stop = stop.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                route(app.clone(), peer, request.map(Body::new)).map(Ok::<_, Infallible>)
            });
            let socket = Impatient::new(socket, patience);
            // Errors here are the client's: it broke off, or sent what is not TLS or HTTP.
            match acceptor {
                None => {
                    let _ = watcher.watch(http.serve_connection(TokioIo::new(socket), service)).await;
                }
                Some(acceptor) => {
                    let shaken =
                        tokio::time::timeout(ServeConfig::HANDSHAKE.duration(), acceptor.accept(socket));
                    if let Some(Ok(Ok(socket))) = stop.run_until_cancelled(shaken).await {
                        let _ = watcher.watch(http.serve_connection(TokioIo::new(socket), service)).await;
                    }
                }
            }
            drop(place);
        });
    }
}

/// One request to one answer, with what every answer tells a browser.
pub(crate) async fn route(app: Arc<App>, peer: SocketAddr, request: Request<Body>) -> Response<Body> {
    browser::guarded(choose(app, peer, request).await)
}

/// The answer itself; the paths are few enough for a match.
async fn choose(app: Arc<App>, peer: SocketAddr, request: Request<Body>) -> Response<Body> {
    if let Some(refusal) = oversized(&request) {
        return refusal;
    }
    if !app.guard.admits(request.headers(), request.uri().authority().map(|a| a.as_str())) {
        let fault = Fault::new(
            -32600,
            "host_or_origin_refused",
            "The Host or Origin of this request is not this server's. The operator can add names to \
             serve.allowed-hosts and serve.allowed-origins.",
        );
        return reply::refuse(StatusCode::FORBIDDEN, None, fault);
    }
    match (request.uri().path(), request.method()) {
        ("/mcp", &Method::POST) => match app.auth.admit(request.headers(), peer).await {
            Ok(access) => front::mcp(app, access, request).await,
            Err(refusal) => *refusal,
        },
        ("/mcp", &Method::GET | &Method::DELETE) if older::names_session(request.headers()) => {
            match app.auth.admit(request.headers(), peer).await {
                Ok(access) => older::other(&app, access, request).await,
                Err(refusal) => *refusal,
            }
        }
        ("/mcp", _) => not_allowed("POST"),
        ("/health", &Method::GET) => health::health(),
        ("/ready", &Method::GET) => health::ready(&app),
        ("/health" | "/ready", _) => not_allowed("GET"),
        (path, &Method::GET) if path.starts_with(WELL_KNOWN) => {
            app.auth.metadata(path).unwrap_or_else(|| plain(StatusCode::NOT_FOUND, "Not found."))
        }
        _ => plain(StatusCode::NOT_FOUND, "Not found. The MCP endpoint is /mcp."),
    }
}

/// A head over its bounds, refused.
fn oversized(request: &Request<Body>) -> Option<Response<Body>> {
    let headers = request.headers();
    let lines = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>();
    let target = request.uri().path_and_query().map_or(0, |p| p.as_str().len());
    if headers.len() <= MAX_HEADERS && lines + target <= MAX_HEAD_BYTES {
        return None;
    }
    let fault = Fault::new(
        -32600,
        "head_too_large",
        format!("The head of a request has at most {MAX_HEADERS} headers and {} KiB.", MAX_HEAD_BYTES / 1024),
    );
    Some(reply::refuse(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, None, fault))
}

fn not_allowed(allow: &'static str) -> Response<Body> {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed.");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
