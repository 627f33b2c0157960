-- +goose Up
-- Whether the list pass that ended last has shown the mandate, or the financial status, as it is
-- known. It is noted at that end, where it is news, so that a list which shows everything as it
-- was writes no row of it: what was listed was last seen when that pass began.
ALTER TABLE mandates ADD COLUMN listed INTEGER NOT NULL DEFAULT 0 CHECK (listed = 0 OR listed = 1);
ALTER TABLE financial_statuses ADD COLUMN listed INTEGER NOT NULL DEFAULT 0 CHECK (listed = 0 OR listed = 1);

-- Each pass wrote its number to every customer that it met. It keeps them in memory now.
ALTER TABLE remote_customers DROP COLUMN seen_pass;
ALTER TABLE remote_customers DROP COLUMN bare_pass;

DROP VIEW v_mandates;
CREATE VIEW v_mandates (mandate_id, billing_id, connection, source_id, status, status_since, first_seen_at, last_seen_at) AS
  SELECT m.mandate_id, m.billing_id, p.connection, p.source_id, m.status, m.status_since, m.first_seen_at,
    CASE m.listed WHEN 1 THEN max(m.last_seen_at, coalesce((SELECT q.started_at FROM passes q
      WHERE q.finished_at IS NOT NULL ORDER BY q.finished_at DESC, q.started_at LIMIT 1), '')) ELSE m.last_seen_at END
  FROM mandates m LEFT JOIN payers p ON p.billing_id = m.billing_id;
