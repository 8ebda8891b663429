//! `wasi:http` outgoing, and `wasi:sockets`. Grant: `http`, a method and a URL pattern each; sockets and name
//! look-up have none: they are linked because some languages' runtimes import them, and always denied.
//! Class: idempotent effect (GET, HEAD, PUT, DELETE, OPTIONS, or a grant with `idempotent = true`), else unsafe
//! effect. Records: nothing yet, so a run that sends something is pinned.
//!
//! A request is gathered whole before anything of it is sent, and its answer before the guest sees anything of
//! it: nothing that the guest sees depends on how fast bytes travel. Trailers are dropped. Each request has a
//! connection of its own, to an address that was looked up once and checked; redirects are the guest's to follow.

mod body;
mod flights;
mod grants;
mod send;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::http::{HeaderMap, HeaderName, Request, Response, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use tokio::sync::Semaphore;
use wasmtime::component::Linker;
use wasmtime_wasi::ResourceTable;
use wasmtime_wasi_http::{
    Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView,
};

pub use self::flights::Flights;
pub(super) use self::grants::Rule;
use self::{
    flights::Flight,
    grants::{Target, Unfit},
    send::{Answer, Bounds},
};
use super::{Abort, Audience, Caller, Granted, State, wit_call::LogLevel};
use crate::{base::neutral_line, config::Limits, journal::Journal};

/// Work that goes on beside a request or a response.
type Beside = Box<dyn Future<Output = Result<(), Error>> + Send>;

/// Longest URL in a line of the log, in bytes.
const LOGGED: usize = 500;

/// The run's HTTP.
pub(super) struct Http {
    ctx: WasiHttpCtx,
    hooks: Hooks,
}

struct Hooks {
    shared: Arc<Shared>,
    /// Requests so far.
    requests: u32,
}

/// What the exchanges of one run share.
struct Shared {
    granted: Arc<Granted>,
    caller: Arc<dyn Caller>,
    journal: Journal,
    limits: Limits,
    flights: Flights,
    /// Exchanges that may be under way.
    room: Semaphore,
    /// Bytes of bodies so far.
    bytes: AtomicU64,
}

impl Shared {
    /// Counts bytes of a body; false where they are too many.
    fn takes(&self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        before.saturating_add(bytes) <= self.limits.http_bytes.0
    }

    fn over_bytes(&self) -> Abort {
        body::over(self.limits.http_bytes)
    }

    /// Tells the operator, once: what is replayed was told before.
    fn warn(&self, text: &str) {
        if self.journal.is_live() {
            let text = neutral_line(text);
            self.caller.log(Audience::Operator, LogLevel::Warning, &text);
        }
    }

    /// The target of a request that is granted.
    fn admit(&self, head: &axum::http::request::Parts) -> Result<Target, Error> {
        let (method, uri) = (head.method.as_str(), &head.uri);
        let scheme = uri.scheme_str().unwrap_or_default();
        let authority = uri.authority().map_or("", |a| a.as_str());
        let path = uri.path_and_query().map_or("", |p| p.as_str());
        let target = match Target::of(method, scheme, authority, path) {
            Ok(target) => target,
            Err(Unfit::TooLong) => return Err(Error::HttpRequestUriTooLong),
            Err(Unfit::Never(why)) => {
                let shown = format!("{method} {scheme}://{authority}{}", uri.path());
                self.warn(&format!("denied: {}: {why}", cut(&shown)));
                return Err(Error::HttpRequestDenied);
            }
        };
        if self.granted.http.iter().any(|rule| rule.allows(&target)) {
            return Ok(target);
        }
        let allow = target.suggestion();
        self.warn(&format!(
            "denied: {}; to allow it, add {{ allow = {allow:?} }} to grants.http of this plugin's policy",
            cut(&target.to_string())
        ));
        Err(Error::HttpRequestDenied)
    }

    /// One exchange, from the guest's request to its answer.
    async fn exchange(
        &self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
    ) -> Result<Answer, Error> {
        let (head, body) = request.into_parts();
        let target = self.admit(&head)?;
        let headers = self.headers(head.headers)?;
        let body = self.gathered(body).await?;
        // Never closed.
        let _room = self.room.acquire().await;
        let most = self.limits.http_time.duration();
        let within = |own: Option<Duration>| own.map_or(most, |own| own.min(most));
        let options = options.unwrap_or_default();
        let bounds = Bounds {
            connect: within(options.connect_timeout),
            first_byte: within(options.first_byte_timeout),
            between_bytes: within(options.between_bytes_timeout),
            headers: self.limits.http_headers.as_usize(),
            body: self.limits.http_response_body.as_usize(),
        };
        let sent = tokio::time::timeout(most, send::send(&target, headers, body, &bounds)).await;
        let answer = sent.unwrap_or(Err(send::Failed::of(Error::HttpResponseTimeout))).map_err(|failed| {
            match failed.told {
                Some(why) => self.warn(&format!("denied: {}: {why}", cut(&target.to_string()))),
                None => tracing::debug!("{target}: {}", failed.error),
            }
            failed.error
        })?;
        if !self.takes(answer.body.len()) {
            self.warn(&format!("the run reached limits.http-bytes = {}", self.limits.http_bytes));
            return Err(Error::HttpResponseBodySize(Some(answer.body.len() as u64)));
        }
        Ok(answer)
    }

