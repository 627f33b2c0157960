-- +goose Up
-- One signing link for each customer, that of its latest mandate: whoever signs an older one
-- gives a mandate that is not the one that is looked for. Links that an earlier version kept
-- beside the latest mandate go.
UPDATE mandates SET link = NULL, link_at = NULL WHERE link IS NOT NULL AND (
  EXISTS (SELECT 1 FROM payers p WHERE p.billing_id = mandates.billing_id AND p.mandate_id <> mandates.mandate_id)
  OR EXISTS (SELECT 1 FROM mandates o WHERE o.billing_id = mandates.billing_id AND (o.last_seen_at, o.rowid) > (mandates.last_seen_at, mandates.rowid)
    AND NOT EXISTS (SELECT 1 FROM payers p WHERE p.mandate_id = mandates.mandate_id AND p.billing_id = mandates.billing_id)));
CREATE UNIQUE INDEX mandates_one_link ON mandates (billing_id) WHERE link IS NOT NULL;

-- The ticket at which the billing service refused to give the link again; 0 when it gave one
-- since. A link that was refused is not kept.
ALTER TABLE mandates ADD COLUMN link_refused INTEGER NOT NULL DEFAULT 0;

-- By which another payer with the same address is found.
CREATE INDEX letter_addresses_recipient ON letter_addresses (recipient);
