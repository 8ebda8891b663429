//! `wasi:filesystem`, and streams over files. Grant: `files`, one folder each, read-only unless `write = true`.
//!
//! | calls | class | records |
//! |---|---|---|
//! | preopens, `get-flags`, `get-type`, making a stream | derived | the trail |
//! | reading, opening, listing, looking in a folder that is only read | read | a mark of the answer, whole if it is short |
//! | the same where the folder may be written | read | the whole answer |
//! | identities, `sync`, `advise` | read | the whole answer |
//! | every change | unsafe effect | the request's hash before it, the answer after it, by the change's number |
//!
//! In a replay, a folder that is only read is read again and compared: content that differs ends the run, because what
//! the guest has seen is not kept. A folder that may be written is not touched: it has changed since, perhaps by this
//! very run. What was open is opened again when the guest first uses it live.
//!
//! Paths stay below their folder: wasmtime-wasi opens with `openat2` beneath it, so neither `..` nor links nor
//! a rename lead out. Over that, only regular files and folders open (a FIFO would hold the thread, a device
//! could do anything), and all work is done before a call returns, on the guest's own thread: when an
//! instance has been dropped, none of its file operations is still in flight.

mod descriptor;
mod disk;
mod grants;
mod keep;
mod mounts;
mod record;
mod root;
mod seen;
mod streams;

use std::collections::BTreeMap;

pub use grants::Granted;
pub use root::{is_secret, is_written};
use wasmtime::component::{HasSelf, Linker, Resource};
use wasmtime_wasi::{
    OpenMode,
    filesystem::{Descriptor, Dir},
    p2::{
        FsResult,
        bindings::filesystem::{
            preopens,
            types::{self, ErrorCode},
        },
    },
};

use self::{
    disk::Disk,
    seen::{Place, Seen},
    streams::Stream,
};
use super::{Abort, State, state::Ended};
use crate::journal::Call;

/// Adds the interfaces.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    preopens::add_to_linker::<State, HasSelf<State>>(linker, |s| s)?;
    types::add_to_linker::<State, HasSelf<State>>(linker, |s| s)?;
    streams::link(linker)
}

/// A recorded answer of a folder, for people; none where `call` asks no folder.
pub(super) fn describe(call: Call, bytes: &[u8]) -> Option<String> {
    call.is_of_files().then(|| record::describe(bytes))
}

/// The recorded end of a change, for people.
pub fn describe_change(bytes: &[u8]) -> String {
    record::describe(bytes)
}

/// What one run has of its folders.
pub(super) struct Files {
    disk: Disk,
    /// The granted folders, opened when they are first used.
    roots: Vec<Option<Dir>>,
    /// What the guest holds, by its place in the table.
    nodes: BTreeMap<u32, Node>,
    streams: BTreeMap<u32, Stream>,
    /// Listings of folders that the guest holds.
    listings: usize,
    seen: Seen,
    /// Changes so far.
    changes: u32,
    /// Bytes that the guest wanted to write so far.
    written: u64,
    /// Counts the stretches between two waits; 0 is what was replayed.
    stretch: u64,
}

/// A file or folder that the guest has open.
#[derive(Clone)]
struct Node {
    place: Place,
    folder: bool,
    mode: OpenMode,
    /// None until it is first used by this instance.
    open: Option<Descriptor>,
    /// This run has removed it since it was opened: nothing leads to it any more.
    gone: bool,
}

/// Takes a place in the guest's table: the rest is in [`Files`].
struct Held;

impl State {
    fn files(&mut self) -> &mut Files {
        let (grants, own) = (self.granted.grants.files.len(), self.granted.own());
        self.files.get_or_insert_with(|| {
            Box::new(Files {
                disk: Disk::new(own),
                roots: vec![None; grants],
                nodes: BTreeMap::new(),
                streams: BTreeMap::new(),
                listings: 0,
                seen: Seen::default(),
                changes: 0,
                written: 0,
                stretch: 1,
            })
        })
    }

