-- +goose Up
-- Whether the newest whole reading of a source that is read as a whole did not show the
-- record.
ALTER TABLE source_records ADD COLUMN unseen INTEGER NOT NULL DEFAULT 0 CHECK (unseen = 0 OR unseen = 1);

-- A person's word that a payer whose record has left may stay as it is: the ticket at which
-- it was said, 0 for never, and the mandate that it was said of, '' for none. It lapses
-- when the record returns.
ALTER TABLE payers ADD COLUMN stays_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE payers ADD COLUMN stays_with TEXT NOT NULL DEFAULT '';

-- Differences between a record and its customer that a person has accepted: JSON, sealed;
-- NULL for none.
ALTER TABLE payers ADD COLUMN accepted BLOB;

-- Of those that have left with a mandate nobody was told.
UPDATE source_records SET rests = 1 WHERE (decision = 'excluded' OR state <> 'active') AND EXISTS (
  SELECT 1 FROM payers p WHERE p.connection = source_records.connection AND p.source_id = source_records.source_id
    AND p.billing_id IS NOT NULL);
