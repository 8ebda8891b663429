//! One call on a folder: recorded, compared or skipped.

use wasmtime::component::Resource;
use wasmtime_wasi::{
    filesystem::Descriptor,
    p2::{FsError, FsResult, bindings::filesystem::types::ErrorCode},
};

use super::{
    disk::Hash,
    record,
    record::{Answer, Kept, Outcome},
    seen::{Place, Print, Seen, follow, join},
    trap,
};
use crate::{
    base::{Clock as _, SystemClock, UnixMillis, failpoint, neutral_line},
    capabilities::{
        Abort, Audience, Deed, State, Unknown,
        effects::{self, Unsent},
        state::Ended,
        unknown::{self, Choice},
        wit_call::LogLevel,
    },
    config::FileGrant,
    journal::{CHANGES, Call, Recalled, Started},
};

/// Where a line is to be added.
const FILE_GRANTS: &str = "grants.files of this plugin's policy";
/// In the stretch of what was replayed.
const PAST: u64 = 0;

/// One call.
pub(super) struct Op {
    call: Call,
    /// What it does, for people.
    name: &'static str,
    places: Vec<Place>,
    request: Vec<u8>,
    /// Its answer is about the content of its path.
    reads: bool,
    /// Its answer is never asked for again.
    once: bool,
    /// It opens a file to change it.
    writes: bool,
    /// A change as a guest makes many in a row: its end is committed with the start of the next.
    is_one_of_many: bool,
    becomes: Becomes,
}

/// What a change makes of its paths.
#[derive(Clone, Copy)]
enum Becomes {
    Other,
    /// The first becomes the second.
    Moved,
    Gone,
}

impl Op {
    /// On what `descriptor` stands for, which is at `place`.
    pub(super) fn new(call: Call, name: &'static str, descriptor: u32, place: Place) -> Self {
        let mut request = name.as_bytes().to_vec();
        request.push(0);
        request.extend(descriptor.to_le_bytes());
        Self {
            call,
            name,
            places: vec![place],
            request,
            reads: false,
            once: false,
            writes: false,
            is_one_of_many: false,
            becomes: Becomes::Other,
        }
    }

    /// On `path` below it.
    pub(super) fn at(mut self, path: &str) -> Self {
        self.places[0].1 = join(&self.places[0].1, path);
        self.with(path.as_bytes())
    }

    /// And on `path` below another folder.
    pub(super) fn and(mut self, descriptor: u32, folder: &Place, path: &str) -> Self {
        self.places.push((folder.0, join(&folder.1, path)));
        self.with(&descriptor.to_le_bytes()).with(path.as_bytes())
    }

    /// An argument.
    pub(super) fn with(mut self, argument: &[u8]) -> Self {
        self.request.extend((argument.len() as u64).to_le_bytes());
        self.request.extend_from_slice(argument);
        self
    }

    pub(super) fn reads(self) -> Self {
        Self { reads: true, ..self }
    }

    pub(super) fn writes(self, writes: bool) -> Self {
        Self { writes, ..self }
    }

    pub(super) fn one_of_many(self) -> Self {
        Self { is_one_of_many: true, ..self }
    }

    pub(super) fn once(self) -> Self {
        Self { once: true, ..self }
    }

    pub(super) fn moves(self) -> Self {
        Self { becomes: Becomes::Moved, ..self }
    }

    pub(super) fn removes(self) -> Self {
        Self { becomes: Becomes::Gone, ..self }
    }
}

/// What the guest is answered, or a trap.
fn outcome<T>(of: FsResult<T>) -> Result<Outcome<T>, FsError> {
    match of {
        Ok(answer) => Ok(Ok(answer)),
        Err(e) => e.downcast().map(Err).map_err(FsError::trap),
    }
}

fn unreadable() -> FsError {
    trap(Ended(Abort::Host("an answer of a folder in the journal cannot be read".into())))
}

/// Says nothing about what is there.
const fn is_passing(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::Io
            | ErrorCode::Busy
            | ErrorCode::Interrupted
            | ErrorCode::WouldBlock
            | ErrorCode::InsufficientMemory
            | ErrorCode::NoDevice
            | ErrorCode::NoSuchDevice
    )
}

impl State {
    /// An operation named `name` on what `descriptor` stands for.
    pub(super) fn op(
        &mut self,
        call: Call,
        name: &'static str,
        descriptor: &Resource<Descriptor>,
    ) -> FsResult<Op> {
        let place = self.node(descriptor).map_err(trap)?.place.clone();
        Ok(Op::new(call, name, descriptor.rep(), place))
    }