    /// Counts `len` bytes that are to be written, `at` a place where there is one.
    fn may_write(&mut self, at: Option<u64>, len: u64) -> FsResult<()> {
        let most = self.limits.file_bytes;
        let files = self.files();
        files.written = files.written.saturating_add(len);
        let end = at.unwrap_or(0).saturating_add(len);
        if files.written <= most.0 && end <= most.0 {
            return Ok(());
        }
        self.deny(&format!("writing more than limits.file-bytes = {most}"));
        Err(ErrorCode::Quota.into())
    }

    /// The guest has waited: others may have changed what it had read.
    pub(super) fn waited(&mut self) {
        if let Some(files) = &mut self.files {
            files.stretch += 1;
            files.disk.forget();
        }
    }

    /// Room for one more of what a guest may have open.
    fn room(&mut self) -> wasmtime::Result<()> {
        let most = self.limits.open_files;
        let files = self.files();
        let held = |files: &Files| files.nodes.len() + files.listings + files.streams.len();
        if held(files) >= most as usize {
            files.streams.retain(|_, stream| stream.is_alive());
        }
        if held(files) < most as usize {
            return Ok(());
        }
        let limit = Abort::Limit {
            name: "open-files",
            value: most.to_string(),
            advice: "The plugin should close files and folders that it needs no more.".into(),
        };
        Err(Ended(limit).into())
    }

    /// Gives the guest `node`.
    fn hold(&mut self, node: Node) -> wasmtime::Result<Resource<Descriptor>> {
        self.room()?;
        let rep = self.table.push(Held)?.rep();
        self.files().nodes.insert(rep, node);
        Ok(Resource::new_own(rep))
    }

    fn node(&mut self, descriptor: &Resource<Descriptor>) -> wasmtime::Result<&mut Node> {
        let node = self.files().nodes.get_mut(&descriptor.rep());
        node.ok_or_else(|| wasmtime::Error::msg("no such descriptor"))
    }

    /// The folder of a grant.
    fn root(&mut self, grant: usize) -> wasmtime::Result<Dir> {
        if let Some(root) = &self.files().roots[grant] {
            return Ok(root.clone());
        }
        let granted = self.granted.clone();
        let root = self.files().disk.open_root(&granted.grants.files[grant])?;
        self.files().roots[grant] = Some(root.clone());
        Ok(root)
    }

    /// What stands behind `descriptor`, opened again where that was in another instance.
    fn opened(&mut self, descriptor: &Resource<Descriptor>) -> FsResult<Descriptor> {
        let mut node = self.node(descriptor).map_err(trap)?.clone();
        let opened = self.reach(&mut node)?;
        self.node(descriptor).map_err(trap)?.open = node.open;
        Ok(opened)
    }

    fn reach(&mut self, node: &mut Node) -> FsResult<Descriptor> {
        if let Some(open) = &node.open {
            return Ok(open.clone());
        }
        if node.gone {
            let path = self.guest_path(&node.place);
            self.warn(&format!(
                "{path} was removed while it was open, and this run goes on in another instance: it is gone"
            ));
            return Err(ErrorCode::NoEntry.into());
        }
        let root = self.root(node.place.0).map_err(trap)?;
        let opened = self.files().disk.reopen(&root, &node.place.1, node.folder, node.mode)?;
        node.open = Some(opened.clone());
        Ok(opened)
    }

    /// A path as the guest would give it.
    fn guest_path(&self, (grant, path): &Place) -> String {
        let folder = self.granted.grants.files[*grant].guest.trim_end_matches('/');
        if path.is_empty() && !folder.is_empty() { folder.to_owned() } else { format!("{folder}/{path}") }
    }
}

/// The run ends with `error`.
fn trap(error: impl Into<wasmtime::Error>) -> wasmtime_wasi::p2::FsError {
    wasmtime_wasi::p2::FsError::trap(error)
}

impl preopens::Host for State {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        self.journal.note("preopens", &[]);
        let granted = self.granted.clone();
        let mut folders = Vec::with_capacity(granted.grants.files.len());
        for (n, grant) in granted.grants.files.iter().enumerate() {
            let node = Node {
                place: (n, String::new()),
                folder: true,
                mode: disk::mode(grant),
                open: None,
                gone: false,
            };
            folders.push((self.hold(node)?, grant.guest.clone()));
        }
        Ok(folders)
    }
}

#[cfg(test)]
mod tests;
