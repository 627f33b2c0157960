-- +goose Up
-- A person's decision whether the record's payer is asked for a mandate, with the line of the audit
-- log that holds it, and why the newest plan does not ask. line and condition number the rule in the
-- mapping version planned_mapping. Payers without a mandate are planned once more to find out; the
-- owner of the tables changes the rows of every account.
ALTER TABLE source_records ADD COLUMN asking TEXT COLLATE "C" NOT NULL DEFAULT '' CHECK (asking IN ('', 'ask', 'do_not_ask'));
ALTER TABLE source_records ADD COLUMN asking_word BIGINT NOT NULL DEFAULT 0;
ALTER TABLE source_records ADD COLUMN not_asked TEXT COLLATE "C" NOT NULL DEFAULT '' CHECK (not_asked IN ('', 'no_email', 'rule', 'person'));
ALTER TABLE source_records ADD COLUMN not_asked_line BIGINT NOT NULL DEFAULT 0;
ALTER TABLE source_records ADD COLUMN not_asked_condition BIGINT NOT NULL DEFAULT 0;
CREATE INDEX source_records_not_asked ON source_records (account, connection, source_id) WHERE not_asked <> '';
ALTER TABLE source_records NO FORCE ROW LEVEL SECURITY;
ALTER TABLE payers NO FORCE ROW LEVEL SECURITY;
UPDATE source_records SET replan = 1 WHERE decision = 'included' AND NOT EXISTS (
  SELECT 1 FROM payers p WHERE p.account = source_records.account AND p.connection = source_records.connection AND p.source_id = source_records.source_id AND p.mandate_id IS NOT NULL);
ALTER TABLE source_records FORCE ROW LEVEL SECURITY;
ALTER TABLE payers FORCE ROW LEVEL SECURITY;
