//! Rules of tasks that no operator needs to change: each with its reason.

use crate::base::{ByteSize, Millis};

/// Fixed bounds of the tasks room.
#[derive(Clone, Copy, Debug)]
pub struct TaskRules;

impl TaskRules {
    /// How long after a failed renewal of the lease it is tried again: several times within a lease.
    pub const BEAT_RETRY: Millis = Millis::from_secs(1);
    /// Polls of one task in a second; the next get `polling_too_fast`. Ten times the fastest interval
    /// that we ever ask for: a client that is far over it is broken.
    pub const POLLS_PER_SECOND: u32 = 20;
    /// Tasks whose polls are counted at once; beyond, polls of further tasks pass uncounted.
    pub const POLLED_TASKS: usize = 65_536;
    /// Shortest poll interval that a client is told.
    pub const POLL_MIN: Millis = Millis(500);
    /// Longest poll interval: a person who waits looks twice a minute.
    pub const POLL_MAX: Millis = Millis(30_000);
    /// Poll interval of a tool that nothing is known of.
    pub const POLL_FIRST: Millis = Millis(1000);
    /// Longest poll interval while a task waits for answers: whoever polls is about to answer, and
    /// the task goes on at once then.
    pub const POLL_WAITING: Millis = Millis(2000);
    /// Tools whose rhythm is kept in memory.
    pub const RHYTHMS: usize = 4096;
    /// Longest status message, in bytes of UTF-8; the rest is cut off.
    pub const STATUS_MESSAGE: ByteSize = ByteSize::kib(4);
    /// Reasons why answers were refused, per key, in bytes.
    pub const ANSWER_REASON: ByteSize = ByteSize(512);
    /// Answers and schema above this size are checked off the threads that answer HTTP.
    pub const CHECK_INLINE: ByteSize = ByteSize::kib(16);
    /// How often a process looks for what other processes asked of its tasks, and for deadlines.
    pub const ATTENTION: Millis = Millis(1000);
    /// Waiting tasks of revoked components that are ended at once.
    pub const CONDEMNED_STEP: u32 = 100;
    /// How often one such look does that: what is left has the next one.
    pub const CONDEMNED_STEPS: u32 = 100;
    /// How often a process looks for tasks of dead processes, and counts the live ones.
    pub const ORPHANS: Millis = Millis(3000);
    /// How often expired tasks are swept.
    pub const SWEEP: Millis = Millis(30_000);
    /// How often progress that is due is written.
    pub const PROGRESS: Millis = Millis(100);
    /// How often free space is measured.
    pub const FREE_SPACE: Millis = Millis(1000);
    /// A wall clock that moves against the boot-time clock by more than this has jumped: tasks do not
    /// follow it until it has held still for as long again.
    pub const WALL_JUMP: Millis = Millis(60_000);
    /// How long a task may stay uncommitted after its run has gone: longer than a commit ever waits.
    pub const LEFT_UNCOMMITTED: Millis = Millis(60_000);
    /// How long a task whose run has gone without an end is left alone before it is resumed: whatever went
    /// wrong in this host should not go wrong many times a second.
    pub const LEFT_RETRY: Millis = Millis::from_secs(5);
    /// Longest pause between two tries of a write that ends a task.
    pub const SETTLE_RETRY: Millis = Millis(1000);
    /// How long after the store failed a request that is held it is tried again.
    pub const STORE_RETRY: Millis = Millis(500);
    /// Longest pause between two tries to make a call that is held a task; the first is `STORE_RETRY`, and each twice the one
    /// before. Whoever waits for the handle sees no difference, and a full host is not asked often.
    pub const PROMOTE_RETRY: Millis = Millis::from_secs(4);
    /// How often a waiter looks at a task that another process runs.
    pub const WAIT_LOOK: Millis = Millis(500);
    /// How long new entries of a task's journal may wait for their commit, where nothing else commits them. What a crash
    /// then loses are readings of clocks and the like, which happen again.
    pub const FLUSH: Millis = Millis(1000);
    /// How long the end of a write waits for the next change, whose start it is committed with. A crash in between makes it
    /// unknown; many writes in a row come faster.
    pub const SHARED: Millis = Millis(20);
    /// No effect leaves when less of the lease is left: what was on its way is out before another process goes on. Of a short
    /// lease a third.
    pub const LEASE_MARGIN: Millis = Millis::from_secs(5);
    /// How long a run that is handed back waits for its requests: most servers answer within this, and a shutdown
    /// has little more.
    pub const EFFECTS: Millis = Millis::from_secs(3);
    /// How long a run goes by what another replica grants its plugin, where this one does not have it: a change of a policy
    /// takes that long to be adopted anyway.
    pub const GRANTED: Millis = Millis::from_secs(1);
    /// A replay that makes no host call for so long, and for no less than `limits.active-time`, stands still: what it does
    /// between two calls took no longer when it was first done, but for how busy this host is.
    pub const REPLAY_STILL: Millis = Millis(60_000);
    /// How often a resumed run is looked at, whether it has come to the end of its journal.
    pub const RESUMING: Millis = Millis(50);
    /// Largest file of an exported journal: the largest journal that a policy allows is 16 MiB by default, and base64 adds a
    /// third.
    pub const EXPORT: ByteSize = ByteSize::mib(64);
    /// Newest tasks among which `layby plugins check` looks for those under way.
    pub const REHEARSED: u32 = 10_000;
    /// How often a process looks for tasks to resume that nobody told it of.
    pub const RESUME: Millis = Millis(1000);
    /// Tasks of one such look.
    pub const RESUME_STEP: u32 = 100;
    /// One of so many slots is for runs that are being resumed: new calls have the others.
    pub const RESUME_SHARE: u32 = 4;
    /// How long after a failure of the host a task is resumed again.
    pub const HOST_RETRY: Millis = Millis::from_secs(10);
    /// How long a host leaves alone what only another one can go on with, before it looks again: its keys and its version
    /// do not change while it runs, but what it is told of the task may have been a mistake.
    pub const FOREIGN_RETRY: Millis = Millis::from_secs(600);
    /// Tasks of that kind that a host remembers, the newest: each look names them all, and half a megabyte is no burden. One
    /// that it has forgotten costs it another look into its journal.
    pub const FOREIGN: usize = 10_000;
    /// A sleep with less left does not give its room to others before its `linger`: a sleep that is over is looked for each
    /// second, and then has a replay before it.
    pub const WORTH_PARKING: Millis = Millis::from_secs(2);
    /// Crashes of hosts while they resumed a task and no other, after which it ends: one may be chance, and a second. One
    /// that others were resumed beside does not count, but from then on it is resumed alone.
    pub const POISON: u32 = 3;
    /// How long a task is left alone after each such crash, times their number: a host that is killed again and again from
    /// outside then does not meet the same task each time.
    pub const ALONE_RETRY: Millis = Millis::from_secs(10);
    /// All resumes of a run may replay so many times `limits.fuel`: a replay costs what the run had cost by then, and a plugin
    /// that asks or sleeps often after much work would have it done again each time.
    pub const REPLAYS: u64 = 10;
    /// Changes that a slow listener may lag behind before it misses some.
    pub const CHANGES: usize = 1024;
}
