-- +goose Up
-- What payersync serve makes of its configuration file: what is wrong with it while the one
-- before stays in force, "" for nothing, and since when; and the keys, one per line, whose new
-- value counts from the next start only.
ALTER TABLE ledger ADD COLUMN config_problem TEXT NOT NULL DEFAULT '';
ALTER TABLE ledger ADD COLUMN config_problem_since TEXT;
ALTER TABLE ledger ADD COLUMN restart_needed TEXT NOT NULL DEFAULT '';
