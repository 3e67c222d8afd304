-- What people register for workers. A version is named by its content and stays; names move.
CREATE TABLE artifacts (
  hash TEXT PRIMARY KEY,
  seq BIGINT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  bytes BIGINT NOT NULL,
  created_by TEXT NOT NULL REFERENCES users (id),
  created_at BIGINT NOT NULL,
  revoked_by TEXT,
  revoked_at BIGINT,
  epoch BIGINT NOT NULL,
  document BYTEA NOT NULL
);
CREATE INDEX artifacts_epoch ON artifacts (epoch, seq);
CREATE TABLE artifact_names (
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  hash TEXT NOT NULL REFERENCES artifacts (hash),
  moved_at BIGINT NOT NULL,
  PRIMARY KEY (kind, name)
);
CREATE TABLE artifact_history (
  seq BIGINT PRIMARY KEY,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  hash TEXT NOT NULL,
  change TEXT NOT NULL,
  changed_by TEXT NOT NULL,
  changed_at BIGINT NOT NULL
);
CREATE INDEX artifact_history_name ON artifact_history (kind, name, seq);
-- Content of files, in sealed parts; files with the same content share it.
CREATE TABLE artifact_parts (
  blob TEXT NOT NULL,
  part BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  sealed BYTEA NOT NULL,
  PRIMARY KEY (blob, part)
);
CREATE INDEX artifact_parts_epoch ON artifact_parts (epoch);
