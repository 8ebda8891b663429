//! Every statement, in one place. One that takes many rows is a [`Bulk`]: an array for each column, so
//! that one text serves any number of rows.

use std::sync::OnceLock;

/// What a column of a [`Bulk`] holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Int,
    Bool,
    Text,
    Bytes,
}

use Kind::{Bool, Bytes, Int, Text};

/// A statement over any number of rows `r` of these columns.
pub(super) struct Bulk {
    head: &'static str,
    pub(super) columns: &'static [(&'static str, Kind)],
    tail: &'static str,
    text: OnceLock<String>,
}

impl Bulk {
    const fn new(head: &'static str, columns: &'static [(&'static str, Kind)], tail: &'static str) -> Self {
        Self { head, columns, tail, text: OnceLock::new() }
    }

    pub(super) fn text(&'static self) -> &'static str {
        self.text.get_or_init(|| {
            let array = |(i, (_, kind)): (usize, &(_, Kind))| {
                let kind = match kind {
                    Int => "int8",
                    Bool => "bool",
                    Text => "text",
                    Bytes => "bytea",
                };
                format!("${}::{kind}[]", i + 1)
            };
            let arrays: Vec<String> = self.columns.iter().enumerate().map(array).collect();
            let names: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
            format!("{} unnest({}) AS r ({}) {}", self.head, arrays.join(", "), names.join(", "), self.tail)
        })
    }
}

/// Rows of tasks with their questions, as `rows::task` reads them; the tail says which.
macro_rules! select_tasks {
    ($tail:literal) => {
        concat!(
            "SELECT t.id, t.principal, t.tool, t.plugin, t.digest, t.status, t.status_message, t.created_at, ",
            "t.updated_at, t.ttl, t.poll_interval, t.active_left, t.absence, t.holder, t.fence, ",
            "t.cancel_requested, t.input_deadline, t.resume_on_timeout, t.idem_key, t.idem_arguments, ",
            "t.revealed, t.outcome, t.pieces, t.pinned, t.wake_at, t.attempts, t.retry_at, t.resumed, ",
            "t.parked_ms, t.parked_at, q.rounds, q.kinds, q.keys, q.requests, q.answers, t.replayed ",
            "FROM tasks t LEFT JOIN LATERAL (SELECT array_agg(round ORDER BY position) AS rounds, ",
            "array_agg(kind ORDER BY position) AS kinds, array_agg(key ORDER BY position) AS keys, ",
            "array_agg(request ORDER BY position) AS requests, array_agg(answer ORDER BY position) AS answers ",
            "FROM questions WHERE task = t.id) q ON t.questions > 0 ",
            $tail
        )
    };
}

pub(super) const TASK: &str = select_tasks!("WHERE t.id = $1");
pub(super) const TASK_OF_KEY: &str =
    select_tasks!("WHERE t.principal = $1 AND t.tool = $2 AND t.idem_key = $3");
/// To be read once they are locked, by a statement of its own: one that waits for a lock sees what others
/// have committed meanwhile in the locked row alone.
pub(super) const TASKS_OF_BATCH: &str = select_tasks!("WHERE t.id = ANY($1)");
/// In one order for everybody, so that no two batches wait for each other.
pub(super) const LOCK_TASKS: &str = "SELECT n FROM tasks WHERE id = ANY($1) ORDER BY id FOR UPDATE";
/// Of two processes that admit a key, the second waits until the first has committed.
pub(super) const LOCK_KEYS: &str = "SELECT pg_advisory_xact_lock(k) FROM unnest($1::int8[]) AS k";
pub(super) static IDS_OF_KEYS: Bulk = Bulk::new(
    "SELECT t.id FROM",
    &[("principal", Bytes), ("tool", Bytes), ("idem_key", Bytes)],
    "JOIN tasks t ON t.principal = r.principal AND t.tool = r.tool AND t.idem_key = r.idem_key
     WHERE t.idem_key IS NOT NULL",
);
pub(super) const LIST: &str =
    select_tasks!("WHERE ($1::bytea IS NULL OR t.principal = $1) ORDER BY t.n DESC LIMIT $2");
/// `$1` the process, `$2` now. One index for each reason, so that waiting tasks cost nothing.
pub(super) const ATTENTION: &str = select_tasks!(
    "WHERE t.n IN (
        SELECT n FROM tasks WHERE holder = $1 AND outcome IS NULL AND cancel_requested IS NOT NULL
        UNION SELECT n FROM tasks WHERE holder = $1 AND outcome IS NULL AND due_at <= $2
        UNION SELECT n FROM tasks WHERE holder = $1 AND outcome IS NULL AND status = 'working' AND questions > 0)
     LIMIT 1000"
);
/// Processes that hold live tasks and whose lease is over: `$1` milliseconds after its end in which its
/// holder may still notice. Jumps from holder to holder, so that the many tasks of one cost one step.
macro_rules! with_dead {
    ($rest:expr) => {
        concat!(
            "WITH RECURSIVE holders (boot) AS (
                (SELECT holder FROM tasks WHERE outcome IS NULL AND holder IS NOT NULL ORDER BY holder LIMIT 1)
                UNION ALL SELECT (SELECT holder FROM tasks WHERE outcome IS NULL AND holder > h.boot
                    ORDER BY holder LIMIT 1)
                FROM holders h WHERE h.boot IS NOT NULL),
             dead (boot) AS (SELECT boot FROM holders h WHERE boot IS NOT NULL AND NOT EXISTS (
                SELECT 1 FROM processes p WHERE p.boot = h.boot
                AND p.until > clock_timestamp() - $1 * interval '1 millisecond')) ",
            $rest
        )
    };
}
/// `$2` this process.
pub(super) const ORPHANS: &str = with_dead!(select_tasks!(
    "WHERE t.outcome IS NULL AND t.holder IN (SELECT boot FROM dead WHERE boot <> $2) LIMIT 1000"
));
/// `$2` now, `$3` how many, `$4` the plugins and `$5` the tasks without. Those that wait for nothing, those whose time has come, those of the dead.
pub(super) const RESUMABLE: &str = with_dead!(select_tasks!(
    "WHERE t.n IN (
        (SELECT n FROM tasks WHERE outcome IS NULL AND holder IS NULL AND ready_at = 0 AND expires_at > $2
            AND plugin <> ALL($4) AND id <> ALL($5) ORDER BY n LIMIT $3)
        UNION ALL (SELECT n FROM tasks WHERE outcome IS NULL AND holder IS NULL AND ready_at > 0
            AND ready_at <= $2 AND expires_at > $2 AND plugin <> ALL($4) AND id <> ALL($5) ORDER BY ready_at LIMIT $3)
        UNION ALL (SELECT n FROM tasks WHERE outcome IS NULL AND holder IN (SELECT boot FROM dead)
            AND ready_at <= $2 AND expires_at > $2 AND plugin <> ALL($4) AND id <> ALL($5) ORDER BY n LIMIT $3))
     ORDER BY t.n LIMIT $3"
));
/// `$1` now.
pub(super) const UNATTENDED: &str = select_tasks!(
    "WHERE t.n IN (
        SELECT n FROM tasks WHERE holder IS NULL AND outcome IS NULL AND cancel_requested IS NOT NULL
        UNION SELECT n FROM tasks WHERE holder IS NULL AND outcome IS NULL AND due_at <= $1)
     LIMIT 1000"
);
/// The pieces that its row counts beside each there is (a row without one where there is none), and its blobs. One
/// statement, so that both are as of one moment.
pub(super) const JOURNAL: &str = "SELECT t.pieces, j.n, NULL, j.bytes FROM tasks t LEFT JOIN journals j
    ON j.task = t.id WHERE t.id = $1
 UNION ALL SELECT t.pieces, b.n, b.digest, b.bytes FROM tasks t JOIN blobs b ON b.task = t.id WHERE t.id = $1
 ORDER BY 2";
