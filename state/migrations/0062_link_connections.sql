-- +goose Up
-- The connections that a link limits its login to, as a JSON array of their names; NULL for a link
-- that limits to none.
ALTER TABLE login_links ADD COLUMN connections TEXT CHECK (connections IS NULL OR json_type(connections) = 'array' AND json_array_length(connections) > 0);
