-- +goose Up
-- What a run that ended incomplete left undone, in words and without personal values, and when a run
-- can go on with it; NULL where that is not known.
ALTER TABLE runs ADD COLUMN undone TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN retry_at TEXT COLLATE "C";
