//! The folders themselves, as wasmtime's own WASI reaches them: below their root, whatever links and `..` say.
//! Nothing here knows of journals.
//!
//! Its functions do their work on the calling thread before they return, though some are `async` by their type.

use std::{
    fs::File,
    future::Future,
    io::{self, IoSlice},
    os::unix::fs::FileExt as _,
    path::PathBuf,
    sync::Arc,
};

use futures::FutureExt as _;
use rustix::io::ReadWriteFlags;
use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::{
    FsPerms, OpenMode, WasiCtx, WasiCtxView, WasiView,
    filesystem::{Descriptor, Dir, WasiFilesystemCtxView, WasiFilesystemView as _},
    p2::{
        FsError, FsResult,
        bindings::clocks::wall_clock::Datetime,
        bindings::filesystem::types::{
            DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, ErrorCode, HostDescriptor,
            HostDirectoryEntryStream, OpenFlags, PathFlags,
        },
    },
};

use super::{
    record::{Opened, Outcome},
    root,
    seen::{Place, Print},
};
use crate::{
    capabilities::{Abort, state::Ended},
    config::{FileGrant, Limits},
};

/// Names a content.
pub(super) type Hash<'a> = &'a dyn Fn(&[u8]) -> u64;

/// Wasmtime's side of all folders of one run.
pub(super) struct Disk {
    ctx: WasiCtx,
    /// Descriptors while one of its functions has them: what guests hold is in another table.
    table: ResourceTable,
    /// The file that was hashed last, how it looked, and its hash: a large one is read piece by piece.
    hashed: Option<(Place, (u64, u64, u64), u64)>,
    /// What the host itself lives by.
    own: Arc<[PathBuf]>,
}

impl WasiView for Disk {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.ctx, table: &mut self.table }
    }
}

/// What `of` came to: it never waits.
fn now<T>(of: impl Future<Output = FsResult<T>>) -> FsResult<T> {
    let waits = || FsError::trap(wasmtime::Error::msg("a file operation did not end on its own thread"));
    of.now_or_never().unwrap_or_else(|| Err(waits()))
}

impl Disk {
    pub(super) fn new(own: Arc<[PathBuf]>) -> Self {
        let mut ctx = WasiCtx::builder();
        ctx.allow_blocking_current_thread(true);
        Self { ctx: ctx.build(), table: ResourceTable::new(), hashed: None, own }
    }

