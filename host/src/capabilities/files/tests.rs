#![allow(clippy::unwrap_used, clippy::expect_used)]
//! Calls on a granted folder, one after another: recorded, cut off anywhere, and gone on with from the journal.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;
use wasmtime::component::Resource;
use wasmtime_wasi::{
    filesystem::Descriptor,
    p2::{
        DynInputStream, DynOutputStream, FsResult, StreamError, StreamResult,
        bindings::filesystem::{
            preopens::Host as _,
            types::{DescriptorFlags, DescriptorType, ErrorCode, HostDescriptor, OpenFlags, PathFlags},
        },
    },
};

use super::{State, streams::Coded};
use crate::{
    base::Piece,
    capabilities::{Asked, Audience, Began, Caller, Granted, Setup, Stopping, wit_call},
    config::{FileGrant, Grants, Limits},
    journal::{Header, Journal, Kept, Start},
    store::{Answer, QuestionKind},
};

const KEY: [u8; 16] = *b"0123456789abcdef";
const NAMES: [&str; 6] = ["a", "b", "d", "d/a", "d/b", "e"];
const FOLLOW: PathFlags = PathFlags::SYMLINK_FOLLOW;

type Fd = Resource<Descriptor>;

#[derive(Clone, Debug)]
enum Step {
    Open {
        name: usize,
        how: usize,
        write: bool,
    },
    Close(usize),
    Read(usize, u64, u64),
    Write(usize, u64, usize),
    Resize(usize, u64),
    /// By streams that are kept.
    ReadOn(usize, u64),
    WriteOn(usize, usize),
    Append(usize, usize),
    Stat(usize),
    StatOf(usize),
    List,
    Rename(usize, usize),
    Remove(usize),
    MakeFolder(usize),
    RemoveFolder(usize),
    Wait,
}

fn hows() -> [OpenFlags; 6] {
    let create = OpenFlags::CREATE;
    let (exclusive, truncate) = (create | OpenFlags::EXCLUSIVE, create | OpenFlags::TRUNCATE);
    [OpenFlags::empty(), create, exclusive, truncate, OpenFlags::TRUNCATE, OpenFlags::DIRECTORY]
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    let fd = || 0_usize..4;
    prop_oneof![
        6 => (name(), 0..hows().len(), prop::bool::weighted(0.8))
            .prop_map(|(name, how, write)| Step::Open { name, how, write }),
        1 => fd().prop_map(Step::Close),
        2 => (fd(), 0_u64..9, 0_u64..9).prop_map(|(fd, at, len)| Step::Read(fd, at, len)),
        2 => (fd(), 0_u64..9, 0_usize..9).prop_map(|(fd, at, len)| Step::Write(fd, at, len)),
        1 => (fd(), 0_u64..9).prop_map(|(fd, size)| Step::Resize(fd, size)),
        2 => (fd(), 0_u64..5).prop_map(|(fd, len)| Step::ReadOn(fd, len)),
        2 => (fd(), 0_usize..5).prop_map(|(fd, len)| Step::WriteOn(fd, len)),
        2 => (fd(), 0_usize..5).prop_map(|(fd, len)| Step::Append(fd, len)),
        2 => name().prop_map(Step::Stat),
        1 => fd().prop_map(Step::StatOf),
        1 => Just(Step::List),
        3 => (name(), name()).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => name().prop_map(Step::Remove),
        2 => name().prop_map(Step::MakeFolder),
        1 => name().prop_map(Step::RemoveFolder),
        2 => Just(Step::Wait),
    ]
}

/// Where a run is cut off.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cut {
    /// Between two steps.
    Before(usize),
    /// The start of this change is committed, and nothing is done.
    Begun(usize),
    /// It is done, and its end is not committed.
    Done(usize),
}

/// The host's side: what is committed, and the word of whoever is asked about an unknown outcome.
struct Side {
    granted: Arc<Granted>,
    journal: Journal,
    pieces: Mutex<Vec<Piece>>,
    /// Commits so far: each is the start of a change, or the end of one that is no write.
    commits: AtomicUsize,
    stops_at: Option<Cut>,
    /// What is committed where it is cut off.
    left: Mutex<Option<Vec<Piece>>>,
    choice: Mutex<&'static str>,
    asked: AtomicUsize,
    warned: Mutex<Vec<String>>,
}

impl Side {
    fn kept(&self) -> Vec<Piece> {
        let mut pieces = self.pieces.lock().unwrap();
        pieces.extend(self.journal.take());
        pieces.clone()
    }
}

