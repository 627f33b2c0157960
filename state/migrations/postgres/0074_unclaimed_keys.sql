-- +goose Up
-- Keys of ours that customers carry and that no record of the books has: the books may have given
-- their payers new numbers. Each connection has those of its own company.
CREATE TABLE unclaimed_keys (
  account    account_id NOT NULL,
  connection TEXT COLLATE "C" NOT NULL CHECK (connection <> ''),
  billing_id TEXT COLLATE "C" NOT NULL,
  key        TEXT COLLATE "C" NOT NULL, -- as remote_traits has it: name=value, with its scope
  ticket     BIGINT NOT NULL, -- newest when it was noted: a person who decided later may have seen the key
  PRIMARY KEY (account, connection, billing_id)
);
ALTER TABLE unclaimed_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE unclaimed_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON unclaimed_keys USING (account = (SELECT current_setting('payersync.account')::bigint));

-- How many records looked like a customer when the stop was counted last.
ALTER TABLE create_stops ADD COLUMN records BIGINT NOT NULL DEFAULT 0 CHECK (records >= 0);
