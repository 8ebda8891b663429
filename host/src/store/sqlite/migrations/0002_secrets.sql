-- Keys that every process on this database shares, made by the first that needs one.
CREATE TABLE secrets (
    name TEXT PRIMARY KEY NOT NULL,
    secret BLOB NOT NULL
) STRICT, WITHOUT ROWID;
