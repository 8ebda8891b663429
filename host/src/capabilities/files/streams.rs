//! Streams over files. Each call does its work before it returns, and is recorded as the descriptor's are; the
//! position is the stream's own. Streams over anything else are left to wasmtime.

use std::{
    fmt,
    future::Future,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use wasmtime::{
    StoreContextMut,
    component::{Linker, Resource},
};
use wasmtime_wasi::p2::{
    DynInputStream, DynOutputStream, FsError, FsResult, InputStream, OutputStream, Pollable, StreamError,
    StreamResult,
    bindings::{
        filesystem::types::ErrorCode,
        io::streams::{self, Host as _, HostInputStream as _, HostOutputStream as _},
    },
};

use super::{Node, State, keep::Op};
use crate::journal::Call;

/// Bytes of one read or write: large enough to be cheap, small enough that a cancelled guest stops soon.
const CHUNK: usize = 64 << 10;
/// Bytes of a write that flushes, as the interface has it.
const FLUSHED: usize = 4 << 10;

/// A stream that a guest has over a file.
pub(super) struct Stream {
    /// Gone with the guest's own stream, whose place in the table may then be another's.
    alive: Weak<()>,
    pub(super) node: Node,
    /// Where it is; none appends.
    at: Option<u64>,
}

impl Stream {
    pub(super) fn is_alive(&self) -> bool {
        self.alive.strong_count() > 0
    }
}

/// What the table holds of it.
struct Handle(#[expect(dead_code, reason = "it lives as long as the stream")] Arc<()>);

#[wasmtime_wasi::async_trait]
impl Pollable for Handle {
    async fn ready(&mut self) {}
}

#[wasmtime_wasi::async_trait]
impl InputStream for Handle {
    fn read(&mut self, _: usize) -> StreamResult<Bytes> {
        Err(StreamError::trap("a file's stream is read by its own functions"))
    }
}

#[wasmtime_wasi::async_trait]
impl OutputStream for Handle {
    fn write(&mut self, _: Bytes) -> StreamResult<()> {
        Err(StreamError::trap("a file's stream is written by its own functions"))
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(CHUNK)
    }
}

/// A stream's error, which `filesystem-error-code` reads.
#[derive(Debug)]
pub(super) struct Coded(pub(super) ErrorCode);

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.message())
    }
}

impl std::error::Error for Coded {}

type Input = Resource<DynInputStream>;
type Output = Resource<DynOutputStream>;
type Pending<'a, T> =
    Box<dyn Future<Output = wasmtime::Result<(Result<T, streams::StreamError>,)>> + Send + 'a>;
type Store<'a> = StoreContextMut<'a, State>;

/// Puts the calls that a file's stream must record over wasmtime's.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut io = linker.instance("wasi:io/streams@0.2.12")?;
    for (name, waits) in [("read", false), ("blocking-read", true)] {
        io.func_wrap_async(
            &format!("[method]input-stream.{name}"),
            move |mut store: Store<'_>, (stream, len): (Input, u64)| -> Pending<'_, Vec<u8>> {
                Box::new(async move {
                    let state = store.data_mut();
                    let read = state.read_stream(&stream, len, waits).await;
                    state.streamed(read)
                })
            },
        )?;
    }
    for (name, waits) in [("skip", false), ("blocking-skip", true)] {
        io.func_wrap_async(
            &format!("[method]input-stream.{name}"),
            move |mut store: Store<'_>, (stream, len): (Input, u64)| -> Pending<'_, u64> {
                Box::new(async move {
                    let state = store.data_mut();
                    let read = state.read_stream(&stream, len, waits).await;
                    state.streamed(read.map(|bytes| bytes.len() as u64))
                })
            },
        )?;
    }
    for (name, flushes) in [("write", false), ("blocking-write-and-flush", true)] {
        io.func_wrap_async(
            &format!("[method]output-stream.{name}"),
            move |mut store: Store<'_>, (stream, bytes): (Output, Vec<u8>)| -> Pending<'_, ()> {
                Box::new(async move {
                    let state = store.data_mut();
                    let written = state.write_stream(&stream, bytes, flushes).await;
                    state.streamed(written)
                })
            },
        )?;
    }
    for (name, flushes) in [("write-zeroes", false), ("blocking-write-zeroes-and-flush", true)] {
        io.func_wrap_async(
            &format!("[method]output-stream.{name}"),
            move |mut store: Store<'_>, (stream, len): (Output, u64)| -> Pending<'_, ()> {
                Box::new(async move {
                    let state = store.data_mut();
                    let written = match usize::try_from(len) {
                        Ok(len) if len <= CHUNK => state.write_stream(&stream, vec![0; len], flushes).await,
                        _ => Err(too_much()),
                    };
                    state.streamed(written)
                })
            },
        )?;
    }
    for (name, waits) in [("splice", false), ("blocking-splice", true)] {
        io.func_wrap_async(
            &format!("[method]output-stream.{name}"),
            move |mut store: Store<'_>, (to, from, len): (Output, Input, u64)| -> Pending<'_, u64> {
                Box::new(async move {
                    let state = store.data_mut();
                    let spliced = state.splice(&to, &from, len, waits).await;
                    state.streamed(spliced)
                })
            },
        )?;
    }
    Ok(())
}

fn too_much() -> StreamError {
    StreamError::trap("more bytes were written than `check-write` allowed")
}

/// As a stream has it.
fn failed(error: FsError) -> StreamError {
    match error.downcast() {
        Ok(code) => StreamError::LastOperationFailed(Coded(code).into()),
        Err(trap) => StreamError::Trap(trap),
    }
}

