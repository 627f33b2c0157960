-- +goose Up
-- What a person said about two connections: the books of the old one moved to the new one, or the
-- two hold the books of separate companies. Taking it back deletes the row; the audit log keeps both.
CREATE TABLE connection_decisions (
  old_connection TEXT NOT NULL CHECK (old_connection <> ''),
  new_connection TEXT NOT NULL CHECK (new_connection <> '' AND new_connection <> old_connection),
  decision       TEXT NOT NULL CHECK (decision = 'moved' OR decision = 'separate'),
  actor          TEXT NOT NULL,
  reason         TEXT NOT NULL,
  decided_at     TEXT NOT NULL,
  PRIMARY KEY (old_connection, new_connection)
) STRICT, WITHOUT ROWID;

-- Books move to one place.
CREATE UNIQUE INDEX connection_decisions_moved ON connection_decisions (old_connection) WHERE decision = 'moved';
