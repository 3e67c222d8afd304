CREATE TABLE secrets (
  id TEXT PRIMARY KEY,
  seq BIGINT NOT NULL UNIQUE,
  owner TEXT NOT NULL,
  name TEXT NOT NULL,
  hosts TEXT NOT NULL,
  created_by TEXT NOT NULL REFERENCES users (id),
  created_at BIGINT NOT NULL,
  expires BIGINT,
  used_at BIGINT,
  epoch BIGINT NOT NULL,
  sealed BYTEA NOT NULL
);
CREATE UNIQUE INDEX secrets_name ON secrets (owner, name);
CREATE INDEX secrets_epoch ON secrets (epoch, seq);
