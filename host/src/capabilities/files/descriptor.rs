//! `wasi:filesystem/types`: each function as [`keep`](super::keep) records it, and the disk's own doing.

use std::future::Future;

use futures::FutureExt as _;
use wasmtime::component::Resource;
use wasmtime_wasi::{
    OpenMode,
    filesystem::Descriptor,
    p2::{
        DynInputStream, DynOutputStream, FsError, FsResult,
        bindings::filesystem::types::{
            Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, DirectoryEntryStream,
            ErrorCode, Filesize, Host, HostDescriptor, HostDirectoryEntryStream, MetadataHashValue,
            NewTimestamp, OpenFlags, PathFlags,
        },
    },
};

use super::{State, record::Outcome, streams::Coded, trap};
use crate::journal::Call;

/// Bytes of one `read`.
const READ: u64 = 1 << 20;

type Fd = Resource<Descriptor>;

/// The rest of a folder's entries.
struct Listing(std::vec::IntoIter<Outcome<DirectoryEntry>>);

/// What wasmtime's function came to: it never waits.
fn now<T>(of: impl Future<Output = FsResult<T>>) -> FsResult<T> {
    of.now_or_never()
        .unwrap_or_else(|| Err(trap(wasmtime::Error::msg("a file operation did not end on its own thread"))))
}

fn flag(flags: PathFlags) -> [u8; 1] {
    [u8::from(flags.contains(PathFlags::SYMLINK_FOLLOW))]
}

impl Host for State {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        Ok(self.table.get(&error)?.downcast_ref::<Coded>().map(|coded| coded.0))
    }
}

impl State {
    fn change_folder(&mut self, call: &'static str, fd: &Fd, path: &str) -> FsResult<super::keep::Op> {
        Ok(self.op(Call::FileLook, call, fd)?.at(path))
    }

    /// Opens, where nothing is made or emptied by it.
    async fn open_there(&mut self, fd: &Fd, opening: &Opening) -> FsResult<Fd> {
        let op = self.op(Call::FileOpen, "open", fd)?.at(&opening.path).with(&opening.bytes()).reads();
        let op = op.writes(opening.flags.contains(DescriptorFlags::WRITE));
        let opened = self.look(&op, |state| opening.on(state, fd)).await?;
        self.holds(op.place(), opened)
    }
}

/// What `open-at` is asked.
struct Opening {
    follow: PathFlags,
    path: String,
    how: OpenFlags,
    flags: DescriptorFlags,
}

impl Opening {
    fn bytes(&self) -> Vec<u8> {
        format!("{:?} {:?} {:?}", self.follow, self.how, self.flags).into_bytes()
    }

    /// The file that it has made or emptied: opened again when it is used.
    fn happened(&self) -> super::record::Opened {
        let (reads, writes) =
            (self.flags.contains(DescriptorFlags::READ), self.flags.contains(DescriptorFlags::WRITE));
        let mode = if reads || !writes { OpenMode::READ | OpenMode::WRITE } else { OpenMode::WRITE };
        super::record::Opened { folder: false, mode, descriptor: None }
    }

    fn on(&self, state: &mut State, fd: &Fd) -> FsResult<super::record::Opened> {
        let at = state.opened(fd)?;
        state.files().disk.open_at(&at, self.follow, &self.path, self.how, self.flags)
    }
}

impl HostDescriptor for State {
    async fn advise(&mut self, fd: Fd, offset: Filesize, len: Filesize, advice: Advice) -> FsResult<()> {
        let op = self.op(Call::FileLook, "advise", &fd)?.once();
        self.look(&op, |state| {
            let of = state.opened(&fd)?;
            state.files().disk.with(&of, |view, of| now(view.advise(of, offset, len, advice)))
        })
        .await
    }

    async fn sync_data(&mut self, fd: Fd) -> FsResult<()> {
        let op = self.op(Call::FileLook, "sync-data", &fd)?.once();
        self.look(&op, |state| {
            let of = state.opened(&fd)?;
            state.files().disk.with(&of, |view, of| now(view.sync_data(of)))
        })
        .await
    }

    async fn sync(&mut self, fd: Fd) -> FsResult<()> {
        let op = self.op(Call::FileLook, "sync", &fd)?.once();
        self.look(&op, |state| {
            let of = state.opened(&fd)?;
            state.files().disk.with(&of, |view, of| now(view.sync(of)))
        })
        .await
    }

