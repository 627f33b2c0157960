-- +goose Up
-- The word that the folder of the journal of letters must show, with the node that wrote it last and
-- when: a node whose folder does not show it does not share that folder, or the database was put back.
ALTER TABLE letter_desk ADD COLUMN folder TEXT NOT NULL DEFAULT '';
ALTER TABLE letter_desk ADD COLUMN folder_node TEXT NOT NULL DEFAULT '';
ALTER TABLE letter_desk ADD COLUMN folder_at TEXT;
