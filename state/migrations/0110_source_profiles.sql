-- +goose Up
-- The profile that a connection's source is read by, as a hash of its meaning: the one that a person accepted, and the
-- one that its last run met, with the time since which these two differ. A plan made with a profile that nobody has
-- accepted yet names it.
ALTER TABLE connections ADD COLUMN profile TEXT NOT NULL DEFAULT '';
ALTER TABLE connections ADD COLUMN profile_met TEXT NOT NULL DEFAULT '';
ALTER TABLE connections ADD COLUMN profile_edited_at TEXT;
ALTER TABLE plans ADD COLUMN profile TEXT NOT NULL DEFAULT '';
