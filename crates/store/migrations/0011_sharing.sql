-- Whether people may prompt each other's sessions in a worktree, and in whose home the agent's own conversation lies; none is the
-- creator's.
ALTER TABLE worktrees ADD COLUMN shares BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN agent_session_of TEXT;
