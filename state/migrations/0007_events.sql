-- +goose Up
-- How often a delivery came again, and when deliveries last made payersync read
-- the customer of a payer: a repeat may be news, and is worth a read every few
-- seconds at most.
ALTER TABLE inbox ADD COLUMN repeats INTEGER NOT NULL DEFAULT 0 CHECK (repeats >= 0);
ALTER TABLE payers ADD COLUMN drained_at TEXT;

-- The mandate that a delivery names which names no customer.
ALTER TABLE inbox ADD COLUMN mandate_id TEXT NOT NULL DEFAULT '';

-- Why a bank cancelled the mandate, in the service's code, sealed: for debugging
-- with the service only, and in no view.
ALTER TABLE mandates ADD COLUMN failure_reason BLOB;

-- The webhook subscription: as the service confirmed or first showed it, as it was
-- shown last, and what is the matter with it; exactly one row. Addresses are kept
-- without their query.
CREATE TABLE subscription (
  only_row      INTEGER PRIMARY KEY CHECK (only_row = 1),
  expected      TEXT NOT NULL DEFAULT '',              -- JSON: id, url, events, enabled; '' while none is known
  shown         TEXT NOT NULL DEFAULT '',              -- JSON: a list of such; '' when it was never shown
  shown_at      TEXT,
  problem       TEXT NOT NULL DEFAULT '' CHECK (problem IN ('', 'replaced', 'disabled', 'deleted', 'not_shown')),
  detail        TEXT NOT NULL DEFAULT '',
  problem_since TEXT
) STRICT;
INSERT INTO subscription (only_row) VALUES (1);

DROP VIEW v_attention;
CREATE VIEW v_attention (connection, source_id, reason, detail, since) AS
  SELECT connection, source_id, reason, detail, since FROM attention
  UNION ALL
  SELECT '', delivery_key, 'event_not_understood', detail, received_at FROM inbox WHERE state = 'quarantined'
  UNION ALL
  SELECT '', 'webhooks', 'subscription_changed', detail, problem_since FROM subscription WHERE problem <> '';
