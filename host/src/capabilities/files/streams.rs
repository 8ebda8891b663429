//! Streams over files. Each call does its work before it returns: nothing is left to a background thread.

use std::{fs::File, io::IoSlice, os::unix::fs::FileExt, sync::Arc};

use bytes::Bytes;
use rustix::io::ReadWriteFlags;
use wasmtime::component::Resource;
use wasmtime_wasi::{
    filesystem::Descriptor,
    p2::{
        DynInputStream, DynOutputStream, FsResult, InputStream, OutputStream, Pollable, StreamError,
        StreamResult, bindings::filesystem::types::ErrorCode,
    },
};

use super::State;

/// Bytes of one read or write: large enough to be cheap, small enough that a cancelled guest stops soon.
const CHUNK: usize = 64 << 10;

struct Reader {
    file: Arc<File>,
    at: u64,
}

#[wasmtime_wasi::async_trait]
impl Pollable for Reader {
    async fn ready(&mut self) {}
}

#[wasmtime_wasi::async_trait]
impl InputStream for Reader {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size == 0 {
            return Ok(Bytes::new());
        }
        let mut bytes = vec![0; size.min(CHUNK)];
        let n = loop {
            match self.file.read_at(&mut bytes, self.at) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(StreamError::LastOperationFailed(e.into())),
                Ok(0) => return Err(StreamError::Closed),
                Ok(n) => break n,
            }
        };
        bytes.truncate(n);
        self.at += n as u64;
        Ok(bytes.into())
    }
}

struct Writer {
    file: Arc<File>,
    /// Where to write next; none appends.
    at: Option<u64>,
}

impl Writer {
    fn put(&mut self, mut bytes: &[u8]) -> std::io::Result<()> {
        if let Some(at) = &mut self.at {
            self.file.write_all_at(bytes, *at)?;
            *at += bytes.len() as u64;
            return Ok(());
        }
        while !bytes.is_empty() {
            match rustix::io::pwritev2(&*self.file, &[IoSlice::new(bytes)], 0, ReadWriteFlags::APPEND) {
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
                Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
                Ok(n) => bytes = &bytes[n..],
            }
        }
        Ok(())
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Writer {
    async fn ready(&mut self) {}
}

#[wasmtime_wasi::async_trait]
impl OutputStream for Writer {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > CHUNK {
            return Err(StreamError::trap("more bytes were written than `check-write` allowed"));
        }
        self.put(&bytes).map_err(|e| StreamError::LastOperationFailed(e.into()))
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(CHUNK)
    }
}

impl State {
    pub(super) fn read_stream(
        &mut self,
        file: &Resource<Descriptor>,
        at: u64,
    ) -> FsResult<Resource<DynInputStream>> {
        let file = match self.table.get(file)? {
            Descriptor::File(file) => file.file.clone(),
            Descriptor::Dir(_) => return Err(ErrorCode::IsDirectory.into()),
        };
        let stream: DynInputStream = Box::new(Reader { file, at });
        Ok(self.table.push(stream)?)
    }

    pub(super) fn write_stream(
        &mut self,
        file: &Resource<Descriptor>,
        at: Option<u64>,
    ) -> FsResult<Resource<DynOutputStream>> {
        let file = match self.table.get(file)? {
            Descriptor::File(file) if file.perms.write_not_permitted() => {
                return Err(ErrorCode::NotPermitted.into());
            }
            Descriptor::File(file) => file.file.clone(),
            Descriptor::Dir(_) => return Err(ErrorCode::IsDirectory.into()),
        };
        let stream: DynOutputStream = Box::new(Writer { file, at });
        Ok(self.table.push(stream)?)
    }
}