    async fn get_flags(&mut self, fd: Fd) -> FsResult<DescriptorFlags> {
        let node = self.node(&fd).map_err(trap)?;
        let has = |mode, flag| if node.mode.contains(mode) { flag } else { DescriptorFlags::empty() };
        let writes = if node.folder { DescriptorFlags::MUTATE_DIRECTORY } else { DescriptorFlags::WRITE };
        Ok(has(OpenMode::READ, DescriptorFlags::READ) | has(OpenMode::WRITE, writes))
    }

    async fn get_type(&mut self, fd: Fd) -> FsResult<DescriptorType> {
        let folder = self.node(&fd).map_err(trap)?.folder;
        Ok(if folder { DescriptorType::Directory } else { DescriptorType::RegularFile })
    }

    async fn set_size(&mut self, fd: Fd, size: Filesize) -> FsResult<()> {
        self.may_write(Some(size), 0)?;
        let op = self.op(Call::FileLook, "set-size", &fd)?.with(&size.to_le_bytes());
        self.change(&op, (), move |state| {
            let of = state.opened(&fd)?;
            state.files().disk.with(&of, |view, of| now(view.set_size(of, size)))
        })
        .await
    }

    async fn set_times(&mut self, fd: Fd, accessed: NewTimestamp, modified: NewTimestamp) -> FsResult<()> {
        let times = format!("{accessed:?} {modified:?}");
        let op = self.op(Call::FileLook, "set-times", &fd)?.with(times.as_bytes());
        self.change(&op, (), move |state| {
            let of = state.opened(&fd)?;
            state.files().disk.with(&of, |view, of| now(view.set_times(of, accessed, modified)))
        })
        .await
    }

    async fn read(&mut self, fd: Fd, len: Filesize, offset: Filesize) -> FsResult<(Vec<u8>, bool)> {
        let bytes = self.read_of(&fd, len.min(READ), offset).await?;
        let end = bytes.is_empty();
        Ok((bytes, end))
    }

    async fn write(&mut self, fd: Fd, bytes: Vec<u8>, offset: Filesize) -> FsResult<Filesize> {
        let len = bytes.len() as u64;
        self.may_write(Some(offset), len)?;
        let op =
            self.op(Call::FileLook, "write", &fd)?.with(&offset.to_le_bytes()).with(&bytes).one_of_many();
        self.change(&op, (), move |state| {
            let to = state.opened(&fd)?;
            state.files().disk.write(&to, &bytes, Some(offset))
        })
        .await?;
        Ok(len)
    }

    async fn read_directory(&mut self, fd: Fd) -> FsResult<Resource<DirectoryEntryStream>> {
        if !self.node(&fd).map_err(trap)?.folder {
            return Err(ErrorCode::NotDirectory.into());
        }
        self.room().map_err(trap)?;
        let op = self.op(Call::FileList, "list", &fd)?;
        let entries = self
            .look(&op, |state| {
                let of = state.opened(&fd)?;
                state.files().disk.entries(&of)
            })
            .await?;
        let stream = self.table.push(Listing(entries.into_iter()))?;
        self.files().listings += 1;
        Ok(Resource::new_own(stream.rep()))
    }

