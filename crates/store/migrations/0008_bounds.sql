-- Where a session comes from, what its end is for the one it comes from, what was taken back, and what holds beyond one question.
ALTER TABLE sessions ADD COLUMN parent TEXT REFERENCES sessions (id);
ALTER TABLE sessions ADD COLUMN born TEXT;
ALTER TABLE sessions ADD COLUMN forked_at BIGINT;
ALTER TABLE sessions ADD COLUMN depth BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN reports BIGINT NOT NULL DEFAULT 0;
CREATE INDEX sessions_parent ON sessions (parent, seq);

ALTER TABLE tasks ADD COLUMN undone_at BIGINT;

-- One for each child, so that its end is told once.
CREATE TABLE notices (
  child TEXT PRIMARY KEY REFERENCES sessions (id),
  seq BIGINT NOT NULL UNIQUE,
  parent TEXT NOT NULL REFERENCES sessions (id),
  task TEXT NOT NULL REFERENCES tasks (id),
  state TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  settled_at BIGINT
);
CREATE INDEX notices_state ON notices (state, seq);

-- Consent that holds for more than one question.
CREATE TABLE consents (
  id TEXT PRIMARY KEY,
  seq BIGINT NOT NULL UNIQUE,
  scope TEXT NOT NULL,
  session TEXT NOT NULL REFERENCES sessions (id),
  approval TEXT NOT NULL REFERENCES approvals (id),
  kind TEXT NOT NULL,
  likeness TEXT,
  beneath TEXT,
  uses_left BIGINT NOT NULL,
  given_by TEXT NOT NULL REFERENCES users (id),
  claim TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  revoked_at BIGINT
);
CREATE INDEX consents_session ON consents (session, seq);

ALTER TABLE approvals ADD COLUMN kind TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN likeness TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN consent TEXT REFERENCES consents (id);

-- What may be spent, by whom or where; and what was, in pieces of ten seconds.
CREATE TABLE budgets (
  scope TEXT NOT NULL,
  owner TEXT NOT NULL,
  kind TEXT NOT NULL,
  period BIGINT NOT NULL,
  most BIGINT NOT NULL,
  set_by TEXT NOT NULL REFERENCES users (id),
  set_at BIGINT NOT NULL,
  PRIMARY KEY (scope, owner, kind, period)
);

CREATE TABLE spent (
  session TEXT NOT NULL REFERENCES sessions (id),
  user_id TEXT NOT NULL REFERENCES users (id),
  worktree TEXT NOT NULL REFERENCES worktrees (id),
  at BIGINT NOT NULL,
  tokens BIGINT NOT NULL,
  cost BIGINT NOT NULL,
  calls BIGINT NOT NULL,
  wall BIGINT NOT NULL,
  egress BIGINT NOT NULL,
  PRIMARY KEY (session, user_id, at)
);
CREATE INDEX spent_user ON spent (user_id, at);
CREATE INDEX spent_worktree ON spent (worktree, at);
CREATE INDEX tasks_created ON tasks (session, created_at);
