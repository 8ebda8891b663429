//! `wasi:cli` standard streams, `wasi:logging`, and the log of `layby:plugin/call`. Grant: none needed.
//! Class: harmless. Records: the trail has what is written through `log`; streams leave nothing.
//!
//! Output goes line by line to the operator's log, up to the limit `stderr`, and is then cut with one notice.
//! The permit to write is constant: what a guest sees never depends on how fast a log is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use wasmtime::component::{ComponentType, HasSelf, Lift, Linker, Resource};
use wasmtime_wasi::p2::{
    DynInputStream, DynOutputStream, OutputStream, Pollable, StreamResult,
    bindings::cli::{
        stderr, stdin, stdout, terminal_input::TerminalInput, terminal_output::TerminalOutput,
        terminal_stderr, terminal_stdin, terminal_stdout,
    },
    pipe::ClosedInputStream,
};

use super::{Audience, Caller, State, wit_call::LogLevel};
use crate::{base::ByteSize, journal::Journal};

/// Bytes that a guest may write at once.
const PERMIT: usize = 64 << 10;
/// Longer lines are cut into pieces of this many bytes.
const LINE: usize = 8 << 10;

/// Collects what one run writes.
pub(super) struct Capture {
    caller: Arc<dyn Caller>,
    limit: ByteSize,
    left: u64,
    cut: bool,
    out: Vec<u8>,
    err: Vec<u8>,
    last_error: String,
}

impl Capture {
    pub(super) fn new(caller: Arc<dyn Caller>, limit: ByteSize) -> Self {
        Self { caller, limit, left: limit.0, cut: false, out: vec![], err: vec![], last_error: String::new() }
    }

    /// One message of the log.
    pub(super) fn log(&mut self, audience: Audience, level: LogLevel, message: &str) {
        if self.cut {
            return;
        }
        let len = message.len() as u64;
        match self.left.checked_sub(len) {
            Some(left) => {
                self.left = left;
                self.caller.log(audience, level, message);
            }
            None => {
                self.cut = true;
                let notice =
                    format!("more output than the limit `stderr` ({}): the rest is not kept", self.limit);
                self.caller.log(Audience::Operator, LogLevel::Warning, &notice);
            }
        }
    }

    fn write(&mut self, error: bool, mut bytes: &[u8]) {
        // Once cut, only the last lines of standard error matter, for the reason of a trap.
        while !bytes.is_empty() && (error || !self.cut) {
            let buffer = if error { &mut self.err } else { &mut self.out };
            let room = LINE - buffer.len();
            let (piece, rest, whole) = match bytes.iter().take(room).position(|&b| b == b'\n') {
                Some(at) => (&bytes[..at], &bytes[at + 1..], true),
                None => {
                    (&bytes[..bytes.len().min(room)], &bytes[bytes.len().min(room)..], bytes.len() >= room)
                }
            };
            buffer.extend_from_slice(piece);
            bytes = rest;
            if whole {
                self.line(error);
            }
        }
    }

    fn line(&mut self, error: bool) {
        let buffer = std::mem::take(if error { &mut self.err } else { &mut self.out });
        let text = String::from_utf8_lossy(&buffer);
        let text = text.trim_end();
        if text.is_empty() {
            return;
        }
        self.log(Audience::Operator, LogLevel::Info, text);
        // What Rust adds below a panic's message says nothing of this one.
        if error && !text.starts_with("note: ") {
            self.last_error.clear();
            self.last_error.push_str(text);
        }
    }

    /// Passes on what has no line end yet.
    pub(super) fn finish(&mut self) {
        self.line(false);
        self.line(true);
    }

    /// The last line of standard error: what a panic said.
    pub(super) fn last_error(&self) -> &str {
        &self.last_error
    }
}

