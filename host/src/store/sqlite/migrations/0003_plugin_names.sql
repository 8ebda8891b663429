-- What a plugin owns beside the names of its tools, as JSON lists. Rows from before have none of them.
ALTER TABLE plugins ADD COLUMN prompts BLOB NOT NULL DEFAULT X'5B5D';
ALTER TABLE plugins ADD COLUMN resources BLOB NOT NULL DEFAULT X'5B5D';
ALTER TABLE plugins ADD COLUMN templates BLOB NOT NULL DEFAULT X'5B5D';
