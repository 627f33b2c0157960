-- +goose Up
-- A person's no to a plan that waits: nothing of it is sent before somebody approves it
-- all the same. A plan that is superseded keeps who rejected it.
ALTER TABLE plans ADD COLUMN rejected_by TEXT NOT NULL DEFAULT '';
ALTER TABLE plans ADD COLUMN rejected_at TEXT;
ALTER TABLE plans ADD COLUMN rejected_why TEXT NOT NULL DEFAULT '';

-- A change that was left out when the rest of its plan was approved, or whose plan was
-- rejected: it waits for a word of its own, whatever the limits are.
ALTER TABLE changes ADD COLUMN left_out INTEGER NOT NULL DEFAULT 0 CHECK (left_out = 0 OR left_out = 1);
