-- +goose Up
-- The newest list pass that had begun when a customer became known: a later one is
-- short when it does not list the customer.
ALTER TABLE remote_customers ADD COLUMN known_pass INTEGER NOT NULL DEFAULT 0;
