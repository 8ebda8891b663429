-- What a guest or a client wrote (messages, questions, answers, results) is kept as BLOB: its bytes
-- come back as they went in. Times are milliseconds. "outcome" is null exactly while a task lives.
CREATE TABLE tasks (
    n INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    principal TEXT NOT NULL,
    tool TEXT NOT NULL,
    plugin TEXT NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    status TEXT NOT NULL
        CHECK (status IN ('working', 'input_required', 'completed', 'failed', 'cancelled')),
    status_message BLOB,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    ttl INTEGER NOT NULL,
    poll_interval INTEGER NOT NULL,
    active_left INTEGER NOT NULL,
    absence INTEGER NOT NULL,
    holder BLOB,
    fence INTEGER NOT NULL,
    cancel_requested INTEGER,
    input_deadline INTEGER,
    resume_on_timeout INTEGER NOT NULL,
    revealed INTEGER NOT NULL,
    idem_key BLOB,
    idem_arguments BLOB,
    -- How many rows of "questions" it has: a read without any is one look-up.
    questions INTEGER NOT NULL,
    -- created_at + ttl, and the earlier of that and input_deadline.
    expires_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    outcome BLOB,
    CHECK ((status IN ('working', 'input_required')) = (outcome IS NULL)),
    CHECK ((idem_key IS NULL) = (idem_arguments IS NULL))
) STRICT;

CREATE UNIQUE INDEX tasks_by_key ON tasks (principal, tool, idem_key) WHERE idem_key IS NOT NULL;
CREATE INDEX tasks_live ON tasks (holder) WHERE outcome IS NULL;
CREATE INDEX tasks_due ON tasks (due_at) WHERE outcome IS NULL;
CREATE INDEX tasks_cancelling ON tasks (holder) WHERE outcome IS NULL AND cancel_requested IS NOT NULL;
CREATE INDEX tasks_answered ON tasks (holder) WHERE outcome IS NULL AND status = 'working' AND questions > 0;
CREATE INDEX tasks_ended ON tasks (expires_at) WHERE outcome IS NOT NULL;

CREATE TABLE questions (
    task BLOB NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    round INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('form', 'url', 'sampling', 'roots')),
    key BLOB NOT NULL,
    request BLOB NOT NULL,
    answer BLOB,
    PRIMARY KEY (task, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE tombstones (
    id BLOB PRIMARY KEY NOT NULL,
    principal TEXT NOT NULL,
    status TEXT NOT NULL,
    reason BLOB,
    expired_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tombstones_by_age ON tombstones (expired_at);

-- Live processes: the right to run the tasks they hold, until a moment of the boot-time clock.
CREATE TABLE processes (
    boot BLOB PRIMARY KEY NOT NULL,
    os_boot BLOB NOT NULL,
    until_boottime INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The last commit of each writer: after a commit whose outcome is unknown, this says whether it happened.
CREATE TABLE writers (
    writer BLOB PRIMARY KEY NOT NULL,
    sequence INTEGER NOT NULL,
    written_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE plugins (
    name TEXT PRIMARY KEY NOT NULL,
    digest BLOB CHECK (length(digest) = 32),
    granted BLOB CHECK (length(granted) = 32),
    policy BLOB NOT NULL,
    without_grants INTEGER NOT NULL,
    tools BLOB NOT NULL,
    listed BLOB NOT NULL,
    adopted_at INTEGER NOT NULL,
    refusal BLOB
) STRICT, WITHOUT ROWID;
