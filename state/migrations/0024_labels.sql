-- +goose Up
-- What people know a record by, one row for every record that was read since, sealed. The
-- number is higher than any other whenever the label is new, so that whoever knows the labels
-- up to one asks for the later ones; the digest is a keyed hash.
CREATE TABLE labels (
  number     INTEGER PRIMARY KEY,
  connection TEXT NOT NULL,
  source_id  TEXT NOT NULL,
  mapping    TEXT NOT NULL,                            -- the mapping version that made it
  digest     TEXT NOT NULL,
  label      BLOB NOT NULL,                            -- sealed
  UNIQUE (connection, source_id),
  FOREIGN KEY (connection, source_id) REFERENCES source_records (connection, source_id)
) STRICT;
