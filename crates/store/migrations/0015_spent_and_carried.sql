-- What the agent told last that its own conversation cost, in millionths of a dollar; and whether what a task changed was carried into
-- the worktree, which of those before nobody knows.
ALTER TABLE sessions ADD COLUMN agent_told BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN carried BIGINT NOT NULL DEFAULT 0;
UPDATE tasks SET carried = 1 WHERE run IS NOT NULL;
