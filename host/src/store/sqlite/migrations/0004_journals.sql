-- What lets a run be resumed: its journal, in pieces that only the journal's own code reads, and what the
-- row knows of it. A task with "holder" null that lives is nobody's: parked, or handed back.
CREATE TABLE journals (
    task BLOB NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    n INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (task, n)
) STRICT, WITHOUT ROWID;

ALTER TABLE tasks ADD COLUMN pieces INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN pinned BLOB;
ALTER TABLE tasks ADD COLUMN wake_at INTEGER;
ALTER TABLE tasks ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN retry_at INTEGER;
ALTER TABLE tasks ADD COLUMN resumed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN parked_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN parked_at INTEGER;
-- From when a process may claim it, were it nobody's (0: at once); null where none may.
ALTER TABLE tasks ADD COLUMN ready_at INTEGER;

-- Parked tasks may be many: every look that a process takes each second goes over entries that it wants.
DROP INDEX tasks_live;
DROP INDEX tasks_due;
-- "outcome" is in it so that counting needs no row.
CREATE INDEX tasks_live ON tasks (digest, outcome) WHERE outcome IS NULL;
CREATE INDEX tasks_due ON tasks (holder, due_at) WHERE outcome IS NULL;
CREATE INDEX tasks_ready ON tasks (ready_at) WHERE outcome IS NULL AND holder IS NULL AND ready_at IS NOT NULL;
