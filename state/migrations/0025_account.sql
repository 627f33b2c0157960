-- +goose Up
-- The account of the billing service that the ledger belongs to: the service's host, and the
-- beginning of a hash of what it knows us by. Blank before the first run. All connections
-- share it, so it is no longer noted with each.
ALTER TABLE ledger ADD COLUMN billing_address TEXT NOT NULL DEFAULT '';
ALTER TABLE ledger ADD COLUMN billing_credentials TEXT NOT NULL DEFAULT '';
UPDATE ledger SET
  billing_address = substr(c.fingerprint, 1, instr(c.fingerprint, ' client ') - 1),
  billing_credentials = substr(c.fingerprint, instr(c.fingerprint, ' client ') + 8)
  FROM (SELECT fingerprint FROM connections WHERE instr(fingerprint, ' client ') > 1 ORDER BY updated_at DESC LIMIT 1) c;
ALTER TABLE connections DROP COLUMN fingerprint;
