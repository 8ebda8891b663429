-- What a guest or a client wrote is bytea: its bytes come back as they went in. Times are milliseconds,
-- by the hosts' clocks; leases are by the server's. "outcome" is null exactly while a task lives, and
-- "holder" of a live task is null where it is nobody's: parked, or handed back.
CREATE TABLE tasks (
    n BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id BYTEA NOT NULL UNIQUE CHECK (length(id) = 16),
    principal BYTEA NOT NULL,
    tool BYTEA NOT NULL,
    plugin BYTEA NOT NULL,
    digest BYTEA NOT NULL CHECK (length(digest) = 32),
    status TEXT NOT NULL
        CHECK (status IN ('working', 'input_required', 'completed', 'failed', 'cancelled')),
    status_message BYTEA,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ttl BIGINT NOT NULL,
    poll_interval BIGINT NOT NULL,
    active_left BIGINT NOT NULL,
    absence BIGINT NOT NULL,
    holder BYTEA,
    fence BIGINT NOT NULL,
    cancel_requested BIGINT,
    input_deadline BIGINT,
    resume_on_timeout BOOLEAN NOT NULL,
    revealed BOOLEAN NOT NULL,
    idem_key BYTEA,
    idem_arguments BYTEA,
    questions BIGINT NOT NULL,
    -- created_at + ttl, and the earlier of that and input_deadline.
    expires_at BIGINT NOT NULL,
    due_at BIGINT NOT NULL,
    outcome BYTEA,
    pieces BIGINT NOT NULL,
    pinned BYTEA,
    wake_at BIGINT,
    attempts BIGINT NOT NULL,
    retry_at BIGINT,
    resumed BIGINT NOT NULL,
    parked_ms BIGINT NOT NULL,
    parked_at BIGINT,
    -- From when a process may claim it, were it nobody's (0: at once); null where none may.
    ready_at BIGINT,
    CHECK ((status IN ('working', 'input_required')) = (outcome IS NULL)),
    CHECK ((idem_key IS NULL) = (idem_arguments IS NULL))
);

CREATE UNIQUE INDEX tasks_by_key ON tasks (principal, tool, idem_key) WHERE idem_key IS NOT NULL;
-- Parked tasks may be many: every look that a process takes each second goes over entries that it wants.
CREATE INDEX tasks_live ON tasks (digest) WHERE outcome IS NULL;
CREATE INDEX tasks_due ON tasks (holder, due_at) WHERE outcome IS NULL;
CREATE INDEX tasks_cancelling ON tasks (holder) WHERE outcome IS NULL AND cancel_requested IS NOT NULL;
CREATE INDEX tasks_answered ON tasks (holder) WHERE outcome IS NULL AND status = 'working' AND questions > 0;
CREATE INDEX tasks_ready ON tasks (ready_at, n) WHERE outcome IS NULL AND holder IS NULL AND ready_at IS NOT NULL;
CREATE INDEX tasks_ended ON tasks (expires_at, n) WHERE outcome IS NOT NULL;

CREATE TABLE questions (
    task BYTEA NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    round BIGINT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('form', 'url', 'sampling', 'roots')),
    key BYTEA NOT NULL,
    request BYTEA NOT NULL,
    answer BYTEA,
    PRIMARY KEY (task, position)
);

-- Pieces that only the journal's own code reads.
CREATE TABLE journals (
    task BYTEA NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    n BIGINT NOT NULL,
    bytes BYTEA NOT NULL,
    PRIMARY KEY (task, n)
);

CREATE TABLE tombstones (
    id BYTEA PRIMARY KEY,
    principal BYTEA NOT NULL,
    status TEXT NOT NULL,
    reason BYTEA,
    expired_at BIGINT NOT NULL
);
CREATE INDEX tombstones_by_age ON tombstones (expired_at);

-- Live processes: the right to run the tasks they hold, until a moment of the server's clock.
CREATE TABLE processes (
    boot BYTEA PRIMARY KEY,
    until TIMESTAMPTZ NOT NULL
);

-- The last commit of each writer: after a commit whose outcome is unknown, this says whether it happened.
CREATE TABLE writers (
    writer BYTEA PRIMARY KEY,
    sequence BIGINT NOT NULL,
    written_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE plugins (
    name BYTEA PRIMARY KEY,
    digest BYTEA CHECK (length(digest) = 32),
    granted BYTEA CHECK (length(granted) = 32),
    policy BYTEA NOT NULL,
    without_grants BOOLEAN NOT NULL,
    tools BYTEA NOT NULL,
    prompts BYTEA NOT NULL,
    resources BYTEA NOT NULL,
    templates BYTEA NOT NULL,
    listed BYTEA NOT NULL,
    adopted_at BIGINT NOT NULL,
    refusal BYTEA
);

-- Keys that every process on this database shares, made by the first that needs one.
CREATE TABLE secrets (
    name TEXT PRIMARY KEY,
    secret BYTEA NOT NULL
);

-- Components, so that a process without the file can go on with a task that was begun on it.
CREATE TABLE components (
    digest BYTEA PRIMARY KEY CHECK (length(digest) = 32),
    bytes BYTEA NOT NULL,
    stored_at TIMESTAMPTZ NOT NULL
);
-- They are compressed already, or nearly so: do not try again at each write.
ALTER TABLE components ALTER COLUMN bytes SET STORAGE EXTERNAL;
