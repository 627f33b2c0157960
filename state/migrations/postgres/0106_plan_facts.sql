-- +goose Up
-- A plan stores the facts that only the mapping and the comparison of records give, so that a later write can decide
-- again by all facts. Most records have none: a record that fits and has a planned change needs no value here.
ALTER TABLE source_records ADD COLUMN unfit TEXT COLLATE "C" NOT NULL DEFAULT '';
-- The hash of the wanted customer; '' for that of the newest change of the customer.
ALTER TABLE source_records ADD COLUMN wanted_hash TEXT COLLATE "C" NOT NULL DEFAULT '';
-- A sum of flags; -1 for a record whose newest plan stored none.
ALTER TABLE source_records ADD COLUMN plan_flags BIGINT NOT NULL DEFAULT -1;
