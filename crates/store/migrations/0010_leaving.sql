-- What an origin asks for, what a worktree belongs to elsewhere, what was archived together, and where tasks began and ended.
ALTER TABLE repos ADD COLUMN secret TEXT;
ALTER TABLE repos ADD COLUMN login TEXT;
ALTER TABLE worktrees ADD COLUMN issue TEXT;
ALTER TABLE worktrees ADD COLUMN pull_request TEXT;
ALTER TABLE worktrees ADD COLUMN archived_by TEXT;
-- kept, cleaned or removed, as it was archived or deleted.
ALTER TABLE worktrees ADD COLUMN files TEXT;
-- When it was closed with its worktree; one that a person closed has none.
ALTER TABLE sessions ADD COLUMN archived_at BIGINT;

CREATE TABLE task_trees (
  task TEXT NOT NULL REFERENCES tasks (id),
  -- began or ended
  moment TEXT NOT NULL,
  at BIGINT NOT NULL,
  branch TEXT,
  commit_id TEXT,
  dirty BIGINT,
  PRIMARY KEY (task, moment)
);