    async fn create_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        let op = self.change_folder("create-directory", &fd, &path)?;
        self.change(&op, (), move |state| {
            let at = state.opened(&fd)?;
            state.files().disk.with(&at, |view, at| now(view.create_directory_at(at, path)))
        })
        .await
    }

    async fn stat(&mut self, fd: Fd) -> FsResult<DescriptorStat> {
        let op = self.op(Call::FileStat, "stat", &fd)?;
        self.look(&op, |state| {
            let of = state.opened(&fd)?;
            state.files().disk.stat(&of)
        })
        .await
    }

    async fn stat_at(&mut self, fd: Fd, follow: PathFlags, path: String) -> FsResult<DescriptorStat> {
        let op = self.op(Call::FileStat, "stat", &fd)?.at(&path).with(&flag(follow)).reads();
        self.look(&op, |state| {
            let at = state.opened(&fd)?;
            state.files().disk.stat_at(&at, follow, &path)
        })
        .await
    }

    async fn set_times_at(
        &mut self,
        fd: Fd,
        follow: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        let times = format!("{accessed:?} {modified:?}");
        let op = self.change_folder("set-times", &fd, &path)?.with(&flag(follow)).with(times.as_bytes());
        self.change(&op, (), move |state| {
            let at = state.opened(&fd)?;
            let files = state.files();
            files.disk.with(&at, |view, at| now(view.set_times_at(at, follow, path, accessed, modified)))
        })
        .await
    }

    async fn link_at(
        &mut self,
        fd: Fd,
        follow: PathFlags,
        old_path: String,
        to: Fd,
        new_path: String,
    ) -> FsResult<()> {
        let folder = self.node(&to).map_err(trap)?.place.clone();
        let op =
            self.change_folder("link", &fd, &old_path)?.with(&flag(follow)).and(to.rep(), &folder, &new_path);
        self.change(&op, (), move |state| {
            let (from, to) = (state.opened(&fd)?, state.opened(&to)?);
            let files = state.files();
            files.disk.with_both(&from, &to, |view, from, to| {
                now(view.link_at(from, follow, old_path, to, new_path))
            })
        })
        .await
    }

    async fn open_at(
        &mut self,
        fd: Fd,
        follow: PathFlags,
        path: String,
        how: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Fd> {
        let opening = Opening { follow, path, how, flags };
        let place = self.node(&fd).map_err(trap)?.place.clone();
        let writable = self.granted.grants.files[place.0].write;
        let makes = how.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE);
        if !writable && (makes || flags.contains(DescriptorFlags::WRITE)) {
            self.deny_change("write", &[(place.0, super::seen::join(&place.1, &opening.path))]);
            return Err(ErrorCode::NotPermitted.into());
        }
        if !makes {
            return self.open_there(&fd, &opening).await;
        }
        let name = if how.contains(OpenFlags::TRUNCATE) { "create or empty" } else { "create" };
        let op = self.op(Call::FileOpen, name, &fd)?.at(&opening.path).with(&opening.bytes());
        let opened = self.change(&op, opening.happened(), move |state| opening.on(state, &fd)).await?;
        self.holds(op.place(), opened)
    }

    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        let rep = fd.rep();
        self.table.delete(Resource::<super::Held>::new_own(rep))?;
        self.files().nodes.remove(&rep);
        Ok(())
    }

    async fn readlink_at(&mut self, fd: Fd, path: String) -> FsResult<String> {
        let op = self.op(Call::FileRead, "read-link", &fd)?.at(&path);
        self.look(&op, |state| {
            let at = state.opened(&fd)?;
            state.files().disk.with(&at, |view, at| now(view.readlink_at(at, path)))
        })
        .await
    }

    async fn remove_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        let op = self.change_folder("remove-directory", &fd, &path)?.removes();
        self.change(&op, (), move |state| {
            let at = state.opened(&fd)?;
            state.files().disk.with(&at, |view, at| now(view.remove_directory_at(at, path)))
        })
        .await
    }

    async fn rename_at(&mut self, fd: Fd, old_path: String, to: Fd, new_path: String) -> FsResult<()> {
        let folder = self.node(&to).map_err(trap)?.place.clone();
        let op = self.change_folder("rename", &fd, &old_path)?.and(to.rep(), &folder, &new_path).moves();
        self.change(&op, (), move |state| {
            let (from, to) = (state.opened(&fd)?, state.opened(&to)?);
            let files = state.files();
            files
                .disk
                .with_both(&from, &to, |view, from, to| now(view.rename_at(from, old_path, to, new_path)))
        })
        .await
    }

    async fn symlink_at(&mut self, fd: Fd, old_path: String, new_path: String) -> FsResult<()> {
        let op = self.change_folder("symlink", &fd, &new_path)?.with(old_path.as_bytes());
        self.change(&op, (), move |state| {
            let at = state.opened(&fd)?;
            state.files().disk.with(&at, |view, at| now(view.symlink_at(at, old_path, new_path)))
        })
        .await
    }

    async fn unlink_file_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        let op = self.change_folder("remove", &fd, &path)?.removes();
        self.change(&op, (), move |state| {
            let at = state.opened(&fd)?;
            state.files().disk.with(&at, |view, at| now(view.unlink_file_at(at, path)))
        })
        .await
    }

    fn read_via_stream(&mut self, fd: Fd, offset: Filesize) -> FsResult<Resource<DynInputStream>> {
        let node = self.node(&fd).map_err(trap)?.clone();
        if node.folder {
            return Err(ErrorCode::IsDirectory.into());
        }
        self.journal.note("read-via-stream", &[&fd.rep().to_le_bytes()[..], &offset.to_le_bytes()].concat());
        self.input(node, offset).map_err(trap)
    }

    fn write_via_stream(&mut self, fd: Fd, offset: Filesize) -> FsResult<Resource<DynOutputStream>> {
        self.journal.note("write-via-stream", &[&fd.rep().to_le_bytes()[..], &offset.to_le_bytes()].concat());
        self.writer(&fd, Some(offset))
    }

    fn append_via_stream(&mut self, fd: Fd) -> FsResult<Resource<DynOutputStream>> {
        self.journal.note("append-via-stream", &fd.rep().to_le_bytes());
        self.writer(&fd, None)
    }

    async fn is_same_object(&mut self, a: Fd, b: Fd) -> wasmtime::Result<bool> {
        let op = self.op(Call::FileLook, "is-same-object", &a).map_err(whole)?;
        let op = op.with(&b.rep().to_le_bytes()).once();
        let same = self
            .look(&op, |state| {
                let (one, two) = (state.opened(&a)?, state.opened(&b)?);
                state.files().disk.with_both(&one, &two, |view, one, two| {
                    now(async { view.is_same_object(one, two).await.map_err(trap) })
                })
            })
            .await;
        match same {
            Ok(same) => Ok(same),
            // What is gone is nothing else's.
            Err(e) => e.downcast().map(|_| a.rep() == b.rep()),
        }
    }

    async fn metadata_hash(&mut self, fd: Fd) -> FsResult<MetadataHashValue> {
        let op = self.op(Call::FileLook, "metadata-hash", &fd)?.once();
        self.look(&op, |state| {
            let of = state.opened(&fd)?;
            state.files().disk.with(&of, |view, of| now(view.metadata_hash(of)))
        })
        .await
    }

    async fn metadata_hash_at(
        &mut self,
        fd: Fd,
        follow: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        let op = self.op(Call::FileLook, "metadata-hash", &fd)?.at(&path);
        let op = op.with(&flag(follow)).once().reads();
        self.look(&op, |state| {
            let at = state.opened(&fd)?;
            state.files().disk.with(&at, |view, at| now(view.metadata_hash_at(at, follow, path)))
        })
        .await
    }
}

