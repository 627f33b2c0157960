-- +goose Up
-- Keys of ours that customers carry and that no record of the books has: the books may have given
-- their payers new numbers. Each connection has those of its own company.
CREATE TABLE unclaimed_keys (
  connection TEXT NOT NULL CHECK (connection <> ''),
  billing_id TEXT NOT NULL,
  key        TEXT NOT NULL, -- as remote_traits has it: name=value, with its scope
  ticket     INTEGER NOT NULL, -- newest when it was noted: a person who decided later may have seen the key
  PRIMARY KEY (connection, billing_id)
) STRICT, WITHOUT ROWID;

-- How many records looked like a customer when the stop was counted last.
ALTER TABLE create_stops ADD COLUMN records INTEGER NOT NULL DEFAULT 0 CHECK (records >= 0);
