-- +goose Up
-- The keys of the hashes by which payers are known again that a person had forgotten. They
-- are no part of the sealing key: the hashes outlive it.
CREATE TABLE forget_keys (
  key_id TEXT PRIMARY KEY CHECK (key_id <> ''),
  key    BLOB NOT NULL                                 -- sealed
) STRICT;

-- Records of which a person said that their payer is forgotten, or may be kept after all;
-- keyed hashes, and nothing that says who it was. The file beside the ledger holds the same.
CREATE TABLE tombstones (
  record   TEXT PRIMARY KEY CHECK (record <> ''),      -- of the connection and the source id
  key_id   TEXT NOT NULL REFERENCES forget_keys (key_id),
  holds    INTEGER NOT NULL CHECK (holds = 0 OR holds = 1), -- 0: it may be kept after all
  marks    TEXT NOT NULL,                              -- of the number, and of the name with the e-mail address, as JSON
  said_at  TEXT NOT NULL,
  scrubbed INTEGER NOT NULL DEFAULT 0 CHECK (scrubbed = 0 OR scrubbed = 1) -- what was erased is in no free place of the files either
) STRICT, WITHOUT ROWID;

-- Why nothing but the id of a record is kept: its payer was forgotten; it was, and the record
-- looks like somebody else by now; it is a new one that looks like a payer that was.
ALTER TABLE source_records ADD COLUMN forgotten TEXT NOT NULL DEFAULT ''
  CHECK (forgotten = '' OR forgotten = 'payer' OR forgotten = 'other' OR forgotten = 'alike');
CREATE INDEX source_records_forgotten ON source_records (connection, source_id) WHERE forgotten <> '';
