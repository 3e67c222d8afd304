CREATE TABLE installation (
  id BIGINT PRIMARY KEY,
  master_key TEXT NOT NULL
);
