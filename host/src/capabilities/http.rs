//! `wasi:http`, `wasi:sockets`. Grant: `http` (no request is let out yet, whatever it says); sockets and name
//! look-up have none: they are linked because some languages' runtimes import them, and always denied.
//! Class: denied. Records: a run that tries is pinned.

use std::sync::Arc;

use axum::http::{Request, Response};
use wasmtime::component::Linker;
use wasmtime_wasi_http::{
    Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView,
};

use super::{Audience, Caller, State, wit_call::LogLevel};

/// Work that goes on beside a request or a response.
type Beside = Box<dyn Future<Output = Result<(), Error>> + Send>;

/// The run's HTTP.
pub(super) struct Http {
    ctx: WasiHttpCtx,
    deny: Deny,
}

impl Http {
    pub(super) fn new(caller: Arc<dyn Caller>) -> Self {
        Self { ctx: WasiHttpCtx::new(), deny: Deny { caller } }
    }
}

struct Deny {
    caller: Arc<dyn Caller>,
}

impl WasiHttpHooks for Deny {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        _options: Option<RequestOptions>,
        _processed: Beside,
    ) -> Box<dyn Future<Output = Result<(Response<WasiBody>, Beside), Error>> + Send> {
        let host = request.uri().authority().map_or("", |a| a.host());
        let text = format!("denied: {} to {host:?}; no `http` grant allows it", request.method());
        self.caller.log(Audience::Operator, LogLevel::Warning, &text);
        Box::new(std::future::ready(Err(Error::HttpRequestDenied)))
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        self.journal.pin("it used wasi:http, which is not recorded yet");
        WasiHttpCtxView { hooks: &mut self.http.deny, table: &mut self.table, ctx: &mut self.http.ctx }
    }
}

/// Adds `wasi:http`'s outgoing side.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)
}
