-- +goose Up
CREATE TABLE create_stops (
  account     account_id NOT NULL,
  connection  TEXT COLLATE "C" NOT NULL CHECK (connection <> ''),
  cause       TEXT COLLATE "C" NOT NULL CHECK (cause IN ('first_matching', 'same_books')),
  other       TEXT COLLATE "C" NOT NULL DEFAULT '', -- connection whose payers the records look like; '' for first_matching
  customers   BIGINT NOT NULL DEFAULT 0 CHECK (customers >= 0), -- customers without a record, or records that look like payers of the other connection
  since       TEXT COLLATE "C" NOT NULL,
  finished_at TEXT COLLATE "C", -- when a person finished matching; NULL while creates wait
  finished_by TEXT COLLATE "C" NOT NULL DEFAULT '',
  PRIMARY KEY (account, connection, cause, other)
);
ALTER TABLE create_stops ENABLE ROW LEVEL SECURITY;
ALTER TABLE create_stops FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON create_stops USING (account = (SELECT current_setting('payersync.account')::bigint));
