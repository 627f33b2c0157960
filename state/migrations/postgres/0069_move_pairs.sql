-- +goose Up
-- Which record of the new books continues which payer of the old ones, on a person's word. The
-- customer of the old payer is the new record's from then on; taking the pair back deletes the row.
CREATE TABLE move_pairs (
  account        account_id NOT NULL,
  old_connection TEXT COLLATE "C" NOT NULL,
  old_id         TEXT COLLATE "C" NOT NULL,
  new_connection TEXT COLLATE "C" NOT NULL,
  new_id         TEXT COLLATE "C" NOT NULL,
  billing_id     TEXT COLLATE "C" NOT NULL CHECK (billing_id <> ''), -- the customer that moved
  old_key_name   TEXT COLLATE "C" NOT NULL,
  old_key_value  TEXT COLLATE "C" NOT NULL, -- of the old payer, to be written back when the pair is taken back
  actor          TEXT COLLATE "C" NOT NULL,
  decided_at     TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (account, old_connection, old_id),
  UNIQUE (account, new_connection, new_id),
  FOREIGN KEY (account, old_connection, old_id) REFERENCES source_records (account, connection, source_id),
  FOREIGN KEY (account, new_connection, new_id) REFERENCES source_records (account, connection, source_id)
);

ALTER TABLE move_pairs ENABLE ROW LEVEL SECURITY;
ALTER TABLE move_pairs FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON move_pairs USING (account = (SELECT current_setting('payersync.account')::bigint));
