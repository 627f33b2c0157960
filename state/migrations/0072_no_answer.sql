-- +goose Up
-- A create that was given up because it never arrived said that its outcome is not known, and that
-- the next run finds out. No run does: a person has to say that it may be tried again.
UPDATE changes SET reason = 'no_answer' WHERE lane = 'customer' AND action = 'create' AND state = 'held' AND reason = 'outcome_unknown';
UPDATE attention SET reason = 'no_answer' WHERE topic = 'link' AND reason = 'outcome_unknown' AND EXISTS (
  SELECT 1 FROM changes c WHERE c.connection = attention.connection AND c.source_id = attention.source_id AND c.lane = 'customer' AND c.reason = 'no_answer'
  AND c.change_id = (SELECT max(n.change_id) FROM changes n WHERE n.connection = c.connection AND n.source_id = c.source_id AND n.lane = 'customer'));
