-- +goose Up
-- A plan that was approved as a whole says so in one row, and its changes need not be written again.
ALTER TABLE plans ADD COLUMN released INTEGER NOT NULL DEFAULT 0 CHECK (released = 0 OR released = 1);
