-- +goose Up
-- What a connection's source said of itself to the last run, as JSON: its fields
-- above all, so that a mapping can be checked while the source is out of reach.
-- '' until the first run of this version.
ALTER TABLE connections ADD COLUMN described TEXT NOT NULL DEFAULT '';