impl Caller for Side {
    fn progress(&self, _: f64, _: Option<f64>, _: Option<String>) {}
    fn cancelled(&self) -> bool {
        false
    }
    fn supports(&self, _: QuestionKind) -> bool {
        true
    }
    fn request_input(
        &self,
        _: Vec<Asked>,
        _: bool,
    ) -> BoxFuture<'_, Result<Vec<Answer>, wit_call::InputError>> {
        Box::pin(std::future::ready(Err(wit_call::InputError::Unsupported)))
    }
    fn ask_for_host(&self, _: Asked) -> BoxFuture<'_, Result<Answer, wit_call::InputError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let answer = Answer::Accepted(json!({ "choice": *self.choice.lock().unwrap() }));
        Box::pin(std::future::ready(Ok(answer)))
    }
    fn sleeps(&self, _: Duration) {}
    fn woke(&self) {}
    fn commit(&self) -> BoxFuture<'_, Result<(), Stopping>> {
        let kept = self.kept();
        let n = self.commits.fetch_add(1, Ordering::Relaxed);
        if let Some(Cut::Begun(at) | Cut::Done(at)) = self.stops_at
            && at == n
        {
            *self.left.lock().unwrap() = Some(kept);
        }
        if self.stops_at == Some(Cut::Begun(n)) {
            return Box::pin(std::future::pending());
        }
        Box::pin(std::future::ready(Ok(())))
    }
    fn granted(&self) -> Option<Arc<Granted>> {
        Some(self.granted.clone())
    }
    fn changed(&self, _: wit_call::Change) {}
    fn log(&self, _: Audience, _: wit_call::LogLevel, text: &str) {
        self.warned.lock().unwrap().push(text.to_owned());
    }
}

fn header() -> Header {
    Header {
        digest: [3; 32],
        semantics: 1,
        code: 2,
        seed: [4; 32],
        start: Start::default(),
        tool: "tool".into(),
        arguments: "{}".into(),
        client: 0,
        policy: "{}".into(),
    }
}

/// What a guest has open.
struct Held {
    fd: Fd,
    input: Option<Resource<DynInputStream>>,
    output: Option<Resource<DynOutputStream>>,
}

/// One instance that uses a folder.
struct Player {
    state: State,
    side: Arc<Side>,
    root: Fd,
    held: Vec<Held>,
}

fn borrowed<T: 'static>(of: &Resource<T>) -> Resource<T> {
    Resource::new_borrow(of.rep())
}

fn error(code: ErrorCode) -> String {
    format!("error: {}", code.message())
}

/// What a guest is told.
fn said<T: std::fmt::Debug>(of: FsResult<T>) -> String {
    match of {
        Ok(value) => format!("{value:?}"),
        Err(e) => error(e.downcast().expect("no trap")),
    }
}

fn streamed<T: std::fmt::Debug>(of: StreamResult<T>) -> String {
    match of {
        Ok(value) => format!("{value:?}"),
        Err(StreamError::LastOperationFailed(e)) => {
            error(e.downcast_ref::<Coded>().expect("a file's error").0)
        }
        Err(e) => format!("{e:?}"),
    }
}

impl Player {
    /// A run on `folder` that begins, or goes on with what was `kept`.
    fn new(folder: &Path, write: bool, kept: Option<Vec<Piece>>, stops_at: Option<Cut>) -> Self {
        let files = vec![FileGrant { host: folder.into(), guest: "/files".into(), write }];
        let granted = Granted::of(&Grants { files, ..Grants::default() }).unwrap();
        let (journal, pieces) = match kept {
            Some(pieces) => {
                let kept = Kept::open(&pieces).unwrap();
                (Journal::replay(KEY, usize::MAX, kept, true), pieces)
            }
            None => {
                let journal = Journal::record(KEY, usize::MAX);
                let head = journal.head(header).unwrap();
                (journal, vec![head])
            }
        };
        let side = Arc::new(Side {
            granted: granted.clone(),
            journal: journal.clone(),
            pieces: Mutex::new(pieces),
            commits: AtomicUsize::new(0),
            stops_at,
            left: Mutex::default(),
            choice: Mutex::new("stop"),
            asked: AtomicUsize::new(0),
            warned: Mutex::default(),
        });
        let mut state = State::new(Setup {
            limits: Limits::default(),
            grants: granted,
            caller: side.clone(),
            seed: [4; 32],
            journal,
            began: Began::now(),
            flights: crate::capabilities::Flights::default(),
            fuel_slice: 1_000_000,
            meter: Arc::default(),
        });
        let root = state.get_directories().unwrap().remove(0).0;
        Self { state, side, root, held: Vec::new() }
    }

