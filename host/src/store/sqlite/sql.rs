//! Every statement, in one place. One that takes many rows is a [`Bulk`].

use std::sync::OnceLock;

/// A statement over any number of rows, each a group of bound values. A text for each number of rows
/// would fill the cache of prepared statements, so there is one for each power of two.
pub(super) struct Bulk {
    head: &'static str,
    tail: &'static str,
    /// Values of a row.
    pub(super) width: usize,
    texts: [OnceLock<String>; Bulk::SIZES],
}

impl Bulk {
    /// 1, 2, 4, … 64 rows: 64 of the widest are 2,176 of the 32,766 values that SQLite binds.
    pub(super) const SIZES: usize = 7;

    const fn new(head: &'static str, width: usize, tail: &'static str) -> Self {
        Self { head, tail, width, texts: [const { OnceLock::new() }; Bulk::SIZES] }
    }

    /// The text for two to the power of `size` rows.
    pub(super) fn text(&'static self, size: usize) -> &'static str {
        self.texts[size].get_or_init(|| {
            let row = format!("({})", vec!["?"; self.width].join(","));
            format!("{}{}{}", self.head, vec![row; 1 << size].join(","), self.tail)
        })
    }
}

/// Rows of tasks with their questions, as `rows::task` reads them; the tail says which.
macro_rules! select_tasks {
    ($tail:literal) => {
        concat!(
            "SELECT t.id, t.principal, t.tool, t.plugin, t.digest, t.status, t.status_message, ",
            "t.created_at, t.updated_at, t.ttl, t.poll_interval, t.active_left, t.absence, t.holder, t.fence, ",
            "t.cancel_requested, t.input_deadline, t.resume_on_timeout, t.idem_key, t.idem_arguments, ",
            "t.revealed, t.outcome, ",
            "CASE t.questions WHEN 0 THEN NULL ELSE (SELECT group_concat(q.position || ' ' || q.round || ' ' ",
            "|| q.kind || ' ' || hex(q.key) || ' ' || hex(q.request) || ' ' || coalesce(hex(q.answer), ''), ",
            "char(10)) FROM questions q WHERE q.task = t.id) END, ",
            "t.pieces, t.pinned, t.wake_at, t.attempts, t.retry_at, t.resumed, t.parked_ms, t.parked_at, ",
            "t.replayed ",
            "FROM tasks t ",
            $tail
        )
    };
}

pub(super) const TASK: &str = select_tasks!("WHERE t.id = ?1");
pub(super) const TASK_OF_KEY: &str =
    select_tasks!("WHERE t.principal = ?1 AND t.tool = ?2 AND t.idem_key = ?3");
pub(super) static TASKS_OF_BATCH: Bulk = Bulk::new(select_tasks!("WHERE t.id IN (VALUES "), 1, ")");
pub(super) static TASKS_OF_KEYS: Bulk = Bulk::new(
    select_tasks!("JOIN (VALUES "),
    3,
    ") j ON t.principal = j.column1 AND t.tool = j.column2 AND t.idem_key = j.column3
     WHERE t.idem_key IS NOT NULL",
);
pub(super) const LIST: &str =
    select_tasks!("WHERE (?1 IS NULL OR t.principal = ?1) ORDER BY t.n DESC LIMIT ?2");
/// `?1` the process, `?2` now. One index for each reason, so that waiting tasks cost nothing.
pub(super) const ATTENTION: &str = select_tasks!(
    "WHERE t.n IN (
        SELECT n FROM tasks INDEXED BY tasks_cancelling
            WHERE holder = ?1 AND outcome IS NULL AND cancel_requested IS NOT NULL
        UNION SELECT n FROM tasks INDEXED BY tasks_due
            WHERE holder = ?1 AND outcome IS NULL AND due_at <= ?2
        UNION SELECT n FROM tasks INDEXED BY tasks_answered
            WHERE holder = ?1 AND outcome IS NULL AND status = 'working' AND questions > 0)
     LIMIT 1000"
);
/// Processes that hold live tasks and whose lease is over: `?2` this boot of the system, `?3` the latest
/// boot-time at which a lease is over. Jumps from holder to holder, so that the many tasks of one cost
/// one step.
macro_rules! with_dead {
    ($rest:expr) => {
        concat!(
            "WITH RECURSIVE holders (boot) AS (
                SELECT min(holder) FROM tasks INDEXED BY tasks_due WHERE outcome IS NULL AND holder IS NOT NULL
                UNION ALL SELECT (SELECT min(holder) FROM tasks INDEXED BY tasks_due
                    WHERE outcome IS NULL AND holder > holders.boot)
                FROM holders WHERE boot IS NOT NULL),
             dead (boot) AS (SELECT boot FROM holders h WHERE boot IS NOT NULL AND NOT EXISTS (
                SELECT 1 FROM processes p
                WHERE p.boot = h.boot AND p.os_boot = ?2 AND p.until_boottime > ?3)) ",
            $rest
        )
    };
}
/// `?1` this process.
pub(super) const ORPHANS: &str = with_dead!(select_tasks!(
    "INDEXED BY tasks_due WHERE t.outcome IS NULL AND t.holder IN (SELECT boot FROM dead WHERE boot <> ?1)
     LIMIT 1000"
));
/// `?1` now, `?4` how many, `?5` a JSON array of the plugins without, `?6` one of the tasks. Those that wait for nothing, those whose time has come, those of the dead.
pub(super) const RESUMABLE: &str = with_dead!(select_tasks!(
    "WHERE t.n IN (
        SELECT * FROM (SELECT n FROM tasks INDEXED BY tasks_ready
            WHERE outcome IS NULL AND holder IS NULL AND ready_at = 0 AND expires_at > ?1
                AND plugin NOT IN (SELECT value FROM json_each(?5))
                AND lower(hex(id)) NOT IN (SELECT value FROM json_each(?6)) ORDER BY n LIMIT ?4)
        UNION ALL SELECT * FROM (SELECT n FROM tasks INDEXED BY tasks_ready
            WHERE outcome IS NULL AND holder IS NULL AND ready_at > 0 AND ready_at <= ?1 AND expires_at > ?1
                AND plugin NOT IN (SELECT value FROM json_each(?5))
                AND lower(hex(id)) NOT IN (SELECT value FROM json_each(?6)) ORDER BY ready_at LIMIT ?4)
        UNION ALL SELECT * FROM (SELECT n FROM tasks INDEXED BY tasks_due
            WHERE outcome IS NULL AND holder IN dead AND ready_at <= ?1 AND expires_at > ?1
                AND plugin NOT IN (SELECT value FROM json_each(?5))
                AND lower(hex(id)) NOT IN (SELECT value FROM json_each(?6)) ORDER BY n LIMIT ?4))
     ORDER BY t.n LIMIT ?4"
));
/// `?1` now.
pub(super) const UNATTENDED: &str = select_tasks!(
    "WHERE t.n IN (
        SELECT n FROM tasks INDEXED BY tasks_cancelling
            WHERE holder IS NULL AND outcome IS NULL AND cancel_requested IS NOT NULL
        UNION SELECT n FROM tasks INDEXED BY tasks_due
            WHERE holder IS NULL AND outcome IS NULL AND due_at <= ?1)
     LIMIT 1000"
);
/// The pieces that its row counts beside each there is (a row without one where there is none), and its blobs. One
/// statement, so that both are as of one moment.
pub(super) const JOURNAL: &str = "SELECT t.pieces, j.n, NULL, j.bytes FROM tasks t LEFT JOIN journals j
    ON j.task = t.id WHERE t.id = ?1
 UNION ALL SELECT t.pieces, b.n, b.digest, b.bytes FROM tasks t JOIN blobs b ON b.task = t.id WHERE t.id = ?1
 ORDER BY 2";
