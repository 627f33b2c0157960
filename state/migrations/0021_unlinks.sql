-- +goose Up
-- A person has said that the payer's customer is not its own: the ticket, and the change from
-- which on what we wrote is taken back; 0 for the key alone.
ALTER TABLE payers ADD COLUMN unlink_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE payers ADD COLUMN unlink_from INTEGER NOT NULL DEFAULT 0;

-- The newest change of the payer when it was parted from a customer: what was done up to it
-- says nothing of the one that it has since.
ALTER TABLE payers ADD COLUMN parted INTEGER NOT NULL DEFAULT 0;

ALTER TABLE changes ADD COLUMN unlinks INTEGER NOT NULL DEFAULT 0; -- 1: it takes the key off the customer and lets it go