    /// A call that changes nothing: `f` does it.
    pub(super) async fn look<T: Answer>(
        &mut self,
        op: &Op,
        f: impl FnOnce(&mut Self) -> FsResult<T> + Send,
    ) -> FsResult<T> {
        let writable = self.is_writable(op);
        let started = self.journal.start(op.call, &op.request, 0);
        if let Started::Replayed(bytes) = started.map_err(|mismatch| trap(Ended::mismatch(mismatch)))? {
            let (kept, seen) = record::decode(&bytes).ok_or_else(unreadable)?;
            if writable || op.once || self.granted.is_elsewhere() {
                for (place, print) in op.places.iter().zip(seen) {
                    self.files().seen.read(place, print, PAST);
                }
                return self.recorded(op, kept);
            }
            let now = outcome(f(self))?;
            return self.compared(op, kept, now);
        }
        let revoked = self.is_revoked(op, op.writes).await?;
        let (outcome, seen) = if revoked {
            (Err(ErrorCode::NotPermitted), Vec::new())
        } else {
            // Before it is read: what changes in between counts as changed since.
            let content = op.call == Call::FileRead;
            let seen = if writable && op.reads { self.prints(op, |_, _| content)? } else { Vec::new() };
            (outcome(f(self))?, seen)
        };
        if !revoked {
            self.deny_answer(op, &outcome);
        }
        let journal = &self.journal;
        let bytes = if writable || op.once {
            record::whole(&outcome, &seen)
        } else {
            record::short(&outcome, |bytes| journal.keyed(&[bytes]))
        };
        journal.end(&bytes, self.clock.monotonic());
        let files = self.files();
        for (place, print) in op.places.iter().zip(seen) {
            files.seen.read(place, print, files.stretch);
        }
        outcome.map_err(FsError::from)
    }

    /// The answer that was recorded.
    fn recorded<T>(&self, op: &Op, kept: Kept<T>) -> FsResult<T> {
        match kept {
            Kept::Whole(outcome) => outcome.map_err(FsError::from),
            Kept::Mark(..) => {
                let path = self.guest_path(&op.places[0]);
                let why = format!("what it read of {path} is not in the journal, and is not read here");
                Err(trap(Ended(Abort::Host(why))))
            }
        }
    }

    /// What was recorded against what is there now.
    fn compared<T: Answer>(&mut self, op: &Op, kept: Kept<T>, now: Outcome<T>) -> FsResult<T> {
        let journal = &self.journal;
        let code = now.as_ref().err().copied();
        let same = match (kept, now) {
            (Kept::Whole(Ok(recorded)), Ok(now)) => T::settle(recorded, now).map(Ok),
            (Kept::Whole(Err(recorded)), Err(now)) => (recorded == now).then_some(Err(now)),
            (Kept::Whole(_), _) => None,
            (Kept::Mark(hash, len), now) => {
                record::fits(&now, (hash, len), |bytes| journal.keyed(&[bytes])).then_some(now)
            }
        };
        match same {
            Some(answer) => answer.map_err(FsError::from),
            None => Err(self.differs(&op.places[0], code)),
        }
    }

    /// The end of a run whose folder is not as it was.
    fn differs(&mut self, place: &Place, code: Option<ErrorCode>) -> FsError {
        let path = self.guest_path(place);
        if let Some(code) = code.filter(|code| is_passing(*code)) {
            return trap(Ended(Abort::Host(format!("{path} cannot be read now: {}", code.message()))));
        }
        let root = match self.root(place.0) {
            Ok(root) => Descriptor::Dir(root),
            Err(e) => return trap(e),
        };
        // Where a mount is missing, its place is there, and empty.
        if self.files().disk.entries(&root).is_ok_and(|entries| entries.is_empty()) {
            let folder = &self.granted.grants.files[place.0].guest;
            let why =
                format!("the folder granted as {folder:?} is empty, and was not: is its mount missing?");
            return trap(Ended(Abort::Host(why)));
        }
        trap(Ended(Abort::FileChanged { path }))
    }

    /// A call that changes something: `f` does it, once. `happened` is its answer where only a person knows that it was
    /// done.
    pub(super) async fn change<T: Answer>(
        &mut self,
        op: &Op,
        happened: T,
        f: impl FnOnce(&mut Self) -> FsResult<T> + Send,
    ) -> FsResult<T> {
        if !self.is_writable(op) {
            self.journal.note(op.name, &op.request);
            self.deny_change(op.name, &op.places);
            return Err(ErrorCode::NotPermitted.into());
        }
        let k = CHANGES.saturating_add(self.files().changes);
        self.files().changes += 1;
        let hash = self.journal.keyed(&[&op.request]);
        self.journal.note(op.name, &hash.to_le_bytes());
        let mismatch = |mismatch| trap(Ended::mismatch(mismatch));
        let recalled = self.journal.recall(k, hash).map_err(mismatch)?;
        let answer = recalled.as_ref().and_then(|recalled| recalled.answer.as_deref());
        if let Some((kept, seen)) = answer.and_then(record::decode::<T>) {
            let outcome = outcome(self.recorded(op, kept))?;
            self.has_changed(op, outcome.is_ok(), seen, PAST);
            return outcome.map_err(FsError::from);
        }
        let choice = answer.and_then(Choice::decode);
        if answer.is_some() && choice.is_none() {
            return Err(unreadable());
        }
        let choice = match (choice, recalled) {
            (Some(Choice::Happened), _) => Some(Choice::Happened),
            (choice, recalled) => {
                self.journal.may_begin(k, hash).map_err(mismatch)?;
                match recalled {
                    Some(recalled) => Some(self.resolve(op, k, choice, &recalled).await?),
                    None => None,
                }
            }
        };
        if choice == Some(Choice::Happened) {
            self.has_changed(op, true, Vec::new(), PAST);
            return Ok(happened);
        }
        self.begin(op, k, hash, f).await
    }