pub(super) const LEASED: &str =
    "SELECT count(*) FROM processes WHERE boot = ?1 AND os_boot = ?2 AND until_boottime > ?3";
pub(super) const ALONE: &str = "SELECT DISTINCT holder FROM tasks INDEXED BY tasks_alone
    WHERE outcome IS NULL AND holder IS NOT NULL AND attempts > 1";
/// Of one principal as many rows as there are components, so that it goes along the index.
pub(super) const COUNT_LIVE: &str = "SELECT principal, count(*) FROM tasks INDEXED BY tasks_live \
 WHERE outcome IS NULL GROUP BY digest, principal";
/// `?1` how many at most, `?2` whose.
pub(super) const COUNT_HIDDEN_OF: &str = "SELECT count(*) FROM (SELECT 1 FROM tasks INDEXED BY tasks_hidden
 WHERE outcome IS NULL AND revealed = 0 AND questions > 0 AND principal = ?2 LIMIT ?1)";
pub(super) const COUNT_HIDDEN: &str = "SELECT count(*) FROM (SELECT 1 FROM tasks INDEXED BY tasks_hidden
 WHERE outcome IS NULL AND revealed = 0 AND questions > 0 LIMIT ?1)";
pub(super) const TOMBSTONE: &str =
    "SELECT id, principal, status, reason, expired_at FROM tombstones WHERE id = ?1";

