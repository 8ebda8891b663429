-- What lives is counted by whom it belongs to.
DROP INDEX tasks_live;
CREATE INDEX tasks_live ON tasks (principal, digest, outcome) WHERE outcome IS NULL;
