-- +goose Up
-- What is wrong with a connection's mapping file while its last good version
-- stays in force: the mistakes in words, "" for none, and since when.
ALTER TABLE connections ADD COLUMN mapping_problem TEXT NOT NULL DEFAULT '';
ALTER TABLE connections ADD COLUMN mapping_problem_since TEXT;
