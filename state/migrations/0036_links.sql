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

-- By which the payers are found who are written to at an address.
CREATE INDEX letter_addresses_recipient ON letter_addresses (recipient);

-- That letters come back is told for as long as the payer is written to at the address, and has
-- a mandate to sign.
DROP VIEW v_attention;
CREATE VIEW v_attention (connection, source_id, reason, detail, since) AS
  SELECT connection, source_id, reason, detail, since FROM attention
  UNION ALL
  SELECT '', delivery_key, 'event_not_understood', detail, received_at FROM inbox WHERE state = 'quarantined'
  UNION ALL
  SELECT '', 'webhooks', 'subscription_changed', detail, problem_since FROM subscription WHERE problem <> '' AND NOT (known <> 0 AND known_of = detail)
  UNION ALL
  SELECT a.connection, a.source_id, 'address_bounced', 'A letter to the payer''s e-mail address came back: the address does not exist, or takes no mail.', min(s.since)
  FROM letter_stops s JOIN letter_addresses a ON a.recipient = s.recipient
  JOIN payers p ON p.connection = a.connection AND p.source_id = a.source_id
  JOIN mandates m ON m.mandate_id = p.mandate_id AND m.status = 'CREATED'
  WHERE s.scope = 'address' AND s.why = 'bounced' AND s.ended_at IS NULL AND s.recipient <> '' GROUP BY a.connection, a.source_id;

-- Why a mandate came to its status, in the service's code, sealed: for questions to the service
-- alone. It lies beside the line of the history that it came with, which never changes.
CREATE TABLE failure_reasons (
  seq        INTEGER PRIMARY KEY REFERENCES mandate_history (seq),
  mandate_id TEXT NOT NULL REFERENCES mandates (mandate_id),
  reason     BLOB NOT NULL,                            -- sealed
  kept_at    TEXT NOT NULL
) STRICT;
CREATE INDEX failure_reasons_mandate ON failure_reasons (mandate_id);
CREATE INDEX failure_reasons_kept ON failure_reasons (kept_at);
