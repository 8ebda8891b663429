-- Tasks that are resumed alone because a process has died of resuming them, or beside them: hardly ever any.
CREATE INDEX tasks_alone ON tasks (holder) WHERE outcome IS NULL AND holder IS NOT NULL AND attempts > 1;
