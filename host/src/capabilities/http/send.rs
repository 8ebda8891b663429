//! One exchange with a server: look up, check, connect, send, read the whole answer.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use wasmtime_wasi_http::Error;

use super::{
    addresses::{Network, is_public},
    grants::{HostName, Target},
    names::Names,
};
use crate::base::is_own;

/// The least that hyper reads headers into.
const LEAST_BUFFER: usize = 8 << 10;
/// The name by which a machine calls itself. Where a grant has it, the addresses that it stands for are granted.
const SELF: &str = "localhost";

/// What a server answered.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Bounds on one exchange.
pub(super) struct Bounds {
    pub(super) connect: Duration,
    pub(super) first_byte: Duration,
    pub(super) between_bytes: Duration,
    /// Bytes of the answer's headers.
    pub(super) headers: usize,
    /// Bytes of its body.
    pub(super) body: usize,
}

/// How a name becomes addresses.
#[derive(Clone, Copy)]
pub(super) struct Way<'a> {
    pub(super) names: &'a Names,
    /// What the grants allow beside the public internet.
    pub(super) networks: &'a [Network],
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) error: Error,
    /// What the operator should know: a grant let the request out, and it was not sent.
    pub(super) told: Option<Leads>,
}

/// Where a granted request would have gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Leads {
    /// Where no grant leads: what that is.
    Nowhere(String),
    /// To addresses that a grant has to name.
    Within(Vec<IpAddr>),
}

impl Failed {
    pub(super) fn of(error: Error) -> Self {
        Self { error, told: None }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::of(error)
    }
}

/// Sends the request, whose target is granted.
pub(super) async fn send(
    target: &Target,
    headers: HeaderMap,
    body: Bytes,
    bounds: &Bounds,
    way: Way<'_>,
) -> Result<Answer, Failed> {
    let request = request(target, headers, body)?;
    let connected = timeout(bounds.connect, async {
        let addresses = addresses(target, way).await?;
        Ok(connect(&addresses).await?)
    });
    let stream = connected.await.unwrap_or(Err(Failed::of(Error::ConnectionTimeout)))?;
    if !target.is_https() {
        return Ok(over(stream, request, bounds).await?);
    }
    let secured = timeout(bounds.connect, secure(target, stream)).await;
    let stream = secured.unwrap_or(Err(Error::ConnectionTimeout))?;
    Ok(over(stream, request, bounds).await?)
}

/// As it goes over the connection.
pub(super) fn request(
    target: &Target,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, Error> {
    let url = target.url();
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = target.method().parse().map_err(|_| Error::HttpRequestMethodInvalid)?;
    *request.uri_mut() = path.parse().map_err(|_| Error::HttpRequestUriInvalid)?;
    let host = HeaderValue::from_str(host).map_err(|_| Error::HttpRequestUriInvalid)?;
    // The first header, as servers expect it.
    request.headers_mut().insert(header::HOST, host);
    request.headers_mut().extend(headers);
    Ok(request)
}

/// Where a request may go: looked up once, and every address checked. Only these are connected to.
pub(super) async fn addresses(target: &Target, way: Way<'_>) -> Result<Vec<SocketAddr>, Failed> {
    let addresses = match target.host() {
        HostName::Ip(ip) => vec![SocketAddr::new(*ip, target.port())],
        HostName::Name(name) => way.names.look_up(name, target.port()).await?,
    };
    check(target.host(), &addresses, way.networks)?;
    Ok(addresses)
}

async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, Error> {
    let mut last = Error::DestinationNotFound;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // Small requests need not wait; where it cannot be set, they do.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(e) => {
                last = match e.kind() {
                    io::ErrorKind::ConnectionRefused => Error::ConnectionRefused,
                    io::ErrorKind::TimedOut => Error::ConnectionTimeout,
                    io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                        Error::DestinationIpUnroutable
                    }
                    _ => Error::DestinationUnavailable,
                };
            }
        }
    }
    Err(last)
}

