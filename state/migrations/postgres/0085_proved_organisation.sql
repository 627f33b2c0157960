-- +goose Up
-- When the accounting system last said which organisation the connection reaches, and a keyed hash of
-- the credentials that it was asked with; NULL and '' where it has to be asked anew.
ALTER TABLE connections ADD COLUMN proved_at TEXT COLLATE "C";
ALTER TABLE connections ADD COLUMN proved_by TEXT COLLATE "C" NOT NULL DEFAULT '';
