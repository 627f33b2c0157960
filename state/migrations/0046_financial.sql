-- +goose Up
-- The financial status that the billing service gave of a customer of ours, in its own word. It
-- is for people to read: nothing is decided by it, and nothing of it is sent.
CREATE TABLE financial_statuses (
  billing_id TEXT NOT NULL PRIMARY KEY CHECK (billing_id <> ''),
  status     BLOB NOT NULL, -- sealed
  seen_at    TEXT NOT NULL  -- when a read showed it last
) STRICT;
