//! What happens to a task, as the state machine takes it.

use std::collections::BTreeMap;

use crate::{
    base::{BootId, Millis, UnixMillis, failpoints::known},
    store::{Answer, End, Question},
};

/// One thing that happens to a task. `fence` is the writer's; a holder that has lost the task is refused.
#[derive(Clone, Debug)]
pub enum Event {
    /// The run puts questions, as one round.
    Ask {
        /// The holder's.
        fence: u64,
        /// Keys as the plugin gave them; rounds are counted here. One that came with its answer is not
        /// asked, and one at least must be open.
        questions: Vec<Question>,
        /// How long they wait.
        wait: Millis,
        /// What happens when no answer comes.
        resume_on_timeout: bool,
        /// True for the host's own questions, whose keys are under `layby/`.
        by_host: bool,
        /// Active time that is left, where the run says so.
        active_left: Option<Millis>,
        /// New poll interval.
        poll_interval: Millis,
    },
    /// Answers came, each valid or with the reason why it is not.
    Answers {
        /// By key.
        answers: BTreeMap<String, Result<Answer, String>>,
        /// The round that they are for, where they came by a multi round-trip request; such answers must not
        /// contradict what was taken.
        round: Option<u32>,
        /// New poll interval, where this completes the round.
        poll_interval: Millis,
    },
    /// The input deadline passed for a tool that goes on then.
    TimeOut {
        /// The holder's.
        fence: u64,
        /// New poll interval.
        poll_interval: Millis,
    },
    /// The run says how far it has come.
    Progress {
        /// The holder's.
        fence: u64,
        /// For people.
        message: String,
    },
    /// Somebody asks for cancellation.
    Cancel,
    /// The client has gone that waited for a run of which nobody has a handle.
    Leave,
    /// A run that has a row before it has a handle is handed out as a task.
    Reveal,
    /// The holder ends the task.
    Settle {
        /// The holder's.
        fence: u64,
        /// How.
        end: End,
    },
    /// The holder has no instance any more, until the answers are there or the time has come.
    Park {
        /// The holder's.
        fence: u64,
        /// The end of the sleep; none where it waits for answers.
        wake_at: Option<UnixMillis>,
        /// Active time that is left.
        active_left: Millis,
    },
    /// A process takes a task that is nobody's or a dead holder's: compare and set.
    Claim {
        /// The new holder.
        me: BootId,
        /// Holder and fence as they were when it was found.
        holder: Option<BootId>,
        /// The same.
        fence: u64,
        /// The process resumes no other task beside it.
        alone: bool,
    },
    /// A resumed run has come to the end of its journal.
    Live {
        /// The holder's.
        fence: u64,
    },
    /// The holder gives the task back as it is.
    HandBack {
        /// The holder's.
        fence: u64,
        /// Not to be resumed before.
        retry_at: Option<UnixMillis>,
        /// True where nothing went wrong (the process stops): the attempt does not count.
        ordered: bool,
    },
    /// A dead holder's task becomes nobody's: compare and set.
    Orphan {
        /// Holder and fence as they were when it was found to be gone.
        holder: BootId,
        /// The same.
        fence: u64,
    },
    /// The run has done what cannot be replayed.
    Pin {
        /// The holder's.
        fence: u64,
        /// What, for people.
        why: String,
    },
    /// The journal has grown. Nothing changes that a client sees.
    Commit {
        /// The holder's.
        fence: u64,
        /// Active time that is left.
        active_left: Millis,
    },
    /// Somebody ends a task whose holder is gone: compare and set.
    Abandon {
        /// Holder and fence as they were when it was found to be gone.
        holder: Option<BootId>,
        /// The same.
        fence: u64,
        /// How.
        end: End,
    },
}

/// The names of the failpoints before and after a move.
macro_rules! edge {
    ($name:literal) => {
        const { (known(concat!($name, ".before")), known(concat!($name, ".after"))) }
    };
}

impl Event {
    /// The failpoints before it is handed to the store, and after its commit.
    pub(super) const fn edges(&self) -> (&'static str, &'static str) {
        match self {
            Self::Ask { .. } => edge!("task.ask"),
            Self::Answers { .. } => edge!("task.answers"),
            Self::TimeOut { .. } => edge!("task.time-out"),
            Self::Progress { .. } => edge!("task.progress"),
            Self::Cancel | Self::Leave => edge!("task.cancel"),
            Self::Reveal => edge!("task.reveal"),
            Self::Settle { .. } => edge!("task.settle"),
            Self::Park { .. } => edge!("task.park"),
            Self::Claim { .. } => edge!("task.claim"),
            Self::Live { .. } => edge!("task.live"),
            Self::HandBack { .. } => edge!("task.hand-back"),
            Self::Orphan { .. } => edge!("task.orphan"),
            Self::Pin { .. } => edge!("task.pin"),
            Self::Commit { .. } => edge!("task.commit"),
            Self::Abandon { .. } => edge!("task.abandon"),
        }
    }

    /// True where no client sees a difference, but perhaps of the TTL.
    pub(super) const fn is_quiet(&self) -> bool {
        matches!(
            self,
            Self::Park { .. }
                | Self::Claim { .. }
                | Self::Live { .. }
                | Self::HandBack { .. }
                | Self::Orphan { .. }
                | Self::Pin { .. }
                | Self::Commit { .. }
        )
    }

    /// True where it may make a task that is nobody's fit to go on.
    pub(super) const fn readies(&self) -> bool {
        matches!(self, Self::Answers { .. } | Self::TimeOut { .. } | Self::Orphan { .. })
    }
}
