-- +goose Up
-- The ticket of the read that first told whether the customer of a payer is there with its
-- key; 0 while none has: its create may have been answered from memory.
ALTER TABLE payers ADD COLUMN seen_at INTEGER NOT NULL DEFAULT 0;
UPDATE payers SET seen_at = (SELECT max(ticket, 1) FROM ledger) WHERE billing_id IS NOT NULL AND link_state <> 'creating';
DROP INDEX payers_unverified;
CREATE INDEX payers_unverified ON payers (connection, source_id) WHERE billing_id IS NOT NULL AND seen_at = 0;

-- Where a record stands, as package protocol says it; for counts alone.
ALTER TABLE source_records ADD COLUMN class TEXT NOT NULL DEFAULT 'working'
  CHECK (class = 'working' OR class = 'failed' OR class = 'held' OR class = 'in step' OR class = 'out');
UPDATE source_records SET class = CASE
  WHEN decision = 'none' THEN 'working'
  WHEN decision = 'excluded' THEN 'out'
  WHEN decision = 'held' OR EXISTS (SELECT 1 FROM attention a
    WHERE a.connection = source_records.connection AND a.source_id = source_records.source_id AND a.topic = 'link') THEN 'held'
  ELSE 'in step' END;

-- Nothing is decided by a link state: what guards a key are its open requests and the
-- customers that carry it.
DROP INDEX payers_live_key;
CREATE INDEX source_records_working ON source_records (connection) WHERE class = 'working';

-- The customers that do not exist any more: few, and asked for in every run.
CREATE INDEX remote_customers_missing ON remote_customers (billing_id) WHERE digest = '';
