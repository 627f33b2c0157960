-- +goose Up
-- How many records are gone from the source, in a plan that changes nothing and
-- waits for a person to let them go; 0 in every other plan.
ALTER TABLE plans ADD COLUMN missing INTEGER NOT NULL DEFAULT 0;
