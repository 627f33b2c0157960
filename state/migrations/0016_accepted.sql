-- +goose Up
-- The customer that a person has said is the payer's, whatever speaks against it, and the
-- ticket at which that was said.
ALTER TABLE payers ADD COLUMN accepted_id TEXT NOT NULL DEFAULT '';
ALTER TABLE payers ADD COLUMN accepted_at INTEGER NOT NULL DEFAULT 0;
