//! Every statement, in one place. In the statements over a batch, `?1` is a JSON array of rows and
//! `?2` the arena that they point into (see `rows.rs`). A row is read some thirty times, so it is made binary
//! once: as text it would be made anew and parsed anew each time.

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
            "char(10)) FROM questions q WHERE q.task = t.id) END FROM tasks t ",
            $tail
        )
    };
}

pub(super) const TASK: &str = select_tasks!("WHERE t.id = ?1");
pub(super) const TASK_OF_KEY: &str =
    select_tasks!("WHERE t.principal = ?1 AND t.tool = ?2 AND t.idem_key = ?3");
pub(super) const TASKS_OF_BATCH: &str =
    select_tasks!("WHERE t.id IN (SELECT substr(?2, value ->> 0, value ->> 1) FROM json_each(?1))");
pub(super) const TASKS_OF_KEYS: &str = select_tasks!(
    "JOIN json_each(?1) j ON t.principal = CAST(substr(?2, j.value ->> 0, j.value ->> 1) AS TEXT)
     AND t.tool = CAST(substr(?2, j.value ->> 2, j.value ->> 3) AS TEXT)
     AND t.idem_key = substr(?2, j.value ->> 4, j.value ->> 5) WHERE t.idem_key IS NOT NULL"
);
pub(super) const LIST: &str =
    select_tasks!("WHERE (?1 IS NULL OR t.principal = ?1) ORDER BY t.n DESC LIMIT ?2");
/// `?1` the process, `?2` now. One index for each reason, so that waiting tasks cost nothing.
pub(super) const ATTENTION: &str = select_tasks!(
    "WHERE t.n IN (
        SELECT n FROM tasks WHERE holder = ?1 AND outcome IS NULL AND cancel_requested IS NOT NULL
        UNION SELECT n FROM tasks INDEXED BY tasks_due WHERE due_at <= ?2 AND outcome IS NULL AND holder = ?1
        UNION SELECT n FROM tasks WHERE holder = ?1 AND outcome IS NULL AND status = 'working' AND questions > 0)
     LIMIT 1000"
);
/// `?1` this process, `?2` this boot of the system, `?3` the latest boot-time at which a lease is over.
/// Goes over the index of holders, so that the many tasks of this process cost no look at their rows.
pub(super) const ORPHANS: &str = select_tasks!(
    "INDEXED BY tasks_live WHERE t.outcome IS NULL AND t.holder IS NOT ?1 AND NOT EXISTS (SELECT 1 FROM processes p
        WHERE p.boot = t.holder AND p.os_boot = ?2 AND p.until_boottime > ?3) LIMIT 1000"
);
pub(super) const LEASED: &str =
    "SELECT count(*) FROM processes WHERE boot = ?1 AND os_boot = ?2 AND until_boottime > ?3";
pub(super) const COUNT_LIVE: &str = "SELECT count(*) FROM tasks WHERE outcome IS NULL";
pub(super) const TOMBSTONE: &str =
    "SELECT id, principal, status, reason, expired_at FROM tombstones WHERE id = ?1";

pub(super) const INSERT_TASKS: &str =
    "WITH r (value) AS MATERIALIZED (SELECT jsonb(value) FROM json_each(?1))
 INSERT INTO tasks (id, principal, tool, plugin, digest, created_at,
    idem_key, idem_arguments, status, status_message, updated_at, ttl, poll_interval, active_left, absence,
    holder, fence, cancel_requested, input_deadline, resume_on_timeout, revealed, questions, expires_at,
    due_at, outcome)
 SELECT substr(?2, value ->> 0, value ->> 1), CAST(substr(?2, value ->> 2, value ->> 3) AS TEXT),
    CAST(substr(?2, value ->> 4, value ->> 5) AS TEXT), CAST(substr(?2, value ->> 6, value ->> 7) AS TEXT),
    substr(?2, value ->> 8, value ->> 9), value ->> 10, substr(?2, value ->> 11, value ->> 12),
    substr(?2, value ->> 13, value ->> 14), CAST(substr(?2, value ->> 15, value ->> 16) AS TEXT),
    substr(?2, value ->> 17, value ->> 18), value ->> 19, value ->> 20, value ->> 21, value ->> 22,
    value ->> 23, substr(?2, value ->> 24, value ->> 25), value ->> 26, value ->> 27, value ->> 28,
    value ->> 29, value ->> 30, value ->> 31, value ->> 32, value ->> 33,
    substr(?2, value ->> 34, value ->> 35)
 FROM r";

