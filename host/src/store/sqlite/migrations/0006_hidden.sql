-- Runs that have asked by multi round-trip requests and have no handle out: they are bounded by principal.
CREATE INDEX tasks_hidden ON tasks (principal) WHERE outcome IS NULL AND revealed = 0 AND questions > 0;
