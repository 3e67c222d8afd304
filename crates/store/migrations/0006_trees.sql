-- What git knows of them. Before this a repository was a name and a worktree a right.
ALTER TABLE repos ADD COLUMN default_branch TEXT;
ALTER TABLE repos ADD COLUMN fetched_at BIGINT;
ALTER TABLE worktrees ADD COLUMN branch TEXT;
ALTER TABLE worktrees ADD COLUMN base TEXT;
