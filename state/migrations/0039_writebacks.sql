-- +goose Up
-- The status of mandates as it was written back into the books. What is to be written is
-- computed; these tables hold what was written, or may have been, and what a person let go.

CREATE TABLE writebacks (
  connection TEXT NOT NULL,
  source_id  TEXT NOT NULL,
  setup      TEXT NOT NULL CHECK (setup <> ''),        -- hash of which field of which system it is about
  applied    TEXT NOT NULL DEFAULT 'none' CHECK (applied = 'none' OR applied = 'asked' OR applied = 'signed' OR applied = 'active' OR applied = 'cancelled'), -- what the field says of ours, for all that is known
  applied_at TEXT,                                     -- since when; NULL while nothing was written
  field      BLOB,                                     -- what it held before the first write, after the last, and when somebody else had changed it; sealed
  wanted     TEXT NOT NULL DEFAULT '' CHECK (wanted = '' OR wanted = 'none' OR wanted = 'asked' OR wanted = 'signed' OR wanted = 'active' OR wanted = 'cancelled'), -- what the open request says; blank for no request
  write_id   TEXT NOT NULL DEFAULT '',
  request    BLOB,                                     -- its frozen bytes, sealed; NULL while none is open
  digest     TEXT NOT NULL DEFAULT '',                 -- SHA-256 of them
  frozen_at  TEXT,                                     -- when the last request was frozen
  sent_at    TEXT,                                     -- when the open one last left, or may have; NULL before
  attempts   INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0), -- of the open one
  day        TEXT NOT NULL DEFAULT '',                 -- on which requests were counted last
  day_writes INTEGER NOT NULL DEFAULT 0 CHECK (day_writes >= 0),
  approved   TEXT NOT NULL DEFAULT '',                 -- what a person let go; blank when that was written
  refused    TEXT NOT NULL DEFAULT '',                 -- what the system would not write
  problem    TEXT NOT NULL DEFAULT '',                 -- why, or why the end of the open request is not known
  problem_at TEXT,
  foreign_at TEXT,                                     -- since when the field is left to whoever changed it; NULL while it is ours
  taken      INTEGER NOT NULL DEFAULT 0 CHECK (taken = 0 OR taken = 1), -- a person gave it back, and it was not read since
  known_at   TEXT,                                     -- when what it holds was last known, by a read or a write; NULL for never
  echo       INTEGER NOT NULL DEFAULT 0 CHECK (echo = 0 OR echo = 1), -- a write of ours that no reading of the books has shown yet
  echoes     INTEGER NOT NULL DEFAULT 0 CHECK (echoes >= 0), -- how often a reading showed a record with no other change
  PRIMARY KEY (connection, source_id),
  FOREIGN KEY (connection, source_id) REFERENCES source_records (connection, source_id),
  CHECK ((request IS NULL) = (wanted = '')),
  CHECK (sent_at IS NULL OR request IS NOT NULL)
) STRICT;
CREATE INDEX writebacks_echo ON writebacks (connection, source_id) WHERE echo = 1;

-- What a person let go: writes of one setup, the first batch of it by its hash.
CREATE TABLE writeback_approvals (
  approval_id INTEGER PRIMARY KEY,
  connection  TEXT NOT NULL CHECK (connection <> ''),
  setup       TEXT NOT NULL CHECK (setup <> ''),
  batch       TEXT NOT NULL CHECK (batch <> ''),       -- hash of what was shown: record, from, to
  payers      INTEGER NOT NULL CHECK (payers >= 0),
  actor       TEXT NOT NULL,
  reason      TEXT NOT NULL DEFAULT '',
  at          TEXT NOT NULL
) STRICT;
CREATE INDEX writeback_approvals_setup ON writeback_approvals (connection, setup);

-- The newest run of each connection, for people.
CREATE TABLE writeback_runs (
  connection TEXT NOT NULL PRIMARY KEY CHECK (connection <> ''),
  at         TEXT NOT NULL,
  written    INTEGER NOT NULL CHECK (written >= 0),
  waiting    INTEGER NOT NULL CHECK (waiting >= 0),    -- for a person's approval
  waits_at   TEXT,                                     -- since when they wait; NULL for none
  stuck      INTEGER NOT NULL CHECK (stuck >= 0),      -- refused, too often written, of unknown end, or left to somebody else
  stuck_at   TEXT,                                     -- since when there are any
  problem    TEXT NOT NULL DEFAULT ''                  -- why it ended early
) STRICT, WITHOUT ROWID;

-- How many records a run read in which nothing but a write of ours had changed.
ALTER TABLE runs ADD COLUMN echoes INTEGER NOT NULL DEFAULT 0;