    /// The guest's headers, without what is the host's to say.
    fn headers(&self, mut headers: HeaderMap) -> Result<HeaderMap, Error> {
        headers.remove(header::HOST);
        headers.remove(header::CONTENT_LENGTH);
        let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        if size > self.limits.http_headers.as_usize() {
            return Err(Error::HttpRequestHeaderSectionSize(u32::try_from(size).ok()));
        }
        Ok(headers)
    }

    async fn gathered(&self, body: WasiBody) -> Result<Bytes, Error> {
        let most = self.limits.http_request_body;
        match Limited::new(body, most.as_usize()).collect().await {
            Ok(whole) => Ok(whole.to_bytes()),
            Err(e) if e.is::<LengthLimitError>() => Err(Error::HttpRequestBodySize(Some(most.0))),
            Err(e) => Err(e.downcast::<Error>().map_or(Error::HttpProtocolError, |e| *e)),
        }
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LOGGED)]
}

impl WasiHttpHooks for Hooks {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _processed: Beside,
    ) -> Box<dyn Future<Output = Result<(Response<WasiBody>, Beside), Error>> + Send> {
        let shared = self.shared.clone();
        self.requests = self.requests.saturating_add(1);
        if self.requests > shared.limits.http_requests {
            let most = shared.limits.http_requests;
            shared.warn(&format!("denied: request {}; limits.http-requests is {most}", self.requests));
            return Box::new(std::future::ready(Err(Error::HttpRequestDenied)));
        }
        shared.journal.pin("it used wasi:http, which is not recorded yet");
        // Here and not in the future, which begins when its thread has time.
        let flight: Flight = shared.flights.enter();
        Box::new(async move {
            let answer = shared.exchange(request, options).await;
            drop(flight);
            let Answer { status, headers, body } = answer?;
            let mut response = Response::new(Full::new(body).map_err(|never| match never {}).boxed_unsync());
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            let beside: Beside = Box::new(std::future::ready(Ok(())));
            Ok((response, beside))
        })
    }

    fn is_forbidden_header(&mut self, name: &HeaderName) -> bool {
        is_forbidden(name)
    }

    fn forbidden_header_filter(&mut self) -> wasmtime_wasi_http::ForbiddenHeaderFilter {
        Arc::new(is_forbidden)
    }

    fn p2_outgoing_body_buffer_chunks(&mut self) -> usize {
        body::chunks(self.shared.limits.http_request_body.as_usize())
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        body::CHUNK
    }
}

/// Headers of one connection, which are the host's, and those that would make a server wait for more.
fn is_forbidden(name: &HeaderName) -> bool {
    wasmtime_wasi_http::DEFAULT_FORBIDDEN_HEADERS.contains(name)
        || matches!(*name, header::EXPECT | header::TE | header::TRAILER)
}

impl State {
    /// The run's HTTP, made on first use, and the table beside it.
    fn http_and_table(&mut self) -> (&mut Http, &mut ResourceTable) {
        let Self { http, table, limits, granted, caller, journal, flights, .. } = self;
        let http = http.get_or_insert_with(|| {
            let limits = limits.clone();
            let mut ctx = WasiHttpCtx::new();
            // As kept in memory, which takes about twice as much.
            ctx.set_field_size_limit(limits.http_headers.as_usize().saturating_mul(2));
            let shared = Arc::new(Shared {
                granted: granted.clone(),
                caller: caller.clone(),
                journal: journal.clone(),
                flights: flights.clone(),
                room: Semaphore::new(limits.http_concurrency.max(1) as usize),
                bytes: AtomicU64::new(0),
                limits,
            });
            Box::new(Http { ctx, hooks: Hooks { shared, requests: 0 } })
        });
        (http, table)
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let (http, table) = self.http_and_table();
        WasiHttpCtxView { hooks: &mut http.hooks, table, ctx: &mut http.ctx }
    }
}

/// Adds `wasi:http`'s outgoing side.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)
}

/// Puts the host's own streams over wasmtime's.
pub(super) fn shadow(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    body::link(linker)
}
