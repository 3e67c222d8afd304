CREATE TABLE pairings (
  digest TEXT PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES users (id),
  label TEXT NOT NULL,
  scope TEXT NOT NULL,
  version BIGINT NOT NULL,
  key_life BIGINT NOT NULL,
  expires BIGINT NOT NULL
);
CREATE INDEX pairings_expires ON pairings (expires);

DROP INDEX worktrees_name;
CREATE INDEX worktrees_name ON worktrees (repo, name);
