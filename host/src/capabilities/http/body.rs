//! What a guest writes into a request's body. It always has room, up to the limits, so that nothing which
//! the guest sees depends on how fast the request is sent.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::p2::{DynOutputStream, OutputStream, Pollable, StreamError, StreamResult};
use wasmtime_wasi_http::p2::{bindings::http::types::ErrorCode, body::HostOutgoingBody};

use super::Shared;
use crate::capabilities::{Abort, State, state::Ended};

/// Bytes of one write, and of one chunk that is passed on.
pub(super) const CHUNK: usize = 64 << 10;

struct Body {
    /// Wasmtime's own end; it has room for all chunks that the limit allows.
    inner: DynOutputStream,
    shared: Arc<Shared>,
    gathered: BytesMut,
    written: usize,
}

#[wasmtime_wasi::async_trait]
impl Pollable for Body {
    async fn ready(&mut self) {}
}

#[wasmtime_wasi::async_trait]
impl OutputStream for Body {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > CHUNK {
            return Err(StreamError::Trap(wasmtime::Error::msg("a write is larger than its permit")));
        }
        if !self.shared.takes(bytes.len()) {
            return Err(StreamError::Trap(Ended(self.shared.over_bytes()).into()));
        }
        let most = self.shared.limits.http_request_body.as_usize();
        let over = self.written > most;
        self.written += bytes.len();
        if !over {
            // What goes over the limit is passed on once, so that whoever reads it sees that there was too much.
            self.gathered.extend_from_slice(&bytes);
        }
        if self.gathered.len() >= CHUNK {
            self.pass_on();
        }
        if self.written > most {
            let error = ErrorCode::HttpRequestBodySize(Some(most as u64));
            return Err(StreamError::LastOperationFailed(error.into()));
        }
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(CHUNK)
    }
}

impl Body {
    fn pass_on(&mut self) {
        while !self.gathered.is_empty() {
            let at = self.gathered.len().min(CHUNK);
            // A reader that is gone has refused the request: the guest is told by its answer.
            let _ = self.inner.write(self.gathered.split_to(at).freeze());
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.pass_on();
    }
}

/// Chunks that wasmtime's channel must have room for.
pub(super) const fn chunks(limit: usize) -> usize {
    limit / CHUNK + 4
}

/// The end of a run that moved more than it may.
pub(super) fn over(limit: crate::base::ByteSize) -> Abort {
    Abort::Limit {
        name: "http-bytes",
        value: limit.to_string(),
        advice: "Give it less to send and receive in one call.".into(),
    }
}

/// Puts such streams in place of wasmtime's.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut types = linker.instance("wasi:http/types@0.2.12")?;
    types.func_wrap("[method]outgoing-body.write", |mut store, (body,): (Resource<HostOutgoingBody>,)| {
        let state: &mut State = store.data_mut();
        let (http, table) = state.http_and_table();
        let shared = http.hooks.shared.clone();
        let Some(inner) = table.get_mut(&body)?.take_output_stream() else {
            return Ok((Err::<Resource<DynOutputStream>, ()>(()),));
        };
        let stream: DynOutputStream = Box::new(Body { inner, shared, gathered: BytesMut::new(), written: 0 });
        Ok((Ok(table.push_child(stream, &body)?),))
    })
}
