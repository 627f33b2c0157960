-- +goose Up
-- The record of the same connection of which a person said that it is the same payer: this one
-- is left out; '' for none.
ALTER TABLE source_records ADD COLUMN same_as TEXT NOT NULL DEFAULT '';
