-- What the time of day is ahead of the boot-time clock, in milliseconds, in this run of the operating system: what the
-- processes on this file have agreed on.
CREATE TABLE clock (
    os_boot BLOB PRIMARY KEY NOT NULL CHECK (length(os_boot) = 16),
    ahead INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
