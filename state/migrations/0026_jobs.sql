-- +goose Up
-- The jobs of payersync serve: when each last began and ended, and how. Whether one is late,
-- and when it comes next, is computed from its schedule.
CREATE TABLE jobs (
  name         TEXT NOT NULL PRIMARY KEY,
  begun_at     TEXT,
  ended_at     TEXT,
  done_at      TEXT, -- when it last ended well
  outcome      TEXT NOT NULL DEFAULT '' CHECK (outcome IN ('', 'done', 'failed', 'panicked', 'interrupted', 'parked')), -- of its last end
  parked_until TEXT, -- while it waits because a remote system asked for it
  problem      TEXT NOT NULL DEFAULT '' -- why its last end was not a good one
) STRICT;
