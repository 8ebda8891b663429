//! Any guest: what it did is replayed in another world as it was; cut off after any piece it goes on in the same world
//! to the same journal; and one that does otherwise is stopped or was not otherwise.
//!
//! Input: a byte for the cut, a byte for the step that is done otherwise, and steps, as [`Step::read`] has them.
#![no_main]

use layby_fuzz::{
    Input,
    base::Piece,
    journal::{Call, Entry, Header, Journal, Kept, Mismatch, Start, Started},
};
use libfuzzer_sys::fuzz_target;

const KEY: [u8; 16] = *b"0123456789abcdef";
/// Larger answers are kept apart.
const INLINE: usize = 64 << 10;

#[derive(Clone, Debug)]
enum Step {
    Clock(Call, u64),
    Note(Vec<u8>),
    Again(Vec<u8>, Vec<u8>),
    /// Request, fuel, answer; committed in between?
    Call(Call, Vec<u8>, u64, Vec<u8>, bool),
    /// Hash of the request, answer; committed in between?
    Exchange(u64, Vec<u8>, bool),
}

impl Step {
    fn read(input: &mut Input) -> Self {
        let bytes = |input: &mut Input| {
            let len = input.byte();
            match len {
                // One of two large ones, so that some are the same; few, because they take long.
                254.. if input.byte() & 7 == 7 => vec![len; INLINE + usize::from(len % 2)],
                _ => input.bytes(len.into()).to_vec(),
            }
        };
        let op = input.byte();
        let between = op & 0x80 != 0;
        let call = [Call::Poll, Call::Ready, Call::Input, Call::Supports][usize::from(op >> 3 & 3)];
        match op & 7 {
            0 => Self::Clock(Call::Wall, u64::from(input.short()) << (op >> 3 & 15) * 3),
            1 => Self::Clock(Call::Monotonic, u64::from(input.short()) << (op >> 3 & 15) * 3),
            2 => Self::Note(bytes(input)),
            3 => Self::Again(bytes(input), bytes(input)),
            4 | 5 => {
                let (request, fuel) = (bytes(input), input.short().into());
                Self::Call(call, request, fuel, bytes(input), between)
            }
            _ => {
                let hash = input.byte().into();
                let mut answer = bytes(input);
                // An empty one says that nothing was sent.
                answer.push(1);
                Self::Exchange(hash, answer, between)
            }
        }
    }

    /// The same step where the world is another.
    fn elsewhere(&self) -> Self {
        match self.clone() {
            Self::Clock(call, ns) => Self::Clock(call, !ns),
            Self::Call(call, request, fuel, _, between) => {
                Self::Call(call, request, fuel, b"elsewhere".to_vec(), between)
            }
            Self::Exchange(hash, _, between) => Self::Exchange(hash, b"elsewhere".to_vec(), between),
            step => step,
        }
    }
}

/// A host that keeps what its journal gives it.
struct Host {
    journal: Journal,
    pieces: Vec<Piece>,
    exchanges: u32,
}

impl Host {
    fn new(limit: usize) -> Self {
        let journal = Journal::record(KEY, limit);
        let pieces = journal.head(header).into_iter().collect();
        Self { journal, pieces, exchanges: 0 }
    }

    fn resumed(pieces: &[Piece]) -> Self {
        let kept = Kept::open(pieces).expect("what was kept can be read");
        Self { journal: Journal::replay(KEY, usize::MAX, kept, true), pieces: pieces.to_vec(), exchanges: 0 }
    }

    fn commit(&mut self) {
        self.pieces.extend(self.journal.take());
    }

    /// Does `step`: what the guest sees of it.
    fn run(&mut self, step: &Step) -> Result<Vec<u8>, Mismatch> {
        let journal = self.journal.clone();
        Ok(match step {
            Step::Clock(call, ns) => journal.clock(*call, || *ns)?.to_le_bytes().to_vec(),
            Step::Note(request) => {
                journal.note("note", request);
                Vec::new()
            }
            Step::Again(request, answer) => {
                journal.again(Call::Ready, request, answer)?;
                answer.clone()
            }
            Step::Call(call, request, fuel, answer, between) => match journal.start(*call, request, *fuel)? {
                Started::Replayed(answer) => answer,
                Started::Again | Started::Fresh => {
                    assert!(journal.is_live());
                    if *between {
                        self.commit();
                    }
                    journal.end(answer, *fuel);
                    answer.clone()
                }
            },
            Step::Exchange(hash, answer, between) => {
                let k = self.exchanges;
                self.exchanges += 1;
                match journal.recall(k, *hash)? {
                    Some(recalled) if recalled.answer.is_some() => {
                        return Ok(recalled.answer.unwrap_or_default());
                    }
                    // It would wait until the journal is: nothing is sent in a replay.
                    _ if !journal.is_live() => return Ok(Vec::new()),
                    Some(_) => {}
                    None => {
                        journal.sent(k, *hash, 5);
                        if *between {
                            self.commit();
                        }
                    }
                }
                journal.answered(k, answer);
                answer.clone()
            }
        })
    }
}

