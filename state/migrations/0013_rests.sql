-- +goose Up
-- Whether what was decided of a record rests on others as well: on who else has its
-- key, on customers that look like it, or on the list of customers. Every plan looks at
-- such a record again.
ALTER TABLE source_records ADD COLUMN rests INTEGER NOT NULL DEFAULT 0 CHECK (rests IN (0, 1));
UPDATE source_records SET rests = 1 WHERE EXISTS (
  SELECT 1 FROM attention a WHERE a.connection = source_records.connection AND a.source_id = source_records.source_id
    AND a.reason IN ('key_shared', 'key_under_way', 'likeness', 'key_doubled', 'other_key', 'key_unsettled'));

-- Whether the record could not be read: its id may be the number of its line.
ALTER TABLE source_records ADD COLUMN unreadable INTEGER NOT NULL DEFAULT 0 CHECK (unreadable IN (0, 1));
UPDATE source_records SET unreadable = 1 WHERE EXISTS (
  SELECT 1 FROM attention a WHERE a.connection = source_records.connection AND a.source_id = source_records.source_id
    AND a.topic = 'record' AND a.reason = 'record_unreadable');

-- Whether another record had the same key when a record was decided on. It is compared
-- with the records as they are: where that has changed, the record is decided on again.
ALTER TABLE source_records ADD COLUMN contested INTEGER NOT NULL DEFAULT 0 CHECK (contested IN (0, 1));
UPDATE source_records SET contested = 1 WHERE EXISTS (
  SELECT 1 FROM attention a WHERE a.connection = source_records.connection AND a.source_id = source_records.source_id AND a.reason = 'key_shared');
