-- +goose Up
-- There are few of these pairs, and many records: without statistics SQLite searched through all records of a
-- connection for those of its pairs. The words CROSS JOIN make it begin with the pairs.
DROP VIEW open_duplicates;
CREATE VIEW open_duplicates (connection, source_id, billing_id, other_id, score, reasons, detail, since) AS
  SELECT p.connection, p.source_id, p.billing_id, d.other_id, d.score, d.reasons,
    'The customers ' || p.billing_id || ' (' || coalesce((SELECT 'mandate ' || m.status FROM mandates m WHERE m.mandate_id = p.mandate_id), 'no mandate known')
    || ') and ' || d.other_id || ' (' || CASE WHEN q.connection IS NULL THEN '' WHEN q.connection = p.connection THEN 'of record ' || q.source_id || ', ' ELSE 'of another connection, ' END
    || coalesce((SELECT 'mandate ' || m.status FROM mandates m WHERE m.mandate_id = q.mandate_id),
      (SELECT 'mandate ' || f.mandate_status FROM remote_profiles f WHERE f.billing_id = d.other_id AND f.mandate_status <> ''), 'no mandate known')
    || ') in the billing service look like one payer: score ' || d.score || ' of 100.', d.since
  FROM (SELECT billing_id, other_id, score, reasons, since FROM duplicate_customers
    UNION ALL SELECT other_id, billing_id, score, reasons, since FROM duplicate_customers) d
  CROSS JOIN payers p ON p.billing_id = d.billing_id
  CROSS JOIN source_records r ON r.connection = p.connection AND r.source_id = p.source_id
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
