-- +goose Up
-- The connections that a user is limited to, as a JSON array of their names; NULL for a user who
-- sees all of them.
ALTER TABLE users ADD COLUMN connections TEXT CHECK (connections IS NULL OR json_type(connections) = 'array' AND json_array_length(connections) > 0);
