-- +goose Up
-- Why a connection creates no customers yet. A row of cause first_matching stays when a person has
-- finished matching, so that customers which appear later do not bring it back.
CREATE TABLE create_stops (
  connection  TEXT NOT NULL CHECK (connection <> ''),
  cause       TEXT NOT NULL CHECK (cause IN ('first_matching', 'same_books')),
  other       TEXT NOT NULL DEFAULT '',                    -- connection whose payers the records look like; '' for first_matching
  customers   INTEGER NOT NULL DEFAULT 0 CHECK (customers >= 0), -- customers without a record, or records that look like payers of the other connection
  since       TEXT NOT NULL,
  finished_at TEXT,                                        -- when a person finished matching; NULL while creates wait
  finished_by TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (connection, cause, other)
) STRICT, WITHOUT ROWID;