impl State {
    /// The guest's error, or a trap.
    fn streamed<T>(
        &mut self,
        result: StreamResult<T>,
    ) -> wasmtime::Result<(Result<T, streams::StreamError>,)> {
        Ok((match result {
            Ok(value) => Ok(value),
            Err(e) => Err(self.table.convert_stream_error(e)?),
        },))
    }

    pub(super) fn input(&mut self, node: Node, at: u64) -> wasmtime::Result<Input> {
        self.room()?;
        let alive = Arc::new(());
        let stream = Stream { alive: Arc::downgrade(&alive), node, at: Some(at) };
        let handle: DynInputStream = Box::new(Handle(alive));
        let handle = self.table.push(handle)?;
        self.streams(handle.rep(), stream);
        Ok(handle)
    }

    pub(super) fn output(&mut self, node: Node, at: Option<u64>) -> wasmtime::Result<Output> {
        self.room()?;
        let alive = Arc::new(());
        let stream = Stream { alive: Arc::downgrade(&alive), node, at };
        let handle: DynOutputStream = Box::new(Handle(alive));
        let handle = self.table.push(handle)?;
        self.streams(handle.rep(), stream);
        Ok(handle)
    }

    fn streams(&mut self, rep: u32, stream: Stream) {
        let streams = &mut self.files().streams;
        streams.retain(|_, stream| stream.is_alive());
        streams.insert(rep, stream);
    }

    /// The stream over a file that has this place in the table, if one has.
    fn file_stream(&mut self, rep: u32) -> Option<&mut Stream> {
        let stream = self.files.as_mut()?.streams.get_mut(&rep)?;
        stream.is_alive().then_some(stream)
    }

    /// Opens again what is behind a stream, where that was in another instance.
    fn reach_stream(&mut self, rep: u32) -> FsResult<wasmtime_wasi::filesystem::Descriptor> {
        let gone = || FsError::from(ErrorCode::BadDescriptor);
        let mut node = self.file_stream(rep).ok_or_else(gone)?.node.clone();
        let opened = self.reach(&mut node)?;
        self.file_stream(rep).ok_or_else(gone)?.node.open = node.open;
        Ok(opened)
    }

    pub(super) async fn read_stream(
        &mut self,
        stream: &Input,
        len: u64,
        waits: bool,
    ) -> StreamResult<Vec<u8>> {
        let rep = stream.rep();
        let Some(Stream { node, at, .. }) = self.file_stream(rep) else {
            let stream = Resource::new_borrow(rep);
            return if waits {
                self.table.blocking_read(stream, len).await
            } else {
                self.table.read(stream, len)
            };
        };
        let (place, at) = (node.place.clone(), at.unwrap_or(0));
        // At most `CHUNK`.
        let len = usize::try_from(len).unwrap_or(CHUNK).min(CHUNK);
        if len == 0 {
            return Ok(Vec::new());
        }
        let op = Op::new(Call::FileRead, "read", rep, place);
        let op = op.with(&(len as u64).to_le_bytes()).with(&at.to_le_bytes()).reads();
        let bytes = self.look(&op, |state| {
            let of = state.reach_stream(rep)?;
            state.files().disk.read(&of, len, at)
        });
        let bytes = bytes.await.map_err(failed)?;
        if bytes.is_empty() {
            return Err(StreamError::Closed);
        }
        if let Some(stream) = self.file_stream(rep) {
            stream.at = Some(at + bytes.len() as u64);
        }
        Ok(bytes)
    }

    pub(super) async fn write_stream(
        &mut self,
        stream: &Output,
        bytes: Vec<u8>,
        flushes: bool,
    ) -> StreamResult<()> {
        let rep = stream.rep();
        let Some(Stream { node, at, .. }) = self.file_stream(rep) else {
            let stream = Resource::new_borrow(rep);
            return if flushes {
                self.table.blocking_write_and_flush(stream, bytes).await
            } else {
                self.table.write(stream, bytes)
            };
        };
        let (place, at) = (node.place.clone(), *at);
        if bytes.len() > if flushes { FLUSHED } else { CHUNK } {
            return Err(too_much());
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let len = bytes.len() as u64;
        self.may_write(at, len).map_err(failed)?;
        let name = if at.is_some() { "write" } else { "append" };
        let op = Op::new(Call::FileLook, name, rep, place);
        let op = op.with(&at.unwrap_or(u64::MAX).to_le_bytes()).with(&bytes).one_of_many();
        let written = self.change(&op, (), move |state| {
            let to = state.reach_stream(rep)?;
            state.files().disk.write(&to, &bytes, at)
        });
        written.await.map_err(failed)?;
        if let Some(stream) = self.file_stream(rep) {
            stream.at = at.map(|at| at + len);
        }
        Ok(())
    }

    async fn splice(&mut self, to: &Output, from: &Input, len: u64, waits: bool) -> StreamResult<u64> {
        let permit = match self.file_stream(to.rep()) {
            Some(_) => FLUSHED,
            None if waits => self.table.get_mut(to)?.write_ready().await?,
            None => self.table.get_mut(to)?.check_write()?,
        };
        let len = len.min(permit as u64);
        if len == 0 {
            return Ok(0);
        }
        let bytes = self.read_stream(from, len, waits).await?;
        let moved = bytes.len() as u64;
        if moved == 0 {
            return Ok(0);
        }
        if waits && self.file_stream(to.rep()).is_none() {
            self.table.get_mut(to)?.blocking_write_and_flush(bytes.into()).await?;
        } else {
            self.write_stream(to, bytes, false).await?;
        }
        Ok(moved)
    }
}
