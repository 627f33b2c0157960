-- +goose Up
-- What a person wants to be told of later: until when, since when, and by which line of the
-- audit log. Whether it holds is computed: no more once its time has come, nor when the reason
-- went and came back.
CREATE TABLE put_off (
  connection TEXT NOT NULL,
  source_id  TEXT NOT NULL,
  reason     TEXT NOT NULL,
  at         TEXT NOT NULL,
  until      TEXT NOT NULL,
  word       INTEGER NOT NULL,
  PRIMARY KEY (connection, source_id, reason)
) STRICT;
