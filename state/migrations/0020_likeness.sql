-- +goose Up
-- What payers of ours have in common with others, as keyed hashes: the name and each e-mail
-- address that the mapping gave the record last, and the name with one of them, a phone or
-- a postcode. They stay when the record leaves the books.
CREATE TABLE likenesses (
  kind       TEXT NOT NULL CHECK (kind = 'name' OR kind = 'email' OR kind = 'name email' OR kind = 'name phone' OR kind = 'name postcode'),
  value      TEXT NOT NULL,
  connection TEXT NOT NULL,
  source_id  TEXT NOT NULL,
  PRIMARY KEY (kind, value, connection, source_id),
  FOREIGN KEY (connection, source_id) REFERENCES payers (connection, source_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX likenesses_record ON likenesses (connection, source_id);

-- A digest of the payer's likenesses; '' before they are known.
ALTER TABLE payers ADD COLUMN likeness TEXT NOT NULL DEFAULT '';
CREATE INDEX payers_unlearnt ON payers (connection, source_id) WHERE likeness = '' AND billing_id IS NOT NULL AND applied IS NOT NULL;

-- Two records of one connection, of which a person has said that they are two payers: the
-- one with the smaller id first.
CREATE TABLE apart (
  connection TEXT NOT NULL,
  source_id  TEXT NOT NULL,
  other_id   TEXT NOT NULL CHECK (other_id > source_id),
  said_at    TEXT NOT NULL,
  PRIMARY KEY (connection, source_id, other_id),
  FOREIGN KEY (connection, source_id) REFERENCES source_records (connection, source_id),
  FOREIGN KEY (connection, other_id) REFERENCES source_records (connection, source_id)
) STRICT, WITHOUT ROWID;

-- How many customers a plan would make that look like another payer of ours.
ALTER TABLE plans ADD COLUMN alike INTEGER NOT NULL DEFAULT 0;