    /// What it came to; none where it was cut off in it.
    fn play(&mut self, step: &Step) -> Option<String> {
        self.step(step).now_or_never()
    }

    /// The descriptor that a step means; none where nothing is open.
    fn fd(&self, n: usize) -> Option<usize> {
        (!self.held.is_empty()).then(|| n % self.held.len())
    }

    /// True where the step uses what this run has removed since it was opened.
    fn is_gone(&mut self, step: &Step) -> bool {
        let (Step::Read(n, ..)
        | Step::Write(n, ..)
        | Step::Resize(n, _)
        | Step::ReadOn(n, _)
        | Step::WriteOn(n, _)
        | Step::Append(n, _)
        | Step::StatOf(n)) = step
        else {
            return false;
        };
        let Some(n) = self.fd(*n) else { return false };
        let fd = borrowed(&self.held[n].fd);
        self.state.node(&fd).unwrap().gone
    }

    async fn step(&mut self, step: &Step) -> String {
        let root = borrowed(&self.root);
        let name = |n: &usize| NAMES[*n].to_owned();
        match step {
            Step::Wait => {
                self.state.waited();
                String::new()
            }
            Step::Open { name: n, how, write } => {
                let writes = if *write { DescriptorFlags::WRITE } else { DescriptorFlags::empty() };
                let flags = DescriptorFlags::READ | writes;
                let opened = self.state.open_at(root, FOLLOW, name(n), hows()[*how], flags).await;
                said(opened.map(|fd| self.held.push(Held { fd, input: None, output: None })))
            }
            Step::Stat(n) => {
                said(self.state.stat_at(root, FOLLOW, name(n)).await.map(|stat| known(stat.type_, stat.size)))
            }
            Step::List => said(self.list(root).await),
            Step::Rename(from, to) => {
                let to_root = borrowed(&self.root);
                said(self.state.rename_at(root, name(from), to_root, name(to)).await)
            }
            Step::Remove(n) => said(self.state.unlink_file_at(root, name(n)).await),
            Step::MakeFolder(n) => said(self.state.create_directory_at(root, name(n)).await),
            Step::RemoveFolder(n) => said(self.state.remove_directory_at(root, name(n)).await),
            Step::Close(n) => {
                let Some(n) = self.fd(*n) else { return String::new() };
                let Held { fd, input, output } = self.held.remove(n);
                input.map(|stream| self.state.table.delete(stream).unwrap());
                output.map(|stream| self.state.table.delete(stream).unwrap());
                HostDescriptor::drop(&mut self.state, Resource::new_own(fd.rep())).unwrap();
                String::new()
            }
            _ => self.use_open(step).await,
        }
    }

    async fn list(&mut self, root: Fd) -> FsResult<Vec<String>> {
        use wasmtime_wasi::p2::bindings::filesystem::types::HostDirectoryEntryStream as _;
        let stream = self.state.read_directory(root).await?;
        let mut names = Vec::new();
        while let Some(entry) = self.state.read_directory_entry(borrowed(&stream)).await? {
            names.push(entry.name);
        }
        wasmtime_wasi::p2::bindings::filesystem::types::HostDirectoryEntryStream::drop(
            &mut self.state,
            stream,
        )
        .unwrap();
        Ok(names)
    }

