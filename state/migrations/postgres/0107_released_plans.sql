-- +goose Up
-- A plan that was approved as a whole says so in one row, and its changes need not be written again.
ALTER TABLE plans ADD COLUMN released BIGINT NOT NULL DEFAULT 0 CHECK (released = 0 OR released = 1);

-- A program that asks the changes alone would send nothing of such a plan.
CREATE OR REPLACE FUNCTION oldest_schema() RETURNS bigint IMMUTABLE PARALLEL SAFE LANGUAGE sql AS 'SELECT 107::bigint';