pub(super) const LEASED: &str = "SELECT EXISTS (SELECT 1 FROM processes WHERE boot = $1
 AND until > clock_timestamp() - $2 * interval '1 millisecond')";
pub(super) const ALONE: &str =
    "SELECT DISTINCT holder FROM tasks WHERE outcome IS NULL AND holder IS NOT NULL AND attempts > 1";
pub(super) const COUNT_LIVE: &str = "SELECT principal, count(*) FROM tasks WHERE outcome IS NULL \
 GROUP BY principal ORDER BY principal";
/// `$1` how many at most, `$2` whose.
pub(super) const COUNT_HIDDEN_OF: &str = "SELECT count(*) FROM (SELECT 1 FROM tasks
 WHERE outcome IS NULL AND NOT revealed AND questions > 0 AND principal = $2 LIMIT $1) t";
pub(super) const COUNT_HIDDEN: &str = "SELECT count(*) FROM (SELECT 1 FROM tasks
 WHERE outcome IS NULL AND NOT revealed AND questions > 0 LIMIT $1) t";
pub(super) const TOMBSTONE: &str =
    "SELECT id, principal, status, reason, expired_at FROM tombstones WHERE id = $1";

/// The columns that a change may write.
macro_rules! with_changing {
    ($($first:expr),*) => {
        &[
            $($first,)*
            ("status", Text), ("status_message", Bytes), ("updated_at", Int), ("ttl", Int),
            ("poll_interval", Int), ("active_left", Int), ("absence", Int), ("holder", Bytes), ("fence", Int),
            ("cancel_requested", Int), ("input_deadline", Int), ("resume_on_timeout", Bool),
            ("revealed", Bool), ("questions", Int), ("expires_at", Int), ("due_at", Int), ("outcome", Bytes),
            ("pieces", Int), ("pinned", Bytes), ("wake_at", Int), ("attempts", Int), ("retry_at", Int),
            ("resumed", Int), ("parked_ms", Int), ("parked_at", Int), ("ready_at", Int),
            ("replayed", Int),
        ]
    };
}

