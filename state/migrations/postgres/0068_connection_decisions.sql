-- +goose Up
-- What a person said about two connections: the books of the old one moved to the new one, or the
-- two hold the books of separate companies. Taking it back deletes the row; the audit log keeps both.
CREATE TABLE connection_decisions (
  account        account_id NOT NULL,
  old_connection TEXT COLLATE "C" NOT NULL CHECK (old_connection <> ''),
  new_connection TEXT COLLATE "C" NOT NULL CHECK (new_connection <> '' AND new_connection <> old_connection),
  decision       TEXT COLLATE "C" NOT NULL CHECK (decision = 'moved' OR decision = 'separate'),
  actor          TEXT COLLATE "C" NOT NULL,
  reason         TEXT COLLATE "C" NOT NULL,
  decided_at     TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (account, old_connection, new_connection)
);

-- Books move to one place.
CREATE UNIQUE INDEX connection_decisions_moved ON connection_decisions (account, old_connection) WHERE decision = 'moved';

ALTER TABLE connection_decisions ENABLE ROW LEVEL SECURITY;
ALTER TABLE connection_decisions FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON connection_decisions USING (account = (SELECT current_setting('payersync.account')::bigint));
