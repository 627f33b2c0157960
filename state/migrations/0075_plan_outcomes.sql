-- +goose Up
-- A plan shows what became of its changes. A change is listed by the plans from the first one that listed
-- it (NULL: only by its own) to the one of its plan_id, which listed it last.
ALTER TABLE changes ADD COLUMN first_plan INTEGER;
CREATE INDEX changes_plan ON changes (plan_id, change_id, first_plan);
-- The plan whose changes the run sent; NULL for a run that sent none.
ALTER TABLE runs ADD COLUMN sent_plan INTEGER;
CREATE INDEX runs_sent_plan ON runs (sent_plan, run_id) WHERE sent_plan IS NOT NULL;
UPDATE runs SET sent_plan = (SELECT c.plan_id FROM changes c WHERE c.run_id = runs.run_id AND c.attempts > 0 ORDER BY c.change_id DESC LIMIT 1);
-- The field changes are kept as long as the audit log, so the retention of details passes them over.
DROP INDEX changes_details;
CREATE INDEX changes_details ON changes (updated_at)
  WHERE (wanted IS NOT NULL OR body IS NOT NULL OR pre_image IS NOT NULL) AND (state = 'done' OR state = 'failed' OR state = 'held' OR state = 'void');