    /// A step on something that is open.
    async fn use_open(&mut self, step: &Step) -> String {
        let (Step::Read(n, ..)
        | Step::Write(n, ..)
        | Step::Resize(n, _)
        | Step::ReadOn(n, _)
        | Step::WriteOn(n, _)
        | Step::Append(n, _)
        | Step::StatOf(n)) = step
        else {
            return String::new();
        };
        let Some(n) = self.fd(*n) else { return String::new() };
        let fd = borrowed(&self.held[n].fd);
        let text = |len: usize| vec![b'a' + (len as u8); len];
        match step {
            Step::Read(_, at, len) => said(self.state.read(fd, *len, *at).await),
            Step::Write(_, at, len) => said(self.state.write(fd, text(*len), *at).await),
            Step::Resize(_, size) => said(self.state.set_size(fd, *size).await),
            Step::StatOf(_) => said(self.state.stat(fd).await.map(|stat| known(stat.type_, stat.size))),
            Step::ReadOn(_, len) => {
                if self.held[n].input.is_none() {
                    match self.state.read_via_stream(fd, 0) {
                        Ok(stream) => self.held[n].input = Some(stream),
                        Err(e) => return said::<()>(Err(e)),
                    }
                }
                let stream = borrowed(self.held[n].input.as_ref().unwrap());
                streamed(self.state.read_stream(&stream, *len, true).await)
            }
            Step::WriteOn(_, len) => {
                if self.held[n].output.is_none() {
                    match self.state.write_via_stream(fd, 1) {
                        Ok(stream) => self.held[n].output = Some(stream),
                        Err(e) => return said::<()>(Err(e)),
                    }
                }
                let stream = borrowed(self.held[n].output.as_ref().unwrap());
                streamed(self.state.write_stream(&stream, text(*len), true).await)
            }
            Step::Append(_, len) => match self.state.append_via_stream(fd) {
                Ok(stream) => {
                    let done = streamed(self.state.write_stream(&stream, text(*len), true).await);
                    self.state.table.delete(stream).unwrap();
                    done
                }
                Err(e) => said::<()>(Err(e)),
            },
            _ => String::new(),
        }
    }
}

/// What a guest may go by, on any disk.
fn known(kind: DescriptorType, size: u64) -> (DescriptorType, u64) {
    (kind, if kind == DescriptorType::RegularFile { size } else { 0 })
}

/// All that is below a folder; folders have no content.
fn tree(folder: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            let below = tree(&entry.path());
            found.extend(below.into_iter().map(|(path, content)| (format!("{name}/{path}"), content)));
            found.insert(name, None);
        } else {
            found.insert(name, Some(fs::read(entry.path()).unwrap()));
        }
    }
    found
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "first text").unwrap();
    fs::create_dir(folder.path().join("d")).unwrap();
    fs::write(folder.path().join("d/b"), "second").unwrap();
    folder
}

/// A run that nobody disturbs.
struct Whole {
    said: Vec<String>,
    /// Steps on what was removed while it was open.
    gone: Vec<bool>,
    /// The step of each commit.
    commits: Vec<usize>,
    tree: BTreeMap<String, Option<Vec<u8>>>,
}

impl Whole {
    fn of(steps: &[Step], write: bool) -> Self {
        let folder = folder();
        let mut player = Player::new(folder.path(), write, None, None);
        let (mut said, mut gone, mut commits) = (Vec::new(), Vec::new(), Vec::new());
        for (n, step) in steps.iter().enumerate() {
            gone.push(player.is_gone(step));
            said.push(player.play(step).unwrap());
            commits.resize(player.side.commits.load(Ordering::Relaxed), n);
        }
        Self { said, gone, commits, tree: tree(folder.path()) }
    }
}

/// Plays `steps` until `cut`, and goes on in another instance: what that one sees, and what is left.
fn goes_on(steps: &[Step], write: bool, cut: Cut, whole: &Whole) {
    let folder = folder();
    let mut player = Player::new(folder.path(), write, None, Some(cut));
    let last = match cut {
        Cut::Before(step) => step,
        Cut::Begun(commit) | Cut::Done(commit) => whole.commits[commit] + 1,
    };
    for step in &steps[..last] {
        player.play(step);
    }
    let kept = player.side.left.lock().unwrap().take().unwrap_or_else(|| player.side.kept());
    drop(player);
    let left = tree(folder.path());
    let mut player = Player::new(folder.path(), write, Some(kept), None);
    for (n, step) in steps.iter().enumerate() {
        // A change that was not made has not happened: it is the same once more.
        let happened = matches!(cut, Cut::Done(_)) && !whole.said[n].starts_with("error: ");
        *player.side.choice.lock().unwrap() = if happened { "it happened" } else { "retry" };
        let said = player.play(step).unwrap();
        let lost = whole.gone[n] && said == error(ErrorCode::NoEntry);
        assert!(said == whole.said[n] || lost, "step {n}, {step:?}: {said}, not {}", whole.said[n]);
        if n + 1 < last || cut == Cut::Before(n + 1) {
            assert_eq!(tree(folder.path()), left, "step {n}, {step:?}, was done again");
        }
    }
    assert!(player.state.journal.is_live());
    assert_eq!(tree(folder.path()), whole.tree);
    let asked = player.side.asked.load(Ordering::Relaxed);
    assert!(asked <= usize::from(!matches!(cut, Cut::Before(_))), "asked {asked} times");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_run_goes_on_from_any_cut_as_if_nothing_had_been(
        steps in proptest::collection::vec(step(), 1..28),
        write in prop::bool::weighted(0.9),
        at in any::<prop::sample::Index>(),
        kind in 0..3,
    ) {
        let whole = Whole::of(&steps, write);
        let commits = whole.commits.len();
        let cut = match kind {
            1 if commits > 0 => Cut::Begun(at.index(commits)),
            2 if commits > 0 => Cut::Done(at.index(commits)),
            _ => Cut::Before(at.index(steps.len() + 1)),
        };
        goes_on(&steps, write, cut, &whole);
    }
}

