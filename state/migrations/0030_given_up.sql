-- +goose Up
-- A person's word that a record is not to be connected: the entry of the audit log with who,
-- when and why, 0 for none, and a hash of what the mapping made of the record then.
ALTER TABLE source_records ADD COLUMN given_up INTEGER NOT NULL DEFAULT 0;
ALTER TABLE source_records ADD COLUMN given_up_of TEXT NOT NULL DEFAULT '';
CREATE INDEX source_records_given_up ON source_records (connection, source_id) WHERE given_up <> 0;

-- A person's word that nothing is to be done about a payer's mandate as it is: the entry of
-- the audit log, 0 for none, and the mandate, its status and the last request for its link.
ALTER TABLE payers ADD COLUMN let_be INTEGER NOT NULL DEFAULT 0;
ALTER TABLE payers ADD COLUMN let_be_of TEXT NOT NULL DEFAULT '';

-- The entry of the audit log in which a person said that the payer may stay; 0 for none, and
-- for what was said before this column was there.
ALTER TABLE payers ADD COLUMN stays_word INTEGER NOT NULL DEFAULT 0;

-- A person's word that the problem of the webhook subscription is known: the entry of the
-- audit log, 0 for none, and the problem in words.
ALTER TABLE subscription ADD COLUMN known INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscription ADD COLUMN known_of TEXT NOT NULL DEFAULT '';

DROP VIEW v_attention;
CREATE VIEW v_attention (connection, source_id, reason, detail, since) AS
  SELECT connection, source_id, reason, detail, since FROM attention
  UNION ALL
  SELECT '', delivery_key, 'event_not_understood', detail, received_at FROM inbox WHERE state = 'quarantined'
  UNION ALL
  SELECT '', 'webhooks', 'subscription_changed', detail, problem_since FROM subscription WHERE problem <> '' AND NOT (known <> 0 AND known_of = detail);

-- By which the newest step of a payer's mandates is found.
CREATE INDEX mandate_history_customer ON mandate_history (billing_id, seq);
