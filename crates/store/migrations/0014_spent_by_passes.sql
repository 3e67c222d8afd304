-- What was spent by tasks that were asked for with a Pass, and with those that were made from it.
CREATE TABLE spent_by_passes (
  pass TEXT PRIMARY KEY REFERENCES passes (id),
  tokens BIGINT NOT NULL,
  cost BIGINT NOT NULL,
  calls BIGINT NOT NULL,
  wall BIGINT NOT NULL,
  egress BIGINT NOT NULL,
  cpu BIGINT NOT NULL
);