    /// What is to be done about a change that was under way when the run was last seen: an error where that is nothing.
    async fn resolve(
        &mut self,
        op: &Op,
        k: u32,
        choice: Option<Choice>,
        recalled: &Recalled,
    ) -> FsResult<Choice> {
        let deed = Deed::change(op.name, &self.guest_path(&op.places[0]));
        let (number, at) = (u64::from(k - CHANGES), UnixMillis(recalled.at));
        let unknown = Unknown { deed, number, begun: recalled.starts, at };
        let choice = match choice {
            Some(choice) => choice,
            None => {
                let caller = self.caller.clone();
                let choice = unknown::choose(&*caller, &unknown).await;
                self.journal.answered(k, &choice.encode());
                choice
            }
        };
        if choice == Choice::Stop { Err(trap(Ended(Abort::Unknown(unknown)))) } else { Ok(choice) }
    }

    /// Does a change that was not done.
    async fn begin<T: Answer>(
        &mut self,
        op: &Op,
        k: u32,
        hash: u64,
        f: impl FnOnce(&mut Self) -> FsResult<T> + Send,
    ) -> FsResult<T> {
        let refused = self.refused(op).await?;
        if refused.is_none() {
            // Where a folder is away, nothing has begun.
            for place in &op.places {
                self.root(place.0).map_err(trap)?;
            }
        }
        let (journal, caller) = (self.journal.clone(), self.caller.clone());
        failpoint!("file.before-start");
        self.journal.sent(k, hash, SystemClock.now().0);
        let done = refused.is_none();
        let outcome = match refused {
            Some(code) => Err(code),
            None => {
                let unsent = Unsent::new(&journal, k);
                effects::committed(&*caller).await;
                self.owes = false;
                failpoint!("file.after-start-commit");
                // The commit may have taken long.
                let revoked = self.is_revoked(op, true).await?;
                if !caller.may_send() {
                    let why = "the lease is about to end, and another host may go on with this run";
                    return Err(trap(Ended(Abort::Host(why.into()))));
                }
                unsent.leaves();
                let outcome = if revoked { Err(ErrorCode::NotPermitted) } else { outcome(f(self))? };
                self.files().disk.forget();
                failpoint!("file.after-change");
                self.deny_answer(op, &outcome);
                outcome
            }
        };
        // Where it failed nothing is different, unless others did it.
        let known = outcome.is_ok() && op.places.iter().any(|place| self.files().seen.knows(place));
        let seen = if known { self.prints(op, |seen, place| seen.knows_content(place))? } else { Vec::new() };
        self.journal.answered(k, &record::whole(&outcome, &seen));
        failpoint!("file.after-answer");
        if op.is_one_of_many {
            self.owes = true;
            caller.commit_soon();
        } else if done {
            effects::committed(&*caller).await;
            failpoint!("file.after-end-commit");
        }
        let stretch = self.files().stretch;
        self.has_changed(op, outcome.is_ok(), seen, stretch);
        outcome.map_err(FsError::from)
    }

    /// Why a change is not to be done, if it is not.
    async fn refused(&mut self, op: &Op) -> FsResult<Option<ErrorCode>> {
        if self.is_revoked(op, true).await? {
            return Ok(Some(ErrorCode::NotPermitted));
        }
        let files = self.files();
        let expected: Vec<_> =
            op.places.iter().map(|place| files.seen.expects(place, files.stretch)).collect();
        if expected.iter().all(Option::is_none) {
            return Ok(None);
        }
        let now = self.prints(op, |seen, place| seen.knows_content(place))?;
        let other = expected.iter().zip(&now).position(|(was, now)| was.is_some_and(|was| !was.fits(*now)));
        let Some(place) = other.and_then(|n| op.places.get(n)) else { return Ok(None) };
        let path = self.guest_path(place);
        self.warn(&format!(
            "changed-since-read: {path} is not as this run last read it: `{}` is refused until it is read again",
            op.name
        ));
        // What `wasi:filesystem` has nearest: it can be tried again, once the file was read again.
        Ok(Some(ErrorCode::Busy))
    }

