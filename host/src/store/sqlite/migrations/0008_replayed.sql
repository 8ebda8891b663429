-- Fuel that the task's resumes have replayed, summed up.
ALTER TABLE tasks ADD COLUMN replayed INTEGER NOT NULL DEFAULT 0;
