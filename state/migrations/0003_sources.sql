-- +goose Up
-- What a run's complete read went through; '' for a read that was not complete.
ALTER TABLE runs ADD COLUMN read_kind TEXT NOT NULL DEFAULT '' CHECK (read_kind IN ('', 'changes', 'full'));
ALTER TABLE runs ADD COLUMN pages INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN repeats INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN passes INTEGER NOT NULL DEFAULT 0;

-- The request budget of one organisation at a remote system, shared by every
-- process that opens the ledger.
CREATE TABLE budgets (
  scope        TEXT PRIMARY KEY CHECK (scope <> ''),
  minute_start TEXT,
  minute_used  INTEGER NOT NULL DEFAULT 0 CHECK (minute_used >= 0),
  day_start    TEXT,
  day_used     INTEGER NOT NULL DEFAULT 0 CHECK (day_used >= 0),
  parked_until TEXT
) STRICT;
-- Requests in flight. A row whose time is over belongs to a process that died.
CREATE TABLE slots (
  slot_id INTEGER PRIMARY KEY,
  scope   TEXT NOT NULL,
  until   TEXT NOT NULL
) STRICT;
CREATE INDEX slots_scope ON slots (scope, until);

-- A consent: whom it reaches, who is renewing its tokens just now, from when the
-- next try may be made, and why a person must give it again.
ALTER TABLE tokens ADD COLUMN tenant_id TEXT NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN tenant_name TEXT NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN refreshed_at TEXT;
ALTER TABLE tokens ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tokens ADD COLUMN retry_at TEXT;
ALTER TABLE tokens ADD COLUMN broken TEXT NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN lease_holder TEXT NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN lease_until TEXT;
