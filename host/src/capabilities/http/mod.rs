//! `wasi:http` outgoing. Grant: `http`, a method and a URL pattern each.
//! Class: idempotent effect (GET, HEAD, PUT, DELETE, OPTIONS, or a grant with `idempotent = true`), else unsafe
//! effect. Records, by the number of the exchange: a hash of the request when it is about to be sent, and the whole
//! answer or the error.
//!
//! A request is gathered whole before anything of it is sent, and its answer before the guest sees anything of
//! it: nothing that the guest sees depends on how fast bytes travel. Trailers are dropped. Each request has a
//! connection of its own, to an address that was looked up once and checked; redirects are the guest's to follow.

mod addresses;
mod body;
mod exchange;
mod fields;
mod flights;
mod grants;
mod names;
mod path;
mod record;
mod send;

use std::sync::{Arc, atomic::AtomicU64};

use axum::http::{HeaderName, Request, Response, header, uri::Scheme};
use http_body_util::{BodyExt as _, Full};
use tokio::sync::Semaphore;
use wasmtime::component::Linker;
use wasmtime_wasi::ResourceTable;
use wasmtime_wasi_http::{
    Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView,
};

pub(super) use self::grants::Rule;
use self::{exchange::Shared, flights::Flight, names::Names, send::Answer};
pub use self::{flights::Flights, record::describe};
use super::State;

/// True where no server reads a URL's path as one that goes up, or ends before its end.
pub fn is_plain_path(path: &str) -> bool {
    path::Path::of(path).is_ok()
}

/// Work that goes on beside a request or a response.
type Beside = Box<dyn Future<Output = Result<(), Error>> + Send>;

/// The run's HTTP.
pub(super) struct Http {
    ctx: WasiHttpCtx,
    hooks: Hooks,
}

impl Http {
    /// Nothing begins any more that has not yet.
    pub(super) fn stop(&self) {
        self.hooks.shared.room.close();
    }
}

struct Hooks {
    shared: Arc<Shared>,
    /// Requests so far: the number of the next.
    requests: u32,
}

impl WasiHttpHooks for Hooks {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _processed: Beside,
    ) -> Box<dyn Future<Output = Result<(Response<WasiBody>, Beside), Error>> + Send> {
        let (shared, k) = (self.shared.clone(), self.requests);
        shared.journal.note("http", &k.to_le_bytes());
        if k >= shared.limits.http_requests {
            let most = shared.limits.http_requests;
            shared.warn(&format!("denied: one request more; limits.http-requests is {most}"));
            return Box::new(std::future::ready(Err(Error::HttpRequestDenied)));
        }
        self.requests += 1;
        // Here and not in the future, which begins when its thread has time.
        let flight: Flight = shared.flights.enter();
        Box::new(async move {
            let answer = shared.exchange(k, request, options).await;
            drop(flight);
            let Answer { status, headers, body } = answer?;
            let mut response = Response::new(Full::new(body).map_err(|never| match never {}).boxed_unsync());
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            let beside: Beside = Box::new(std::future::ready(Ok(())));
            Ok((response, beside))
        })
    }

    /// What no scheme may do is denied where all else is, so that the operator is told.
    fn is_supported_scheme(&mut self, _: &Scheme) -> bool {
        true
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

/// Headers by which a server, or a proxy before it, takes a request for another than the one that was granted: of another
/// method, path or host.
const OVERRIDES: [&str; 13] = [
    "forwarded",
    "x-forwarded-host",
    "x-forwarded-path",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-forwarded-server",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-host",
    "x-original-url",
    "x-rewrite-url",
];

/// Headers of one connection, which are the host's, those that would make a server wait for more, and [`OVERRIDES`].
fn is_forbidden(name: &HeaderName) -> bool {
    wasmtime_wasi_http::DEFAULT_FORBIDDEN_HEADERS.contains(name)
        || matches!(*name, header::EXPECT | header::TE | header::TRAILER)
        || OVERRIDES.contains(&name.as_str())
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
                names: Names::of_process(),
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

/// Puts the host's own streams and headers over wasmtime's.
pub(super) fn shadow(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    body::link(linker)?;
    fields::link(linker)
}

#[cfg(test)]
mod attacks;
