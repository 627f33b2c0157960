-- +goose Up
-- How many deliveries of a type are in a state, and when the first and the last of them came. Each write to the
-- inbox keeps the counts for all its deliveries together, so no index of all types and states is needed.
CREATE TABLE inbox_counts (
  event_type TEXT NOT NULL,
  state      TEXT NOT NULL CHECK (state = 'received' OR state = 'reflected' OR state = 'superseded' OR state = 'parked' OR state = 'quarantined' OR state = 'ignored'),
  deliveries INTEGER NOT NULL,
  first_at   TEXT NOT NULL,
  last_at    TEXT NOT NULL,
  PRIMARY KEY (event_type, state)
) STRICT, WITHOUT ROWID;
INSERT INTO inbox_counts (event_type, state, deliveries, first_at, last_at)
SELECT event_type, state, count(*), min(received_at), max(received_at) FROM inbox GROUP BY event_type, state;
DROP INDEX inbox_types;
DROP INDEX inbox_state;

-- Deliveries arrive in the order of their ids, so new entries go to the end of both indexes.
DROP INDEX inbox_open;
CREATE INDEX inbox_open ON inbox (inbox_id) WHERE state IN ('received', 'parked');
CREATE INDEX inbox_quarantined ON inbox (inbox_id) WHERE state = 'quarantined';
