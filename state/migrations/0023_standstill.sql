-- +goose Up
-- Whether the record was held or left out by the newest plan of its connection that did not
-- stand still, or a person has let it go as such; and the plan at a standstill that would lose
-- its payer, NULL for none.
ALTER TABLE source_records ADD COLUMN let_go INTEGER NOT NULL DEFAULT 0 CHECK (let_go = 0 OR let_go = 1);
ALTER TABLE source_records ADD COLUMN lost_by INTEGER REFERENCES plans (plan_id);
UPDATE source_records SET let_go = 1 WHERE decision = 'held' OR decision = 'excluded';
CREATE INDEX source_records_turned ON source_records (connection, source_id)
  WHERE let_go <> (decision = 'held' OR decision = 'excluded');

-- Payers that a plan at a standstill would lose; 0 for any other plan.
ALTER TABLE plans ADD COLUMN lost INTEGER NOT NULL DEFAULT 0 CHECK (lost >= 0);