pub(super) static INSERT_TASKS: Bulk = Bulk::new(
    "INSERT INTO tasks (id, principal, tool, plugin, digest, created_at,
    idem_key, idem_arguments, status, status_message, updated_at, ttl, poll_interval, active_left, absence,
    holder, fence, cancel_requested, input_deadline, resume_on_timeout, revealed, questions, expires_at,
    due_at, outcome, pieces, pinned, wake_at, attempts, retry_at, resumed, parked_ms, parked_at, ready_at, replayed)
 VALUES ",
    35,
    "",
);

/// Terminal is final and the fence holds here once more, whatever a change has computed: rows that
/// do not match are not counted, and the batch fails.
pub(super) static UPDATE_TASKS: Bulk = Bulk::new(
    "UPDATE tasks SET
    status = r.column3, status_message = r.column4, updated_at = r.column5, ttl = r.column6,
    poll_interval = r.column7, active_left = r.column8, absence = r.column9, holder = r.column10,
    fence = r.column11, cancel_requested = r.column12, input_deadline = r.column13,
    resume_on_timeout = r.column14, revealed = r.column15, questions = r.column16, expires_at = r.column17,
    due_at = r.column18, outcome = r.column19, pieces = r.column20, pinned = r.column21,
    wake_at = r.column22, attempts = r.column23, retry_at = r.column24, resumed = r.column25,
    parked_ms = r.column26, parked_at = r.column27, ready_at = r.column28,
    replayed = r.column29
 FROM (VALUES ",
    29,
    ") r
 WHERE tasks.id = r.column1 AND tasks.fence = r.column2
    AND (tasks.outcome IS NULL OR tasks.outcome = r.column19)",
);

pub(super) static INSERT_QUESTIONS: Bulk =
    Bulk::new("INSERT INTO questions (task, position, round, kind, key, request, answer) VALUES ", 7, "");

/// Never replaced: a piece that is there already fails the batch.
pub(super) static INSERT_PIECES: Bulk = Bulk::new("INSERT INTO journals (task, n, bytes) VALUES ", 3, "");
/// The same.
pub(super) static INSERT_BLOBS: Bulk = Bulk::new("INSERT INTO blobs (task, n, digest, bytes) VALUES ", 4, "");

/// An answer is written once.
pub(super) static ANSWER_QUESTIONS: Bulk = Bulk::new(
    "UPDATE questions SET answer = r.column3 FROM (VALUES ",
    3,
    ") r
 WHERE questions.task = r.column1 AND questions.position = r.column2 AND questions.answer IS NULL",
);

pub(super) static BURY_BATCH: Bulk = Bulk::new(
    "INSERT OR REPLACE INTO tombstones (id, principal, status, reason, expired_at)
 SELECT id, principal, status, status_message, expires_at FROM tasks WHERE id IN (VALUES ",
    1,
    ")",
);
pub(super) static DELETE_BATCH: Bulk = Bulk::new("DELETE FROM tasks WHERE id IN (VALUES ", 1, ")");

/// `?1` now, `?2` how many at once. No client has the handle of a task that was never revealed.
pub(super) const BURY_EXPIRED: &str =
    "INSERT OR REPLACE INTO tombstones (id, principal, status, reason, expired_at)
 SELECT id, principal, status, status_message, expires_at FROM (SELECT * FROM tasks
    WHERE outcome IS NOT NULL AND expires_at <= ?1 ORDER BY expires_at, n LIMIT ?2) WHERE revealed";
pub(super) const DELETE_EXPIRED: &str = "DELETE FROM tasks WHERE n IN (SELECT n FROM tasks
    WHERE outcome IS NOT NULL AND expires_at <= ?1 ORDER BY expires_at, n LIMIT ?2)";
pub(super) const DELETE_TOMBSTONES: &str = "DELETE FROM tombstones WHERE id IN (SELECT id FROM tombstones
    WHERE expired_at < ?1 LIMIT ?2)";
