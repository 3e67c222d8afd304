-- What is being done to a worktree as a whole, so that nothing is begun there meanwhile: archive, delete or restore.
ALTER TABLE worktrees ADD COLUMN ending TEXT;
ALTER TABLE worktrees ADD COLUMN ending_at BIGINT;
ALTER TABLE worktrees ADD COLUMN ending_files TEXT;
ALTER TABLE worktrees ADD COLUMN ending_by TEXT;

-- Time of the processor, in milliseconds.
ALTER TABLE spent ADD COLUMN cpu BIGINT NOT NULL DEFAULT 0;
