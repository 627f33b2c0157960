-- +goose Up
-- A create that was given up because it never arrived said that its outcome is not known, and that
-- the next run finds out. No run does: a person has to say that it may be tried again. The owner
-- of the tables changes the rows of every account.
ALTER TABLE changes NO FORCE ROW LEVEL SECURITY;
ALTER TABLE attention NO FORCE ROW LEVEL SECURITY;
UPDATE changes SET reason = 'no_answer' WHERE lane = 'customer' AND action = 'create' AND state = 'held' AND reason = 'outcome_unknown';
UPDATE attention SET reason = 'no_answer' WHERE topic = 'link' AND reason = 'outcome_unknown' AND EXISTS (
  SELECT 1 FROM changes c WHERE c.account = attention.account AND c.connection = attention.connection AND c.source_id = attention.source_id AND c.lane = 'customer' AND c.reason = 'no_answer'
  AND c.change_id = (SELECT max(n.change_id) FROM changes n WHERE n.account = c.account AND n.connection = c.connection AND n.source_id = c.source_id AND n.lane = 'customer'));
ALTER TABLE changes FORCE ROW LEVEL SECURITY;
ALTER TABLE attention FORCE ROW LEVEL SECURITY;
