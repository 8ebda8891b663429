-- Large answers that a piece of a journal names by their hash, kept apart so that pieces stay small.
CREATE TABLE blobs (
    task BYTEA NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    n BIGINT NOT NULL,
    digest BYTEA NOT NULL CHECK (length(digest) = 32),
    bytes BYTEA NOT NULL,
    PRIMARY KEY (task, n, digest)
);
