-- +goose Up
-- Two customers of the billing service that look like two of one payer, the lesser id first, with the score and
-- its reasons as codes. At least one of them was linked to a payer when they were compared.
CREATE TABLE duplicate_customers (
  billing_id TEXT NOT NULL,
  other_id   TEXT NOT NULL CHECK (other_id > billing_id),
  score      INTEGER NOT NULL CHECK (score >= 0 AND score <= 100),
  reasons    TEXT NOT NULL,
  since      TEXT NOT NULL,
  PRIMARY KEY (billing_id, other_id)
) STRICT, WITHOUT ROWID;

-- The status of the mandate that a read showed last of such a customer; blank while none was shown.
ALTER TABLE remote_profiles ADD COLUMN mandate_status TEXT NOT NULL DEFAULT '';

-- What a person should know now of two customers of one payer: a row for each payer and other customer.
-- It is told of a payer that is in the books, while both customers are there and nobody has said that
-- they are two payers, or that the payer's customer is another.
CREATE VIEW open_duplicates (connection, source_id, billing_id, other_id, score, reasons, detail, since) AS
  SELECT p.connection, p.source_id, p.billing_id, d.other_id, d.score, d.reasons,
    'The customers ' || p.billing_id || ' (' || coalesce((SELECT 'mandate ' || m.status FROM mandates m WHERE m.mandate_id = p.mandate_id), 'no mandate known')
    || ') and ' || d.other_id || ' (' || CASE WHEN q.connection IS NULL THEN '' WHEN q.connection = p.connection THEN 'of record ' || q.source_id || ', ' ELSE 'of another connection, ' END
    || coalesce((SELECT 'mandate ' || m.status FROM mandates m WHERE m.mandate_id = q.mandate_id),
      (SELECT 'mandate ' || f.mandate_status FROM remote_profiles f WHERE f.billing_id = d.other_id AND f.mandate_status <> ''), 'no mandate known')
    || ') in the billing service look like one payer: score ' || d.score || ' of 100.', d.since
  FROM (SELECT billing_id, other_id, score, reasons, since FROM duplicate_customers
    UNION ALL SELECT other_id, billing_id, score, reasons, since FROM duplicate_customers) d
  JOIN payers p ON p.billing_id = d.billing_id
  JOIN source_records r ON r.connection = p.connection AND r.source_id = p.source_id
  LEFT JOIN payers q ON q.billing_id = d.other_id
  LEFT JOIN source_records s ON s.connection = q.connection AND s.source_id = q.source_id
  WHERE r.state = 'active' AND r.decision <> 'excluded' AND r.unseen = 0 AND r.same_as = '' AND r.given_up = 0 AND r.forgotten = '' AND p.unlink_at = 0
    AND NOT EXISTS (SELECT 1 FROM remote_customers g WHERE (g.billing_id = d.billing_id OR g.billing_id = d.other_id) AND g.digest = '')
    AND (q.source_id IS NOT NULL OR EXISTS (SELECT 1 FROM remote_customers c WHERE c.billing_id = d.other_id))
    AND NOT EXISTS (SELECT 1 FROM words w WHERE w.connection = p.connection AND w.source_id = p.source_id AND w.billing_id = d.other_id AND (w.word = 'reject' OR w.word = 'spent' AND w.reason = 'unlinked'))
    AND NOT EXISTS (SELECT 1 FROM words w WHERE w.connection = q.connection AND w.source_id = q.source_id AND w.billing_id = d.billing_id AND (w.word = 'reject' OR w.word = 'spent' AND w.reason = 'unlinked'))
    AND NOT EXISTS (SELECT 1 FROM apart a WHERE a.connection = p.connection AND q.connection = p.connection
      AND (a.source_id = p.source_id AND a.other_id = q.source_id OR a.source_id = q.source_id AND a.other_id = p.source_id))
    AND NOT (q.connection IS NOT NULL AND (s.forgotten <> '' OR q.connection = p.connection AND s.same_as = p.source_id));

DROP VIEW v_payers;
CREATE VIEW v_payers (connection, source_id, key_name, key_value, billing_id, link_state,
                      mandate_id, mandate_status, attention_reason, updated_at, key_scope) AS
  SELECT p.connection, p.source_id, p.key_name, substr(p.key_value, 1, instr(p.key_value || char(31), char(31)) - 1), p.billing_id, p.link_state,
         p.mandate_id, m.status,
         coalesce((SELECT a.reason FROM attention a
          WHERE a.connection = p.connection AND a.source_id = p.source_id
          ORDER BY CASE a.topic WHEN 'link' THEN 0 WHEN 'record' THEN 1 ELSE 2 END LIMIT 1),
          CASE WHEN (p.connection, p.source_id) IN (SELECT connection, source_id FROM open_duplicates) THEN 'duplicate_customer' END),
         p.updated_at, substr(p.key_value, instr(p.key_value || char(31), char(31)) + 1)
  FROM payers p LEFT JOIN mandates m ON m.mandate_id = p.mandate_id;

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
  WHERE s.scope = 'address' AND s.why = 'bounced' AND s.ended_at IS NULL AND s.recipient <> '' GROUP BY a.connection, a.source_id
  UNION ALL
  SELECT connection, source_id, 'duplicate_customer', group_concat(detail, ' ' ORDER BY detail), min(since) FROM open_duplicates GROUP BY connection, source_id;
