CREATE TABLE users (
  id TEXT PRIMARY KEY,
  seq BIGINT NOT NULL UNIQUE,
  email TEXT UNIQUE,
  name TEXT NOT NULL,
  role TEXT NOT NULL,
  enabled BIGINT NOT NULL,
  version BIGINT NOT NULL,
  password TEXT NOT NULL,
  totp BYTEA,
  totp_step BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  deleted_at BIGINT
);

CREATE TABLE bootstrap (
  id BIGINT PRIMARY KEY,
  digest TEXT NOT NULL,
  expires BIGINT NOT NULL
);

CREATE TABLE families (
  id TEXT PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES users (id),
  opened_at BIGINT NOT NULL,
  ended_at BIGINT
);
CREATE INDEX families_user ON families (user_id);

CREATE TABLE refresh_tokens (
  digest TEXT PRIMARY KEY,
  family TEXT NOT NULL REFERENCES families (id),
  user_id TEXT NOT NULL REFERENCES users (id),
  issued_at BIGINT NOT NULL,
  expires BIGINT NOT NULL,
  used_at BIGINT,
  version BIGINT NOT NULL
);
CREATE INDEX refresh_tokens_family ON refresh_tokens (family);

CREATE TABLE attempts (
  id TEXT NOT NULL,
  subject TEXT NOT NULL,
  at BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  PRIMARY KEY (id, subject)
);
CREATE INDEX attempts_subject ON attempts (subject, at);
CREATE INDEX attempts_at ON attempts (at);

CREATE TABLE api_keys (
  id TEXT PRIMARY KEY,
  seq BIGINT NOT NULL UNIQUE,
  user_id TEXT NOT NULL REFERENCES users (id),
  label TEXT NOT NULL,
  scope TEXT NOT NULL,
  digest TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  expires BIGINT NOT NULL,
  revoked_at BIGINT,
  used_at BIGINT
);
CREATE INDEX api_keys_user ON api_keys (user_id, seq);

CREATE TABLE passes (
  id TEXT PRIMARY KEY,
  seq BIGINT NOT NULL UNIQUE,
  user_id TEXT NOT NULL REFERENCES users (id),
  parent TEXT REFERENCES passes (id),
  made_with TEXT REFERENCES api_keys (id),
  label TEXT NOT NULL,
  authority TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  expires BIGINT NOT NULL,
  revoked_at BIGINT
);
CREATE INDEX passes_user ON passes (user_id, seq);
CREATE INDEX passes_parent ON passes (parent);
CREATE INDEX passes_made_with ON passes (made_with);

CREATE TABLE repos (
  id TEXT PRIMARY KEY,
  seq BIGINT NOT NULL UNIQUE,
  name TEXT NOT NULL UNIQUE,
  origin TEXT NOT NULL,
  created_by TEXT NOT NULL REFERENCES users (id),
  created_at BIGINT NOT NULL
);

CREATE TABLE worktrees (
  id TEXT PRIMARY KEY,
  seq BIGINT NOT NULL UNIQUE,
  repo TEXT NOT NULL REFERENCES repos (id),
  name TEXT NOT NULL,
  about TEXT NOT NULL,
  tier TEXT NOT NULL,
  created_by TEXT NOT NULL REFERENCES users (id),
  created_at BIGINT NOT NULL,
  archived_at BIGINT,
  deleted_at BIGINT
);
CREATE UNIQUE INDEX worktrees_name ON worktrees (repo, name) WHERE deleted_at IS NULL;

CREATE TABLE worktree_owners (
  worktree TEXT NOT NULL REFERENCES worktrees (id),
  user_id TEXT NOT NULL REFERENCES users (id),
  PRIMARY KEY (worktree, user_id)
);
CREATE INDEX worktree_owners_user ON worktree_owners (user_id);

CREATE TABLE added_policies (
  id TEXT PRIMARY KEY,
  text TEXT NOT NULL,
  created_by TEXT NOT NULL REFERENCES users (id),
  created_at BIGINT NOT NULL
);

CREATE TABLE events (
  seq BIGINT PRIMARY KEY,
  at BIGINT NOT NULL,
  kind TEXT NOT NULL,
  worktree TEXT,
  user_id TEXT
);

CREATE TABLE ledger_index (
  seq BIGINT PRIMARY KEY,
  at BIGINT NOT NULL,
  who TEXT NOT NULL,
  user_id TEXT NOT NULL,
  action TEXT NOT NULL,
  resource TEXT NOT NULL,
  decision TEXT NOT NULL,
  line TEXT NOT NULL
);
CREATE INDEX ledger_index_user ON ledger_index (user_id, seq);
CREATE INDEX ledger_index_action ON ledger_index (action, seq);
CREATE INDEX ledger_index_resource ON ledger_index (resource, seq);
CREATE INDEX ledger_index_at ON ledger_index (at);

CREATE TABLE idempotency (
  who TEXT NOT NULL,
  key TEXT NOT NULL,
  request TEXT NOT NULL,
  at BIGINT NOT NULL,
  status BIGINT NOT NULL,
  answer BYTEA,
  PRIMARY KEY (who, key)
);
CREATE INDEX idempotency_at ON idempotency (at);
