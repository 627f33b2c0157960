-- +goose Up
-- Whether the newest reading of everything that came to its end did not show the record. It is
-- noted at that end and taken back when the record is met again, so that a record which is
-- read as it was is not written. Till now each run wrote its number to every record it met.
ALTER TABLE source_records ADD COLUMN missed INTEGER NOT NULL DEFAULT 0 CHECK (missed = 0 OR missed = 1);

-- What a snapshot did not show the last time it was read whole: that was told by the number of
-- the run alone before there was a column for it.
UPDATE source_records SET unseen = 1 WHERE unseen = 0 AND EXISTS (
  SELECT 1 FROM connections c JOIN cursors p ON p.connection = c.name AND p.stream = 'customers'
  WHERE c.name = source_records.connection AND json_valid(c.described) AND json_extract(c.described, '$.Snapshot')
    AND source_records.last_seen_run < p.set_by_run);
UPDATE source_records SET missed = 1 WHERE unseen = 1;

ALTER TABLE source_records DROP COLUMN last_seen_run;