/// All addresses of a host are looked at before any is used: one that is not to be reached makes the name suspicious.
fn check(host: &HostName, addresses: &[SocketAddr], networks: &[Network]) -> Result<(), Failed> {
    let mut within = Vec::new();
    for &address in addresses {
        let ip = address.ip().to_canonical();
        let nowhere = match host {
            _ if is_own(SocketAddr::new(ip, address.port())) => {
                Some("one of this host's own sockets".to_owned())
            }
            _ if ip.is_unspecified() || ip.is_multicast() => {
                Some(format!("{ip}, which is no host's address"))
            }
            HostName::Name(name) if name == SELF && !ip.is_loopback() => {
                Some(format!("{ip}, which is not this machine's own"))
            }
            // The grant names it.
            HostName::Ip(_) => None,
            HostName::Name(name) if name == SELF => None,
            HostName::Name(_) => {
                let granted = is_public(address.ip()) || networks.iter().any(|network| network.contains(ip));
                if !granted {
                    within.push(ip);
                }
                None
            }
        };
        if let Some(what) = nowhere {
            return Err(prohibited(Leads::Nowhere(what)));
        }
    }
    if within.is_empty() { Ok(()) } else { Err(prohibited(Leads::Within(within))) }
}

fn prohibited(leads: Leads) -> Failed {
    Failed { error: Error::DestinationIpProhibited, told: Some(leads) }
}

/// The roots that this machine trusts, read once.
async fn roots() -> Result<Arc<rustls::ClientConfig>, Error> {
    static CONFIG: OnceLock<Result<Arc<rustls::ClientConfig>, String>> = OnceLock::new();
    let read = || CONFIG.get_or_init(config).clone();
    let config = match CONFIG.get() {
        Some(config) => config.clone(),
        // Some hundred certificates in a file or a folder.
        None => tokio::task::spawn_blocking(read).await.unwrap_or_else(|e| Err(e.to_string())),
    };
    config.map_err(|why| {
        tracing::error!("no HTTPS: {why}");
        Error::ConfigurationError
    })
}

fn config() -> Result<Arc<rustls::ClientConfig>, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = rustls::RootCertStore::empty();
    let (good, _) = roots.add_parsable_certificates(found.certs);
    if good == 0 {
        return Err(format!(
            "this machine has no certificates of authorities (Debian: ca-certificates): {:?}",
            found.errors
        ));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

async fn secure(target: &Target, stream: TcpStream) -> Result<TlsStream<TcpStream>, Error> {
    let name = match target.host() {
        HostName::Ip(ip) => ServerName::IpAddress((*ip).into()),
        HostName::Name(name) => ServerName::try_from(name.clone()).map_err(|_| Error::TlsCertificateError)?,
    };
    let connector = TlsConnector::from(roots().await?);
    connector.connect(name, stream).await.map_err(|e| {
        let inner = e.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
        match inner {
            Some(rustls::Error::InvalidCertificate(_)) => Error::TlsCertificateError,
            Some(rustls::Error::AlertReceived(alert)) => {
                Error::TlsAlertReceived { alert_id: Some((*alert).into()), alert_message: None }
            }
            Some(_) => Error::TlsProtocolError,
            None => Error::ConnectionTerminated,
        }
    })
}

/// Sends over a connection, and reads the answer to its end.
async fn over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
    bounds: &Bounds,
) -> Result<Answer, Error> {
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(bounds.headers.max(LEAST_BUFFER))
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|e| failed(&e, bounds))?;
    let exchange = async move {
        let sent = timeout(bounds.first_byte, sender.send_request(request)).await;
        let response = sent.map_err(|_| Error::HttpResponseTimeout)?.map_err(|e| failed(&e, bounds))?;
        let (head, mut incoming) = response.into_parts();
        let mut body = BytesMut::new();
        loop {
            let frame = timeout(bounds.between_bytes, incoming.frame()).await;
            let Some(frame) = frame.map_err(|_| Error::ConnectionReadTimeout)? else { break };
            // Trailers are dropped.
            let Ok(data) = frame.map_err(|_| Error::HttpResponseIncomplete)?.into_data() else { continue };
            if body.len() + data.len() > bounds.body {
                return Err(Error::HttpResponseBodySize(Some(bounds.body as u64)));
            }
            body.extend_from_slice(&data);
        }
        Ok(Answer { status: head.status, headers: head.headers, body: body.freeze() })
    };
    tokio::pin!(exchange, connection);
    let mut open = true;
    loop {
        tokio::select! {
            biased;
            answer = &mut exchange => return answer,
            // How it ended is told by the exchange.
            _ = &mut connection, if open => open = false,
        }
    }
}

fn failed(e: &hyper::Error, bounds: &Bounds) -> Error {
    if e.is_parse_too_large() {
        Error::HttpResponseHeaderSectionSize(u32::try_from(bounds.headers).ok())
    } else if e.is_incomplete_message() {
        Error::HttpResponseIncomplete
    } else if e.is_closed() || e.is_canceled() {
        Error::ConnectionTerminated
    } else {
        Error::HttpProtocolError
    }
}

#[cfg(test)]
mod tests;
