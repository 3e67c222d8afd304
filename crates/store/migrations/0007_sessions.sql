-- Conversations with agents, what is asked of them, and what happened.
CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  seq BIGINT NOT NULL UNIQUE,
  worktree TEXT NOT NULL REFERENCES worktrees (id),
  creator TEXT NOT NULL REFERENCES users (id),
  agent TEXT NOT NULL,
  title TEXT NOT NULL,
  mode TEXT,
  model TEXT,
  command TEXT NOT NULL,
  agent_session TEXT,
  held TEXT,
  steps BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  closed_at BIGINT
);
CREATE INDEX sessions_worktree ON sessions (worktree, seq);
CREATE INDEX sessions_creator ON sessions (creator, seq);

CREATE TABLE tasks (
  id TEXT PRIMARY KEY,
  seq BIGINT NOT NULL UNIQUE,
  session TEXT NOT NULL REFERENCES sessions (id),
  asked_by TEXT NOT NULL REFERENCES users (id),
  state TEXT NOT NULL,
  shown TEXT NOT NULL,
  prompt BYTEA,
  epoch BIGINT NOT NULL,
  claim TEXT NOT NULL,
  run TEXT,
  why TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  started_at BIGINT,
  stopping_at BIGINT,
  ended_at BIGINT
);
CREATE INDEX tasks_session ON tasks (session, seq);
CREATE INDEX tasks_waiting ON tasks (state, session);
-- One at a time.
CREATE UNIQUE INDEX tasks_at_work ON tasks (session) WHERE state IN ('running', 'held');

CREATE TABLE steps (
  session TEXT NOT NULL REFERENCES sessions (id),
  seq BIGINT NOT NULL,
  at BIGINT NOT NULL,
  task TEXT,
  kind TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (session, seq)
);

CREATE TABLE approvals (
  id TEXT PRIMARY KEY,
  seq BIGINT NOT NULL UNIQUE,
  session TEXT NOT NULL REFERENCES sessions (id),
  task TEXT NOT NULL REFERENCES tasks (id),
  effect TEXT NOT NULL,
  body TEXT NOT NULL,
  state TEXT NOT NULL,
  choice TEXT,
  decided_by TEXT REFERENCES users (id),
  created_at BIGINT NOT NULL,
  decided_at BIGINT
);
CREATE INDEX approvals_session ON approvals (session, seq);
CREATE INDEX approvals_open ON approvals (state, session);

ALTER TABLE events ADD COLUMN session TEXT;
