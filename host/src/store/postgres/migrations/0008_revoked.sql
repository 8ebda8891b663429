-- Components that no process may run any more.
CREATE TABLE revoked (
    digest BYTEA PRIMARY KEY CHECK (length(digest) = 32),
    revoked_at BIGINT NOT NULL,
    reason BYTEA
);

-- By component first: what lives of one is looked for each second once it is revoked.
DROP INDEX tasks_live;
CREATE INDEX tasks_live ON tasks (digest, principal) WHERE outcome IS NULL;