/// A call on a descriptor that is not there is a trap, whatever its type says.
fn whole(error: FsError) -> wasmtime::Error {
    error.downcast().map_or_else(|trap| trap, |code| wasmtime::Error::msg(code.message()))
}

impl State {
    /// Reads up to `len` bytes of an open file.
    async fn read_of(&mut self, fd: &Fd, len: u64, offset: u64) -> FsResult<Vec<u8>> {
        let op =
            self.op(Call::FileRead, "read", fd)?.with(&len.to_le_bytes()).with(&offset.to_le_bytes()).reads();
        // It is at most `READ`.
        let len = usize::try_from(len).unwrap_or(0);
        self.look(&op, |state| {
            let of = state.opened(fd)?;
            state.files().disk.read(&of, len, offset)
        })
        .await
    }

    fn writer(&mut self, fd: &Fd, at: Option<u64>) -> FsResult<Resource<DynOutputStream>> {
        let node = self.node(fd).map_err(trap)?.clone();
        if node.folder {
            return Err(ErrorCode::IsDirectory.into());
        }
        if !self.granted.grants.files[node.place.0].write {
            self.deny_change("write", std::slice::from_ref(&node.place));
            return Err(ErrorCode::NotPermitted.into());
        }
        self.output(node, at).map_err(trap)
    }
}

impl HostDirectoryEntryStream for State {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let listing = self.table.get_mut(&Resource::<Listing>::new_borrow(stream.rep()))?;
        listing.0.next().transpose().map_err(FsError::from)
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        self.table.delete(Resource::<Listing>::new_own(stream.rep()))?;
        self.files().listings -= 1;
        Ok(())
    }
}
