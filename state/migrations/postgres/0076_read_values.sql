-- +goose Up
-- What the newest read showed a customer to hold otherwise than was sent: the paths with both values, sealed.
-- NULL while nothing differs. The digest is keyed; with it a read that shows the same writes nothing.
ALTER TABLE payers ADD COLUMN read_values BYTEA;
ALTER TABLE payers ADD COLUMN read_digest TEXT COLLATE "C" NOT NULL DEFAULT '';
