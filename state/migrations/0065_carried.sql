-- +goose Up
-- A ledger that was carried to another place is left where it was, and works no more; one that is
-- arriving works not yet. The place is the other one: where it went, or where it comes from.
ALTER TABLE ledger ADD COLUMN carried TEXT NOT NULL DEFAULT '' CHECK (carried IN ('', 'arriving', 'left'));
ALTER TABLE ledger ADD COLUMN carried_at TEXT;
ALTER TABLE ledger ADD COLUMN carried_place TEXT NOT NULL DEFAULT '';