/// Terminal is final and the fence holds here once more, whatever a change has computed: rows that
/// do not match are not counted, and the batch fails.
pub(super) const UPDATE_TASKS: &str =
    "WITH r (value) AS MATERIALIZED (SELECT jsonb(value) FROM json_each(?1))
 UPDATE tasks SET
    status = CAST(substr(?2, value ->> 3, value ->> 4) AS TEXT),
    status_message = substr(?2, value ->> 5, value ->> 6), updated_at = value ->> 7, ttl = value ->> 8,
    poll_interval = value ->> 9, active_left = value ->> 10, absence = value ->> 11,
    holder = substr(?2, value ->> 12, value ->> 13), fence = value ->> 14, cancel_requested = value ->> 15,
    input_deadline = value ->> 16, resume_on_timeout = value ->> 17, revealed = value ->> 18,
    questions = value ->> 19, expires_at = value ->> 20, due_at = value ->> 21,
    outcome = substr(?2, value ->> 22, value ->> 23)
 FROM r
 WHERE tasks.id = substr(?2, value ->> 0, value ->> 1) AND tasks.fence = value ->> 2
    AND (tasks.outcome IS NULL OR tasks.outcome = substr(?2, value ->> 22, value ->> 23))";

pub(super) const INSERT_QUESTIONS: &str =
    "WITH r (value) AS MATERIALIZED (SELECT jsonb(value) FROM json_each(?1))
 INSERT INTO questions (task, position, round, kind, key, request, answer)
 SELECT substr(?2, value ->> 0, value ->> 1), value ->> 2, value ->> 3,
    CAST(substr(?2, value ->> 4, value ->> 5) AS TEXT), substr(?2, value ->> 6, value ->> 7),
    substr(?2, value ->> 8, value ->> 9), substr(?2, value ->> 10, value ->> 11)
 FROM r";

/// An answer is written once.
pub(super) const ANSWER_QUESTIONS: &str =
    "WITH r (value) AS MATERIALIZED (SELECT jsonb(value) FROM json_each(?1))
 UPDATE questions SET answer = substr(?2, value ->> 3, value ->> 4)
 FROM r
 WHERE questions.task = substr(?2, value ->> 0, value ->> 1) AND questions.position = value ->> 2
    AND questions.answer IS NULL";

pub(super) const BURY_BATCH: &str =
    "INSERT OR REPLACE INTO tombstones (id, principal, status, reason, expired_at)
 SELECT id, principal, status, status_message, expires_at FROM tasks
 WHERE id IN (SELECT substr(?2, value ->> 0, value ->> 1) FROM json_each(?1))";
pub(super) const DELETE_BATCH: &str =
    "DELETE FROM tasks WHERE id IN (SELECT substr(?2, value ->> 0, value ->> 1) FROM json_each(?1))";

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
pub(super) const LAST_WRITTEN: &str = "SELECT sequence FROM writers WHERE writer = ?1";

pub(super) const PLUGINS: &str =
    "SELECT name, digest, granted, policy, without_grants, tools, listed, adopted_at, refusal FROM plugins
 ORDER BY name";
pub(super) const PUT_PLUGIN: &str = "INSERT OR REPLACE INTO plugins
    (name, digest, granted, policy, without_grants, tools, listed, adopted_at, refusal)
 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
pub(super) const DROP_PLUGIN: &str = "DELETE FROM plugins WHERE name = ?1";
pub(super) const DIGESTS: &str =
    "SELECT digest FROM plugins WHERE digest IS NOT NULL UNION SELECT granted FROM plugins
 WHERE granted IS NOT NULL UNION SELECT digest FROM tasks WHERE outcome IS NULL";