/// The same from every cut there is.
fn goes_on_from_each(steps: &[Step]) {
    let whole = Whole::of(steps, true);
    for n in 0..=steps.len() {
        goes_on(steps, true, Cut::Before(n), &whole);
    }
    for n in 0..whole.commits.len() {
        goes_on(steps, true, Cut::Begun(n), &whole);
        goes_on(steps, true, Cut::Done(n), &whole);
    }
}

#[test]
fn its_own_changes_are_nobody_elses() {
    let (a, d, below, e) = (0, 2, 4, 5);
    let open = |name, how| Step::Open { name, how, write: true };
    // In a folder that was looked at, which is moved then.
    goes_on_from_each(&[Step::Stat(d), Step::Remove(below), Step::Wait, Step::Rename(d, e)]);
    // Below a folder that is moved, and made anew.
    let moved =
        [Step::Stat(below), Step::Rename(d, e), Step::Wait, Step::MakeFolder(d), Step::MakeFolder(below)];
    goes_on_from_each(&moved);
    // In a file that was read, with a wait between two writes.
    goes_on_from_each(&[
        open(a, 0),
        Step::Read(0, 0, 4),
        Step::Write(0, 1, 3),
        Step::Wait,
        Step::Write(0, 2, 3),
        Step::Append(0, 4),
        Step::Rename(a, below),
        Step::Wait,
        Step::Append(0, 2),
        Step::Read(0, 0, 8),
    ]);
}

#[test]
fn what_was_removed_while_it_was_open_cannot_be_opened_again_and_says_so() {
    let folder = folder();
    let steps = [
        Step::Open { name: 0, how: 0, write: true },
        Step::Read(0, 0, 5),
        Step::Remove(0),
        Step::Read(0, 6, 8),
        Step::Append(0, 1),
    ];
    let mut player = Player::new(folder.path(), true, None, None);
    let whole: Vec<_> = steps.iter().map(|step| player.play(step).unwrap()).collect();
    assert_eq!(whole[3..], ["([116, 101, 120, 116], false)", "()"], "as long as its instance has it");
    let kept = player.side.kept();
    fs::write(folder.path().join("a"), "another's").unwrap();
    let mut player = Player::new(folder.path(), true, Some(kept), None);
    for (step, said) in steps.iter().zip(&whole) {
        assert_eq!(&player.play(step).unwrap(), said, "what it has been told");
    }
    for step in [Step::Read(0, 0, 5), Step::Append(0, 1), Step::Resize(0, 0), Step::StatOf(0)] {
        assert_eq!(player.play(&step).unwrap(), error(ErrorCode::NoEntry), "{step:?}");
    }
    assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"another's");
    let warned = player.side.warned.lock().unwrap().join("\n");
    assert!(warned.contains("/files/a was removed while it was open"), "{warned}");
}

#[test]
fn nothing_has_begun_where_the_folder_is_away() {
    let (folder, elsewhere) = (folder(), tempfile::tempdir().unwrap());
    let mut player = Player::new(folder.path(), true, None, None);
    player.play(&Step::Stat(0)).unwrap();
    let kept = player.side.kept();
    let away = elsewhere.path().join("away");
    fs::rename(folder.path(), &away).unwrap();
    let mut player = Player::new(folder.path(), true, Some(kept.clone()), None);
    player.play(&Step::Stat(0)).unwrap();
    let root = borrowed(&player.root);
    let made = player.state.create_directory_at(root, "new".into()).now_or_never().unwrap();
    let trap = made.unwrap_err().downcast().expect_err("no answer to the guest");
    assert!(trap.to_string().contains("cannot be opened"), "{trap}");
    assert_eq!(player.side.kept(), kept, "whoever goes on next needs to ask nobody");
    fs::rename(&away, folder.path()).unwrap();
}