    /// One of wasmtime's functions on `descriptor`.
    pub(super) fn with<T>(
        &mut self,
        descriptor: &Descriptor,
        f: impl FnOnce(&mut WasiFilesystemCtxView<'_>, Resource<Descriptor>) -> FsResult<T>,
    ) -> FsResult<T> {
        let held = self.table.push(descriptor.clone())?;
        let done = f(&mut self.filesystem(), Resource::new_borrow(held.rep()));
        self.table.delete(held)?;
        done
    }

    /// The same for two.
    pub(super) fn with_both<T>(
        &mut self,
        one: &Descriptor,
        two: &Descriptor,
        f: impl FnOnce(&mut WasiFilesystemCtxView<'_>, Resource<Descriptor>, Resource<Descriptor>) -> FsResult<T>,
    ) -> FsResult<T> {
        let held = self.table.push(two.clone())?;
        let borrowed = Resource::new_borrow(held.rep());
        let done = self.with(one, |view, one| f(view, one, borrowed));
        self.table.delete(held)?;
        done
    }

    pub(super) fn stat(&mut self, of: &Descriptor) -> FsResult<DescriptorStat> {
        self.with(of, |view, of| now(view.stat(of)))
    }

    pub(super) fn stat_at(
        &mut self,
        at: &Descriptor,
        follow: PathFlags,
        path: &str,
    ) -> FsResult<DescriptorStat> {
        self.with(at, |view, at| now(view.stat_at(at, follow, path.to_owned())))
    }

    /// Opens regular files and folders only.
    pub(super) fn open_at(
        &mut self,
        at: &Descriptor,
        follow: PathFlags,
        path: &str,
        how: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Opened> {
        // Opening a FIFO waits for its other end, so look before; what does not exist is `open`'s to judge.
        if let Ok(found) = self.stat_at(at, follow, path) {
            let (file, folder, link) =
                (DescriptorType::RegularFile, DescriptorType::Directory, DescriptorType::SymbolicLink);
            if ![file, folder, link].contains(&found.type_) {
                return Err(ErrorCode::NotPermitted.into());
            }
            // What is emptied when it is opened cannot be looked at afterwards.
            if found.type_ == file && found.link_count > 1 && how.contains(OpenFlags::TRUNCATE) {
                self.open_at(at, follow, path, OpenFlags::empty(), DescriptorFlags::READ)?;
            }
        }
        let held = self.with(at, |view, at| now(view.open_at(at, follow, path.to_owned(), how, flags)))?;
        let descriptor = self.table.delete(held)?;
        // And after: the name may have been given to something else in between.
        match self.with(&descriptor, |view, opened| now(view.get_type(opened)))? {
            DescriptorType::RegularFile | DescriptorType::Directory => {}
            _ => return Err(ErrorCode::NotPermitted.into()),
        }
        let reached = match &descriptor {
            Descriptor::Dir(folder) => root::is_kernels(&*folder.dir),
            Descriptor::File(file) => root::is_kernels(&*file.file) || root::is_own(&*file.file, &self.own),
        };
        if reached {
            return Err(ErrorCode::NotPermitted.into());
        }
        let (folder, mode) = match &descriptor {
            Descriptor::Dir(folder) => (true, folder.open_mode),
            Descriptor::File(file) => (false, file.open_mode),
        };
        Ok(Opened { folder, mode, descriptor: Some(descriptor) })
    }

    /// Opens a granted folder. That it cannot be is the host's failure, not the run's.
    pub(super) fn open_root(&self, grant: &FileGrant) -> wasmtime::Result<Dir> {
        let folder = root::open(&grant.host, &self.own).map_err(|why| {
            tracing::error!(host = %grant.host.display(), guest = grant.guest, "a granted folder cannot be opened: {why}");
            Ended(Abort::Host(format!("the folder granted as {:?} cannot be opened: {why}", grant.guest)))
        })?;
        Ok(Dir::new(File::from(folder), perms(grant), mode(grant), true))
    }

    /// Opens again what was opened as `mode` before: creates, empties and grants nothing.
    pub(super) fn reopen(
        &mut self,
        root: &Dir,
        path: &str,
        folder: bool,
        mode: OpenMode,
    ) -> FsResult<Descriptor> {
        let root = Descriptor::Dir(root.clone());
        if path.is_empty() {
            return Ok(root);
        }
        let writes = !folder && mode.contains(OpenMode::WRITE);
        let flags =
            if writes { DescriptorFlags::READ | DescriptorFlags::WRITE } else { DescriptorFlags::READ };
        let how = if folder { OpenFlags::DIRECTORY } else { OpenFlags::empty() };
        let opened = self.open_at(&root, PathFlags::SYMLINK_FOLLOW, path, how, flags)?;
        match opened.descriptor {
            Some(Descriptor::File(mut file)) if !folder => {
                file.open_mode = mode;
                Ok(Descriptor::File(file))
            }
            Some(Descriptor::Dir(mut dir)) if folder => {
                dir.open_mode = mode;
                Ok(Descriptor::Dir(dir))
            }
            _ => Err(ErrorCode::NoEntry.into()),
        }
    }

    /// All entries, by name: a folder's own order is another on another disk.
    pub(super) fn entries(&mut self, folder: &Descriptor) -> FsResult<Vec<Outcome<DirectoryEntry>>> {
        let stream = self.with(folder, |view, folder| now(view.read_directory(folder)))?;
        let mut entries = Vec::new();
        let ended = loop {
            let stream = Resource::new_borrow(stream.rep());
            match now(self.filesystem().read_directory_entry(stream)) {
                Ok(Some(entry)) => entries.push(Ok(entry)),
                Ok(None) => break Ok(()),
                Err(e) => match e.downcast() {
                    Ok(code) => entries.push(Err(code)),
                    Err(e) => break Err(FsError::trap(e)),
                },
            }
        };
        self.table.delete(stream)?;
        ended?;
        let name = |entry: &Outcome<DirectoryEntry>| entry.as_ref().ok().map(|entry| entry.name.clone());
        // What has no name comes last.
        entries.sort_by_key(|entry| (entry.is_err(), name(entry)));
        Ok(entries)
    }

    /// Up to `len` bytes from `at` on; fewer only at the end.
    pub(super) fn read(&self, of: &Descriptor, len: usize, at: u64) -> FsResult<Vec<u8>> {
        let file = file(of)?;
        let mut bytes = vec![0; len];
        let mut done = 0;
        while done < len {
            match file.read_at(&mut bytes[done..], at.saturating_add(done as u64)) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
                Ok(0) => break,
                Ok(n) => done += n,
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    /// Writes all of `bytes`; without a place, at the end.
    pub(super) fn write(&self, to: &Descriptor, mut bytes: &[u8], at: Option<u64>) -> FsResult<()> {
        let file = file(to)?;
        if let Some(at) = at {
            return Ok(file.write_all_at(bytes, at)?);
        }
        while !bytes.is_empty() {
            match rustix::io::pwritev2(file, &[IoSlice::new(bytes)], 0, ReadWriteFlags::APPEND) {
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(io::Error::from(e).into()),
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(n) => bytes = &bytes[n..],
            }
        }
        Ok(())
    }

    /// What `place` looks like now; `hash` names contents.
    pub(super) fn print(&mut self, root: &Dir, place: &Place, hash: Option<Hash<'_>>) -> FsResult<Print> {
        let root = Descriptor::Dir(root.clone());
        let found = if place.1.is_empty() {
            self.stat(&root)
        } else {
            self.stat_at(&root, PathFlags::SYMLINK_FOLLOW, &place.1)
        };
        let stat = match found {
            Ok(stat) => stat,
            Err(e) => return e.downcast().map(|_| Print::Absent).map_err(FsError::trap),
        };
        let content = match hash {
            Some(hash) if stat.type_ == DescriptorType::RegularFile => {
                self.content(&root, place, &stat, hash)?
            }
            _ => None,
        };
        Ok(print(&stat).with(content))
    }

    /// A hash of the content of what looks like `stat`; none where that is too large or cannot be read.
    fn content(
        &mut self,
        root: &Descriptor,
        place: &Place,
        stat: &DescriptorStat,
        hash: Hash<'_>,
    ) -> FsResult<Option<u64>> {
        if stat.size > Limits::COMPARED.0 {
            return Ok(None);
        }
        let looks = (stat.size, nanos(stat.data_modification_timestamp), nanos(stat.status_change_timestamp));
        if let Some((_, _, known)) = self.hashed.as_ref().filter(|(at, was, _)| at == place && *was == looks)
        {
            return Ok(Some(*known));
        }
        let flags = (OpenFlags::empty(), DescriptorFlags::READ);
        let read =
            self.open_at(root, PathFlags::SYMLINK_FOLLOW, &place.1, flags.0, flags.1).and_then(|opened| {
                let opened = opened.descriptor.ok_or(ErrorCode::NoEntry)?;
                self.read(&opened, Limits::COMPARED.as_usize().saturating_add(1), 0)
            });
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(e) => return e.downcast().map(|_| None).map_err(FsError::trap),
        };
        // Else it changes just now.
        let whole = bytes.len() as u64 == stat.size;
        let content = whole.then(|| hash(&bytes));
        self.hashed = content.map(|content| (place.clone(), looks, content));
        Ok(content)
    }

    /// What was hashed may be something else by now.
    pub(super) fn forget(&mut self) {
        self.hashed = None;
    }
}

fn nanos(at: Option<Datetime>) -> u64 {
    at.map_or(0, |at| at.seconds.saturating_mul(1_000_000_000).saturating_add(at.nanoseconds.into()))
}

/// What a path with this `stat` looks like.
fn print(stat: &DescriptorStat) -> Print {
    let modified = nanos(stat.data_modification_timestamp);
    Print::There { kind: stat.type_ as u8, size: stat.size, modified, content: None }
}

fn file(of: &Descriptor) -> Result<&File, ErrorCode> {
    match of {
        Descriptor::File(file) => Ok(&file.file),
        Descriptor::Dir(_) => Err(ErrorCode::BadDescriptor),
    }
}

fn perms(grant: &FileGrant) -> FsPerms {
    if grant.write { FsPerms::ReadWrite } else { FsPerms::ReadOnly }
}

/// How the folder of a grant is opened.
pub(super) fn mode(grant: &FileGrant) -> OpenMode {
    if grant.write { OpenMode::READ | OpenMode::WRITE } else { OpenMode::READ }
}
