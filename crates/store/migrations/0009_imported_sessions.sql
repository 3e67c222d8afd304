-- Sessions that were made from a transcript: how many lines of it are kept, and whether more may come.
ALTER TABLE sessions ADD COLUMN imported BIGINT;
ALTER TABLE sessions ADD COLUMN importing BIGINT;