/// Locks a capture. A panic while it was locked can only have lost a line.
pub(super) fn lock(capture: &Mutex<Capture>) -> MutexGuard<'_, Capture> {
    capture.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Out {
    /// What is replayed was written before.
    journal: Journal,
    capture: Arc<Mutex<Capture>>,
    error: bool,
}

#[wasmtime_wasi::async_trait]
impl Pollable for Out {
    async fn ready(&mut self) {}
}

#[wasmtime_wasi::async_trait]
impl OutputStream for Out {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if self.journal.speaks() {
            lock(&self.capture).write(self.error, &bytes);
        }
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(PERMIT)
    }
}

impl State {
    fn out(&mut self, error: bool) -> wasmtime::Result<Resource<DynOutputStream>> {
        let capture = self.capture().clone();
        let stream: DynOutputStream = Box::new(Out { journal: self.journal.clone(), capture, error });
        Ok(self.table.push(stream)?)
    }
}

impl stdin::Host for State {
    fn get_stdin(&mut self) -> wasmtime::Result<Resource<DynInputStream>> {
        let stream: DynInputStream = Box::new(ClosedInputStream);
        Ok(self.table.push(stream)?)
    }
}

impl stdout::Host for State {
    fn get_stdout(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        self.out(false)
    }
}

impl stderr::Host for State {
    fn get_stderr(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        self.out(true)
    }
}

impl terminal_stdin::Host for State {
    fn get_terminal_stdin(&mut self) -> wasmtime::Result<Option<Resource<TerminalInput>>> {
        Ok(None)
    }
}

impl terminal_stdout::Host for State {
    fn get_terminal_stdout(&mut self) -> wasmtime::Result<Option<Resource<TerminalOutput>>> {
        Ok(None)
    }
}

impl terminal_stderr::Host for State {
    fn get_terminal_stderr(&mut self) -> wasmtime::Result<Option<Resource<TerminalOutput>>> {
        Ok(None)
    }
}

/// `wasi:logging/logging.level`.
#[derive(Clone, Copy, ComponentType, Lift)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "guests make them")]
enum Level {
    #[component(name = "trace")]
    Trace,
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
    #[component(name = "critical")]
    Critical,
}

/// Every version of the interface that components in the wild import, all of the same shape.
pub(super) const LOGGING: [&str; 2] = ["wasi:logging/logging", "wasi:logging/logging@0.1.0-draft"];

/// Adds the standard streams and `wasi:logging`.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    stdin::add_to_linker::<State, HasSelf<State>>(linker, |s| s)?;
    stdout::add_to_linker::<State, HasSelf<State>>(linker, |s| s)?;
    stderr::add_to_linker::<State, HasSelf<State>>(linker, |s| s)?;
    terminal_stdin::add_to_linker::<State, HasSelf<State>>(linker, |s| s)?;
    terminal_stdout::add_to_linker::<State, HasSelf<State>>(linker, |s| s)?;
    terminal_stderr::add_to_linker::<State, HasSelf<State>>(linker, |s| s)?;
    for name in LOGGING {
        linker.instance(name)?.func_wrap(
            "log",
            |mut store, (level, context, text): (Level, String, String)| {
                let level = match level {
                    Level::Trace | Level::Debug => LogLevel::Debug,
                    Level::Info => LogLevel::Info,
                    Level::Warn => LogLevel::Warning,
                    Level::Error => LogLevel::Error,
                    Level::Critical => LogLevel::Critical,
                };
                let text = if context.is_empty() { text } else { format!("{context}: {text}") };
                store.data_mut().write_log(Audience::Operator, level, &text);
                Ok(())
            },
        )?;
    }
    Ok(())
}

impl State {
    /// One message for the log, cut to a line's length.
    pub(super) fn write_log(&mut self, audience: Audience, level: LogLevel, text: &str) {
        self.journal.note("log", text.as_bytes());
        if !self.journal.speaks() {
            return;
        }
        let text = &text[..text.floor_char_boundary(LINE)];
        lock(self.capture()).log(audience, level, text);
    }
}
