-- A replica is a data folder with its plugin folder. Each has rows of its own for what lies there; a row from before
-- belongs to one that is never heard of again.
CREATE TABLE replicas (
    replica BYTEA PRIMARY KEY CHECK (length(replica) = 16),
    seen_at TIMESTAMPTZ NOT NULL
);
INSERT INTO replicas (replica, seen_at) SELECT decode(repeat('00', 16), 'hex'), now() WHERE EXISTS (SELECT 1 FROM plugins);
ALTER TABLE plugins ADD COLUMN replica BYTEA NOT NULL DEFAULT decode(repeat('00', 16), 'hex');
ALTER TABLE plugins ALTER COLUMN replica DROP DEFAULT;
ALTER TABLE plugins DROP CONSTRAINT plugins_pkey;
ALTER TABLE plugins ADD PRIMARY KEY (replica, name);
ALTER TABLE plugins ADD FOREIGN KEY (replica) REFERENCES replicas (replica) ON DELETE CASCADE;