pub(super) static INSERT_TASKS: Bulk = Bulk::new(
    "INSERT INTO tasks (id, principal, tool, plugin, digest, created_at, idem_key, idem_arguments, status,
    status_message, updated_at, ttl, poll_interval, active_left, absence, holder, fence, cancel_requested,
    input_deadline, resume_on_timeout, revealed, questions, expires_at, due_at, outcome, pieces, pinned,
    wake_at, attempts, retry_at, resumed, parked_ms, parked_at, ready_at, replayed) SELECT * FROM",
    with_changing![
        ("id", Bytes),
        ("principal", Bytes),
        ("tool", Bytes),
        ("plugin", Bytes),
        ("digest", Bytes),
        ("created_at", Int),
        ("idem_key", Bytes),
        ("idem_arguments", Bytes)
    ],
    "",
);

/// Terminal is final and the fence holds here once more, whatever a change has computed: rows that
/// do not match are not counted, and the batch fails.
pub(super) static UPDATE_TASKS: Bulk = Bulk::new(
    "UPDATE tasks SET status = r.status, status_message = r.status_message, updated_at = r.updated_at,
    ttl = r.ttl, poll_interval = r.poll_interval, active_left = r.active_left, absence = r.absence,
    holder = r.holder, fence = r.fence, cancel_requested = r.cancel_requested,
    input_deadline = r.input_deadline, resume_on_timeout = r.resume_on_timeout, revealed = r.revealed,
    questions = r.questions, expires_at = r.expires_at, due_at = r.due_at, outcome = r.outcome,
    pieces = r.pieces, pinned = r.pinned, wake_at = r.wake_at, attempts = r.attempts, retry_at = r.retry_at,
    resumed = r.resumed, parked_ms = r.parked_ms, parked_at = r.parked_at, ready_at = r.ready_at, replayed = r.replayed FROM",
    with_changing![("id", Bytes), ("was", Int)],
    "WHERE tasks.id = r.id AND tasks.fence = r.was AND (tasks.outcome IS NULL OR tasks.outcome = r.outcome)",
);

pub(super) static INSERT_QUESTIONS: Bulk = Bulk::new(
    "INSERT INTO questions (task, position, round, kind, key, request, answer) SELECT * FROM",
    &[
        ("task", Bytes),
        ("position", Int),
        ("round", Int),
        ("kind", Text),
        ("key", Bytes),
        ("request", Bytes),
        ("answer", Bytes),
    ],
    "",
);

/// Never replaced: a piece that is there already fails the batch.
pub(super) static INSERT_PIECES: Bulk = Bulk::new(
    "INSERT INTO journals (task, n, bytes) SELECT * FROM",
    &[("task", Bytes), ("n", Int), ("bytes", Bytes)],
    "",
);
/// The same.
pub(super) static INSERT_BLOBS: Bulk = Bulk::new(
    "INSERT INTO blobs (task, n, digest, bytes) SELECT * FROM",
    &[("task", Bytes), ("n", Int), ("digest", Bytes), ("bytes", Bytes)],
    "",
);

