-- +goose Up
ALTER TABLE changes ADD COLUMN scopes INTEGER NOT NULL DEFAULT 0; -- 1: it writes the organisation beside a key that the customer carries

-- The key that a person has said the payer's customer comes to carry: its record has it.
ALTER TABLE payers ADD COLUMN moves_name TEXT NOT NULL DEFAULT '';
ALTER TABLE payers ADD COLUMN moves_value TEXT NOT NULL DEFAULT '';

-- payers.key_value and attempts.key_value hold the scope of a key behind U+001F, where it has
-- one; the view shows the two apart.
DROP VIEW v_payers;
CREATE VIEW v_payers (connection, source_id, key_name, key_value, billing_id, link_state,
                      mandate_id, mandate_status, attention_reason, updated_at, key_scope) AS
  SELECT p.connection, p.source_id, p.key_name, substr(p.key_value, 1, instr(p.key_value || char(31), char(31)) - 1), p.billing_id, p.link_state,
         p.mandate_id, m.status,
         (SELECT a.reason FROM attention a
          WHERE a.connection = p.connection AND a.source_id = p.source_id
          ORDER BY CASE a.topic WHEN 'link' THEN 0 WHEN 'record' THEN 1 ELSE 2 END LIMIT 1),
         p.updated_at, substr(p.key_value, instr(p.key_value || char(31), char(31)) + 1)
  FROM payers p LEFT JOIN mandates m ON m.mandate_id = p.mandate_id;
