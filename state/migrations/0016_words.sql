-- +goose Up
-- What a person has said of a record and a customer: that they are the same, or that they
-- are not. A word that they are is gone once the two are linked; one that could not be
-- carried out any more is spent, and stands until a person says another.
CREATE TABLE words (
  connection TEXT NOT NULL,
  source_id  TEXT NOT NULL,
  billing_id TEXT NOT NULL CHECK (billing_id <> ''),
  word       TEXT NOT NULL CHECK (word = 'accept' OR word = 'reject' OR word = 'spent'),
  reason     TEXT NOT NULL DEFAULT '',                  -- why it is spent
  ticket     INTEGER NOT NULL,                          -- when it was said, in the ledger's order
  said_at    TEXT NOT NULL,
  PRIMARY KEY (connection, source_id, billing_id),
  FOREIGN KEY (connection, source_id) REFERENCES source_records (connection, source_id)
) STRICT;
CREATE UNIQUE INDEX words_of_record ON words (connection, source_id) WHERE word <> 'reject';
CREATE UNIQUE INDEX words_of_customer ON words (billing_id) WHERE word = 'accept';