/// An answer is written once.
pub(super) static ANSWER_QUESTIONS: Bulk = Bulk::new(
    "UPDATE questions SET answer = r.answer FROM",
    &[("task", Bytes), ("position", Int), ("answer", Bytes)],
    "WHERE questions.task = r.task AND questions.position = r.position AND questions.answer IS NULL",
);

/// Makes tombstones of the tasks that `gone` deletes; how many they were. No client has the handle of a
/// task that was never revealed.
macro_rules! bury {
    ($which:literal) => {
        concat!(
            "WITH gone AS (DELETE FROM tasks WHERE ",
            $which,
            " RETURNING id, principal, status, status_message, expires_at, revealed),
             stones AS (INSERT INTO tombstones (id, principal, status, reason, expired_at)
                SELECT id, principal, status, status_message, expires_at FROM gone WHERE revealed
                ON CONFLICT (id) DO UPDATE SET principal = excluded.principal, status = excluded.status,
                    reason = excluded.reason, expired_at = excluded.expired_at)
             SELECT count(*) FROM gone"
        )
    };
}
pub(super) const BURY_BATCH: &str = bury!("id = ANY($1)");
/// `$1` now, `$2` how many at once. What another process is writing just now waits for the next sweep.
pub(super) const BURY_EXPIRED: &str = bury!(
    "n IN (SELECT n FROM tasks WHERE outcome IS NOT NULL AND expires_at <= $1 ORDER BY expires_at, n LIMIT $2
        FOR UPDATE SKIP LOCKED)"
);
pub(super) const DELETE_TOMBSTONES: &str = "DELETE FROM tombstones WHERE id IN (SELECT id FROM tombstones
    WHERE expired_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED)";
/// `$1` milliseconds.
pub(super) const DELETE_WRITERS: &str =
    "DELETE FROM writers WHERE written_at < clock_timestamp() - $1 * interval '1 millisecond'";
/// `$1` milliseconds that a component stays though nothing names it: it is stored before what names it.
pub(super) const DELETE_COMPONENTS: &str = "DELETE FROM components c
 WHERE stored_at < clock_timestamp() - $1 * interval '1 millisecond'
    AND NOT EXISTS (SELECT 1 FROM tasks WHERE digest = c.digest AND outcome IS NULL)
    AND NOT EXISTS (SELECT 1 FROM plugins WHERE plugins.digest = c.digest OR granted = c.digest)";

/// `$2` milliseconds from now.
pub(super) const HEARTBEAT: &str = "INSERT INTO processes (boot, until)
 VALUES ($1, clock_timestamp() + $2 * interval '1 millisecond')
 ON CONFLICT (boot) DO UPDATE SET until = excluded.until
 RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::int8";
/// Rows of processes that no live task names any more and whose lease is over by `$1` milliseconds.
pub(super) const FORGET_PROCESSES: &str = "DELETE FROM processes p
 WHERE until < clock_timestamp() - $1 * interval '1 millisecond'
    AND NOT EXISTS (SELECT 1 FROM tasks WHERE holder = p.boot AND outcome IS NULL)";
pub(super) const RELEASE: &str = "DELETE FROM processes WHERE boot = $1";

pub(super) const WRITTEN: &str = "INSERT INTO writers (writer, sequence, written_at)
 VALUES ($1, $2, clock_timestamp())
 ON CONFLICT (writer) DO UPDATE SET sequence = excluded.sequence, written_at = excluded.written_at";
/// Before its first commit, so that [`LAST_WRITTEN`] always finds a row to wait for.
pub(super) const BEGIN_WRITER: &str = "INSERT INTO writers (writer, sequence, written_at)
 VALUES ($1, 0, clock_timestamp())
 ON CONFLICT (writer) DO UPDATE SET written_at = excluded.written_at";
/// Waits until a commit that may still be under way has ended.
pub(super) const LAST_WRITTEN: &str = "SELECT sequence FROM writers WHERE writer = $1 FOR UPDATE";

pub(super) const NOTIFY: &str = "SELECT pg_notify('layby', $1)";

