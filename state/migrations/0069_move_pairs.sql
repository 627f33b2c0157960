-- +goose Up
-- Which record of the new books continues which payer of the old ones, on a person's word. The
-- customer of the old payer is the new record's from then on; taking the pair back deletes the row.
CREATE TABLE move_pairs (
  old_connection TEXT NOT NULL,
  old_id         TEXT NOT NULL,
  new_connection TEXT NOT NULL,
  new_id         TEXT NOT NULL,
  billing_id     TEXT NOT NULL CHECK (billing_id <> ''), -- the customer that moved
  old_key_name   TEXT NOT NULL,
  old_key_value  TEXT NOT NULL, -- of the old payer, to be written back when the pair is taken back
  actor          TEXT NOT NULL,
  decided_at     TEXT NOT NULL,
  PRIMARY KEY (old_connection, old_id),
  UNIQUE (new_connection, new_id),
  FOREIGN KEY (old_connection, old_id) REFERENCES source_records (connection, source_id),
  FOREIGN KEY (new_connection, new_id) REFERENCES source_records (connection, source_id)
) STRICT, WITHOUT ROWID;
