-- Large answers that a piece of a journal names by their hash, kept apart so that pieces stay small.
CREATE TABLE blobs (
    task BLOB NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    n INTEGER NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    bytes BLOB NOT NULL,
    PRIMARY KEY (task, n, digest)
) STRICT;
