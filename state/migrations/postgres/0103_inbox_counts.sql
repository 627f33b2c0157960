-- +goose Up
-- How many deliveries of a type are in a state, and when the first and the last of them came. Each write to the
-- inbox keeps the counts for all its deliveries together, so no index of all types and states is needed.
CREATE TABLE inbox_counts (
  account    account_id NOT NULL,
  event_type TEXT COLLATE "C" NOT NULL,
  state      TEXT COLLATE "C" NOT NULL CHECK (state = 'received' OR state = 'reflected' OR state = 'superseded' OR state = 'parked' OR state = 'quarantined' OR state = 'ignored'),
  deliveries BIGINT NOT NULL,
  first_at   TEXT COLLATE "C" NOT NULL,
  last_at    TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (account, event_type, state)
);
-- The owner of the tables sees the rows of every account.
ALTER TABLE inbox NO FORCE ROW LEVEL SECURITY;
INSERT INTO inbox_counts (account, event_type, state, deliveries, first_at, last_at)
SELECT account, event_type, state, count(*), min(received_at), max(received_at) FROM inbox GROUP BY account, event_type, state;
ALTER TABLE inbox FORCE ROW LEVEL SECURITY;
ALTER TABLE inbox_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE inbox_counts FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON inbox_counts USING (account = (SELECT current_setting('payersync.account')::bigint));
DROP INDEX inbox_types;
DROP INDEX inbox_state;

-- Deliveries arrive in the order of their ids, so new entries go to the end of both indexes.
DROP INDEX inbox_open;
CREATE INDEX inbox_open ON inbox (account, inbox_id) WHERE state IN ('received', 'parked');
CREATE INDEX inbox_quarantined ON inbox (account, inbox_id) WHERE state = 'quarantined';

-- A program that does not keep the counts does not start on these tables any more.
CREATE OR REPLACE FUNCTION oldest_schema() RETURNS bigint IMMUTABLE PARALLEL SAFE LANGUAGE sql AS 'SELECT 103::bigint';
