//! `wasi:filesystem`. Grant: `files`, one folder each, read-only unless `write = true`. Class: read, and unsafe
//! effect for changes. Records: nothing yet, so a run that opens its folders is pinned.
//!
//! Paths stay below their folder: wasmtime-wasi opens with `openat2` beneath it, so neither `..` nor links nor
//! a rename lead out. Over that, only regular files and folders open (a FIFO would hold the thread, a device
//! could do anything), and streams do their work before they return, on the guest's own thread: when an
//! instance has been dropped, none of its file operations is still in flight.

mod grants;
mod streams;

use std::{fs::File, future::Future};

pub use grants::Granted;
use wasmtime::{
    StoreContextMut,
    component::{HasSelf, Linker, Resource},
};
use wasmtime_wasi::{
    FsPerms, OpenMode,
    filesystem::{Descriptor, Dir, WasiFilesystemView},
    p2::{
        FsError, FsResult,
        bindings::filesystem::{
            preopens,
            types::{DescriptorFlags, DescriptorType, ErrorCode, Host, HostDescriptor, OpenFlags, PathFlags},
        },
    },
};

use super::{Abort, State, state::Ended};
use crate::config::FileGrant;

/// The interface as linkers name it.
const TYPES: &str = "wasi:filesystem/types@0.2.12";

/// Adds the interface of preopened folders, and what is our own of the others.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Opened = Result<Resource<Descriptor>, ErrorCode>;
    type Opening<'a> = Box<dyn Future<Output = wasmtime::Result<(Opened,)>> + Send + 'a>;
    type Arguments = (Resource<Descriptor>, PathFlags, String, OpenFlags, DescriptorFlags);
    preopens::add_to_linker::<State, HasSelf<State>>(linker, |s| s)?;
    let mut types = linker.instance(TYPES)?;
    types.func_wrap_async(
        "[method]descriptor.open-at",
        |mut store: StoreContextMut<'_, State>, (at, follow, path, how, flags): Arguments| -> Opening<'_> {
            Box::new(async move {
                let state = store.data_mut();
                let opened = state.open_at(at, follow, path, how, flags).await;
                Ok((state.answer(opened)?,))
            })
        },
    )?;
    types.func_wrap(
        "[method]descriptor.read-via-stream",
        |mut store: StoreContextMut<'_, State>, (file, at): (Resource<Descriptor>, u64)| {
            let state = store.data_mut();
            let stream = state.read_stream(&file, at);
            Ok((state.answer(stream)?,))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.write-via-stream",
        |mut store: StoreContextMut<'_, State>, (file, at): (Resource<Descriptor>, u64)| {
            let state = store.data_mut();
            let stream = state.write_stream(&file, Some(at));
            Ok((state.answer(stream)?,))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.append-via-stream",
        |mut store: StoreContextMut<'_, State>, (file,): (Resource<Descriptor>,)| {
            let state = store.data_mut();
            let stream = state.write_stream(&file, None);
            Ok((state.answer(stream)?,))
        },
    )
}

impl State {
    /// The guest's error, or a trap.
    fn answer<T>(&mut self, result: FsResult<T>) -> wasmtime::Result<Result<T, ErrorCode>> {
        match result {
            Ok(value) => Ok(Ok(value)),
            Err(e) => Ok(Err(self.filesystem().convert_error_code(e)?)),
        }
    }

    async fn open_at(
        &mut self,
        at: Resource<Descriptor>,
        follow: PathFlags,
        path: String,
        how: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Resource<Descriptor>> {
        let rep = at.rep();
        // Opening a FIFO waits for its other end, so look before; what does not exist is `open`'s to judge.
        let found = self.filesystem().stat_at(Resource::new_borrow(rep), follow, path.clone()).await;
        if let Ok(found) = found
            && !matches!(
                found.type_,
                DescriptorType::RegularFile | DescriptorType::Directory | DescriptorType::SymbolicLink
            )
        {
            return Err(ErrorCode::NotPermitted.into());
        }
        let opened = self.filesystem().open_at(at, follow, path, how, flags).await?;
        // And after: the name may have been given to something else in between.
        let rep = opened.rep();
        let kind = self.filesystem().get_type(Resource::new_borrow(rep)).await;
        match kind {
            Ok(DescriptorType::RegularFile | DescriptorType::Directory) => Ok(opened),
            kind => {
                HostDescriptor::drop(&mut self.filesystem(), opened).map_err(FsError::trap)?;
                Err(kind.err().unwrap_or_else(|| ErrorCode::NotPermitted.into()))
            }
        }
    }
}

impl preopens::Host for State {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        self.journal.note("preopens", &[]);
        let granted = self.granted.clone();
        let mut folders = Vec::with_capacity(granted.grants.files.len());
        for grant in &granted.grants.files {
            let folder = open_root(grant)?;
            folders.push((self.table.push(Descriptor::Dir(folder))?, grant.guest.clone()));
        }
        Ok(folders)
    }
}

/// Opens a granted folder. That it cannot be is the host's failure, not the run's.
fn open_root(grant: &FileGrant) -> wasmtime::Result<Dir> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(&grant.host, flags, Mode::empty()).map_err(|e| {
        tracing::error!(host = %grant.host.display(), guest = grant.guest, "a granted folder cannot be opened: {e}");
        Ended(Abort::Host(format!("the folder granted as {:?} cannot be opened: {e}", grant.guest)))
    })?;
    let (perms, mode) = if grant.write {
        (FsPerms::ReadWrite, OpenMode::READ | OpenMode::WRITE)
    } else {
        (FsPerms::ReadOnly, OpenMode::READ)
    };
    Ok(Dir::new(File::from(folder), perms, mode, true))
}
