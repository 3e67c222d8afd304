-- The epoch that something could not be carried over to, since it could not be opened: a rotation of the keys goes on without it.
ALTER TABLE artifacts ADD COLUMN damaged BIGINT;
CREATE INDEX artifacts_damaged ON artifacts (damaged) WHERE damaged IS NOT NULL;
ALTER TABLE artifact_parts ADD COLUMN damaged BIGINT;
CREATE INDEX artifact_parts_damaged ON artifact_parts (damaged) WHERE damaged IS NOT NULL;