    /// What the paths of `op` look like now, with a hash of the content where it `counts`.
    fn prints(&mut self, op: &Op, counts: impl Fn(&Seen, &Place) -> bool) -> FsResult<Vec<Print>> {
        let journal = self.journal.clone();
        let hash = |bytes: &[u8]| journal.keyed(&[bytes]);
        let mut prints = Vec::with_capacity(op.places.len());
        for place in &op.places {
            let root = self.root(place.0).map_err(trap)?;
            let files = self.files();
            let hash = counts(&files.seen, place).then_some(&hash as Hash<'_>);
            prints.push(files.disk.print(&root, place, hash)?);
        }
        Ok(prints)
    }

    /// What a change leaves of what is known, and of what is open.
    fn has_changed(&mut self, op: &Op, done: bool, seen: Vec<Print>, stretch: u64) {
        let files = self.files();
        if let (true, Becomes::Moved, [from, to]) = (done, op.becomes, &op.places[..])
            && from != to
        {
            files.seen.moved(from, to);
            files.each_node(|node| {
                if node.place == *to {
                    node.gone = true;
                } else if node.place.0 == from.0
                    && !node.gone
                    && let Some(path) = follow(&node.place.1, &from.1, &to.1)
                {
                    node.place = (to.0, path);
                }
            });
        }
        if let (true, Becomes::Gone, Some(place)) = (done, op.becomes, op.places.first()) {
            files.each_node(|node| node.gone |= node.place == *place);
        }
        if done && seen.is_empty() {
            // Somebody said that it happened, or this run knows nothing of these paths.
            op.places.iter().for_each(|place| files.seen.forget(place));
        }
        for (place, print) in op.places.iter().zip(seen).filter(|_| done) {
            files.seen.changed(place, print, stretch);
        }
    }

    fn is_writable(&self, op: &Op) -> bool {
        op.places.iter().all(|place| self.granted.grants.files[place.0].write)
    }

    /// True where policy has taken back a folder, or the right to change it, since the run began.
    async fn is_revoked(&mut self, op: &Op, writes: bool) -> FsResult<bool> {
        let now = effects::granted(&*self.caller).await.map_err(|abort| trap(Ended(abort)))?;
        let files = &self.granted.grants.files;
        let revoked = op.places.iter().find(|place| !now.gives(&files[place.0], writes));
        let is = revoked.is_some();
        if let Some(place) = revoked {
            let line = files[place.0].line();
            let text = format!("{}; to allow it, add {line} to {FILE_GRANTS}", self.guest_path(place));
            self.deny(&text);
        }
        Ok(is)
    }

    /// Tells of a change in folders of which one may only be read.
    pub(super) fn deny_change(&mut self, name: &str, places: &[Place]) {
        let files = &self.granted.grants.files;
        let only_read = places.iter().find(|place| !files[place.0].write);
        if let Some(place) = only_read {
            let line = FileGrant { write: true, ..files[place.0].clone() }.line();
            let path = self.guest_path(place);
            self.deny(&format!("{name} of {path}; to allow it, add {line} to {FILE_GRANTS}, in place of the one that only reads"));
        }
    }

    /// Tells of what no grant of a folder allows, as far as its answer says so.
    fn deny_answer<T>(&mut self, op: &Op, outcome: &Outcome<T>) {
        if matches!(outcome, Err(ErrorCode::NotPermitted))
            && let Some(place) = op.places.first()
        {
            let (path, folder) = (self.guest_path(place), &self.granted.grants.files[place.0].guest);
            let text = format!(
                "{} of {path}; no grant allows that: only regular files and folders open, below {folder:?} and on its own file system",
                op.name
            );
            self.deny(&text);
        }
    }

    /// Tells the operator.
    pub(super) fn warn(&self, text: &str) {
        if self.journal.speaks() {
            self.caller.log(Audience::Operator, LogLevel::Warning, &neutral_line(text));
        }
    }

    /// A place opened by `opened`, given to the guest.
    pub(super) fn holds(&mut self, place: Place, opened: record::Opened) -> FsResult<Resource<Descriptor>> {
        let record::Opened { folder, mode, descriptor } = opened;
        let node = super::Node { place, folder, mode, open: descriptor, gone: false };
        self.hold(node).map_err(trap)
    }
}

impl super::Files {
    fn each_node(&mut self, f: impl FnMut(&mut super::Node)) {
        let streams = self.streams.values_mut().map(|stream| &mut stream.node);
        self.nodes.values_mut().chain(streams).for_each(f);
    }
}

impl Op {
    pub(super) fn place(&self) -> Place {
        self.places[0].clone()
    }
}