pub(super) const DELETE_WRITERS: &str = "DELETE FROM writers WHERE written_at < ?1";

pub(super) const HEARTBEAT: &str = "INSERT INTO processes (boot, os_boot, until_boottime) VALUES (?1, ?2, ?3)
 ON CONFLICT (boot) DO UPDATE SET os_boot = excluded.os_boot, until_boottime = excluded.until_boottime";
/// Rows of processes that no live task names any more and whose lease is long over.
pub(super) const FORGET_PROCESSES: &str = "DELETE FROM processes WHERE (os_boot <> ?1 OR until_boottime < ?2)
    AND NOT EXISTS (SELECT 1 FROM tasks WHERE holder = processes.boot AND outcome IS NULL)";
pub(super) const RELEASE: &str = "DELETE FROM processes WHERE boot = ?1";

pub(super) const WRITTEN: &str = "INSERT INTO writers (writer, sequence, written_at) VALUES (?1, ?2, ?3)
 ON CONFLICT (writer) DO UPDATE SET sequence = excluded.sequence, written_at = excluded.written_at";
/// Changes when another connection has written, and only then (for the connection that asks).
pub(super) const DATA_VERSION: &str = "PRAGMA data_version";
pub(super) const LAST_WRITTEN: &str = "SELECT sequence FROM writers WHERE writer = ?1";

pub(super) const PLUGINS: &str =
    "SELECT name, digest, granted, policy, without_grants, tools, listed, adopted_at, refusal, prompts, resources,
    templates FROM plugins
 ORDER BY name";
pub(super) const PUT_PLUGIN: &str = "INSERT OR REPLACE INTO plugins
    (name, digest, granted, policy, without_grants, tools, listed, adopted_at, refusal, prompts, resources, templates)
 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
pub(super) const DROP_PLUGIN: &str = "DELETE FROM plugins WHERE name = ?1";
pub(super) const DIGESTS: &str =
    "SELECT digest FROM plugins WHERE digest IS NOT NULL UNION SELECT granted FROM plugins
 WHERE granted IS NOT NULL UNION SELECT digest FROM tasks INDEXED BY tasks_live
 WHERE outcome IS NULL";

pub(super) const REVOKED: &str = "SELECT digest, revoked_at, reason FROM revoked ORDER BY digest";
/// What is there stays.
pub(super) const REVOKE: &str =
    "INSERT OR IGNORE INTO revoked (digest, revoked_at, reason) VALUES (?1, ?2, ?3)";
pub(super) const UNREVOKE: &str = "DELETE FROM revoked WHERE digest = ?1";
/// `?1` how many at most. From the revoked to their tasks, never the other way.
pub(super) const CONDEMNED: &str = select_tasks!(
    "WHERE t.n IN (SELECT x.n FROM revoked r CROSS JOIN tasks x INDEXED BY tasks_live
        WHERE x.digest = r.digest AND x.outcome IS NULL AND x.holder IS NULL LIMIT ?1)"
);

/// The first one stays: others may have used it by then.
/// `?1` this run of the system, `?2` the clock, `?3` which one it replaces.
pub(super) const SET_CLOCK: &str = "INSERT INTO clock (os_boot, ahead) VALUES (?1, ?2)
    ON CONFLICT (os_boot) DO UPDATE SET ahead = excluded.ahead WHERE ahead = ?3";
pub(super) const FORGET_CLOCKS: &str = "DELETE FROM clock WHERE os_boot <> ?1";
pub(super) const CLOCK: &str = "SELECT ahead FROM clock WHERE os_boot = ?1";
pub(super) const KEEP_SECRET: &str = "INSERT OR IGNORE INTO secrets (name, secret) VALUES (?1, ?2)";
pub(super) const SECRET: &str = "SELECT secret FROM secrets WHERE name = ?1";