macro_rules! select_plugins {
    ($rest:literal) => {
        concat!(
            "SELECT name, digest, granted, policy, without_grants, tools, prompts, resources,
    templates, listed, adopted_at, refusal, replica,
    seen_at > clock_timestamp() - $2 * interval '1 millisecond' AS lives
 FROM plugins JOIN replicas USING (replica) ",
            $rest
        )
    };
}
/// `$1` this replica, `$2` how many milliseconds a replica lives without being heard of.
pub(super) const PLUGINS: &str = select_plugins!("WHERE replica = $1 ORDER BY name");
/// Those of all others.
pub(super) const PLUGINS_ELSEWHERE: &str =
    select_plugins!("WHERE replica <> $1 ORDER BY name, adopted_at DESC, replica");
/// Whoever may own a name that the plugin `$3` wants.
pub(super) const OWNERS: &str = select_plugins!(
    "WHERE name <> $3 AND (replica = $1 OR seen_at > clock_timestamp() - $2 * interval '1 millisecond')
 ORDER BY name, replica"
);
pub(super) const SEE_REPLICA: &str = "INSERT INTO replicas (replica, seen_at) VALUES ($1, clock_timestamp())
 ON CONFLICT (replica) DO UPDATE SET seen_at = excluded.seen_at";
/// One without plugins need not be known.
pub(super) const SEE_KNOWN_REPLICA: &str =
    "UPDATE replicas SET seen_at = clock_timestamp() WHERE replica = $1";
/// `$1` milliseconds; their plugins go with them.
pub(super) const DELETE_REPLICAS: &str =
    "DELETE FROM replicas WHERE seen_at < clock_timestamp() - $1 * interval '1 millisecond'";
pub(super) const PUT_PLUGIN: &str =
    "INSERT INTO plugins (name, digest, granted, policy, without_grants, tools,
    prompts, resources, templates, listed, adopted_at, refusal, replica)
 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
 ON CONFLICT (replica, name) DO UPDATE SET digest = excluded.digest, granted = excluded.granted,
    policy = excluded.policy, without_grants = excluded.without_grants, tools = excluded.tools,
    prompts = excluded.prompts, resources = excluded.resources, templates = excluded.templates,
    listed = excluded.listed, adopted_at = excluded.adopted_at, refusal = excluded.refusal";
pub(super) const DROP_PLUGIN: &str = "DELETE FROM plugins WHERE name = $1 AND replica = $2";
pub(super) const DIGESTS: &str = "SELECT digest FROM plugins WHERE digest IS NOT NULL
 UNION SELECT granted FROM plugins WHERE granted IS NOT NULL
 UNION SELECT digest FROM tasks WHERE outcome IS NULL";

pub(super) const REVOKED: &str = "SELECT digest, revoked_at, reason FROM revoked ORDER BY digest";
/// What is there stays.
pub(super) const REVOKE: &str = "INSERT INTO revoked (digest, revoked_at, reason) VALUES ($1, $2, $3)
 ON CONFLICT (digest) DO NOTHING";
pub(super) const UNREVOKE: &str = "DELETE FROM revoked WHERE digest = $1";
/// `$1` how many at most. From the revoked to their tasks, never the other way: the order is that of the index, which leaves
/// no other plan worth its while, whatever share of all tasks one component has; and an array is looked up row by row.
pub(super) const CONDEMNED: &str = select_tasks!(
    "WHERE t.n = ANY (ARRAY(SELECT x.n FROM revoked r CROSS JOIN LATERAL (SELECT n FROM tasks
        WHERE digest = r.digest AND outcome IS NULL AND holder IS NULL ORDER BY principal LIMIT $1) x LIMIT $1))"
);

/// The first one stays: others may have used it by then.
pub(super) const KEEP_SECRET: &str =
    "INSERT INTO secrets (name, secret) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
pub(super) const SECRET: &str = "SELECT secret FROM secrets WHERE name = $1";

/// The same bytes always: only their age begins anew.
pub(super) const PUT_COMPONENT: &str = "INSERT INTO components (digest, bytes, stored_at)
 VALUES ($1, $2, clock_timestamp()) ON CONFLICT (digest) DO UPDATE SET stored_at = excluded.stored_at";
pub(super) const TOUCH_COMPONENT: &str =
    "UPDATE components SET stored_at = clock_timestamp() WHERE digest = $1 RETURNING 1";
pub(super) const COMPONENT: &str = "SELECT bytes FROM components WHERE digest = $1";

/// What a server must be: not a read-only copy, and of a version that this was written for.
pub(super) const SERVER: &str = "SELECT pg_is_in_recovery(), current_setting('server_version_num')::int4,
    current_setting('synchronous_commit'), current_setting('fsync'), current_setting('server_encoding')";
