-- Fuel that the task's resumes have replayed, summed up.
ALTER TABLE tasks ADD COLUMN replayed BIGINT NOT NULL DEFAULT 0;
