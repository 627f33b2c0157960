-- +goose Up
-- The header that named a delivery's type, as "name: value": headers are not kept, and what was
-- not understood is read anew. Blank where no configured header came, and for deliveries of
-- before.
ALTER TABLE inbox ADD COLUMN type_header TEXT NOT NULL DEFAULT '';

-- By which the types are found that came, and when.
CREATE INDEX inbox_types ON inbox (event_type, received_at);