fn header() -> Header {
    Header {
        digest: [3; 32],
        semantics: 1,
        code: 2,
        seed: [4; 32],
        start: Start { wall: 1 << 60, boot: [5; 16], boottime: 77 },
        tool: "tool".into(),
        arguments: "{}".into(),
        client: 3,
        policy: "{}".into(),
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let (cut, other) = (usize::from(input.byte()), usize::from(input.byte()));
    let mut steps = Vec::new();
    while !input.is_empty() && steps.len() < 60 {
        steps.push(Step::read(&mut input));
    }
    let mut whole = Host::new(usize::MAX);
    // What the guest saw of each step, and how many pieces have all of it.
    let mut seen = Vec::new();
    for step in &steps {
        let saw = whole.run(step).expect("nothing was recorded before");
        whole.commit();
        seen.push((saw, whole.pieces.len()));
    }
    let entries = Kept::open(&whole.pieces).expect("what was kept can be read").entries();
    assert_eq!(whole.journal.entries(), entries.len() as u64);

    let cut = 1 + cut % whole.pieces.len();
    prefix(&whole, &steps, &seen, cut);
    otherwise(&whole.pieces[..cut], &steps, other);
    bounded(&steps, other * 16);
});

/// Cut off after `cut` pieces it goes on, in a world that has changed in what was recorded and in nothing else.
fn prefix(whole: &Host, steps: &[Step], seen: &[(Vec<u8>, usize)], cut: usize) {
    let mut resumed = Host::resumed(&whole.pieces[..cut]);
    for (step, (saw, pieces)) in steps.iter().zip(seen) {
        let recorded = *pieces <= cut;
        let step = if recorded { step.elsewhere() } else { step.clone() };
        assert_eq!(resumed.run(&step).as_ref(), Ok(saw), "{step:?}");
        if !recorded {
            assert!(resumed.journal.is_live());
        }
        resumed.commit();
    }
    assert_eq!(resumed.journal.finish(), Ok(()));
    let kept = |host: &Host| Kept::open(&host.pieces).expect("what was kept can be read").entries();
    assert_eq!(kept(&resumed), kept(whole));
}

/// A guest that does one step otherwise is told where, at the latest when it returns; or it can go on.
fn otherwise(pieces: &[Piece], steps: &[Step], other: usize) {
    let mut steps = steps.to_vec();
    if let Some(step) = steps.len().checked_sub(1).map(|last| other % (last + 1)) {
        match other & 3 {
            0 => drop(steps.remove(step)),
            1 => steps.insert(step, steps[step].clone()),
            2 => steps[step] = Step::Clock(Call::Wall, 1),
            _ => steps.truncate(step),
        }
    }
    let mut host = Host::resumed(pieces);
    let had = Kept::open(pieces).expect("what was kept can be read").entries();
    let ended = steps.iter().try_for_each(|step| host.run(step).map(drop));
    match ended.and_then(|()| host.journal.finish()) {
        Err(mismatch) => {
            let step = usize::try_from(mismatch.step).expect("a small number");
            let names = match &had[step] {
                Entry::Clock(call, _) | Entry::Again(call, _) | Entry::Start(call, ..) => format!("`{call}`"),
                Entry::End(answer, _) => format!("{} bytes", answer.len()),
                Entry::Sent(k, ..) | Entry::Answered(k, _) => format!("request {k}"),
            };
            assert!(mismatch.expected.contains(&names), "{mismatch}: not {names}");
        }
        Ok(()) => {
            host.commit();
            Kept::open(&host.pieces).expect("what was kept can be read");
        }
    }
}

/// Past its limit a journal lets go, and only then.
fn bounded(steps: &[Step], limit: usize) {
    let mut host = Host::new(limit);
    for step in steps {
        host.run(step).expect("nothing was recorded before");
        assert!(host.journal.pinned().is_none() || host.journal.take().is_none());
        host.commit();
    }
    let kept: usize =
        host.pieces[1..].iter().flat_map(|piece| &piece.blobs).map(|blob| blob.bytes.len()).sum();
    assert!(host.journal.pinned().is_some() || kept <= limit);
}
