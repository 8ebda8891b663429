-- Components that no process may run any more.
CREATE TABLE revoked (
    digest BLOB PRIMARY KEY NOT NULL CHECK (length(digest) = 32),
    revoked_at INTEGER NOT NULL,
    reason BLOB
) STRICT, WITHOUT ROWID;

-- By component first: what lives of one is looked for each second once it is revoked.
DROP INDEX tasks_live;
CREATE INDEX tasks_live ON tasks (digest, principal, outcome) WHERE outcome IS NULL;
