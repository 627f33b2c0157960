-- +goose Up
-- A plan shows what became of its changes. A change is listed by the plans from the first one that listed
-- it (NULL: only by its own) to the one of its plan_id, which listed it last.
ALTER TABLE changes ADD COLUMN first_plan BIGINT;
CREATE INDEX changes_plan ON changes (account, plan_id, change_id, first_plan);
-- The plan whose changes the run sent; NULL for a run that sent none. The owner of the tables changes the
-- rows of every account.
ALTER TABLE runs ADD COLUMN sent_plan BIGINT;
CREATE INDEX runs_sent_plan ON runs (account, sent_plan, run_id) WHERE sent_plan IS NOT NULL;
ALTER TABLE changes NO FORCE ROW LEVEL SECURITY;
ALTER TABLE runs NO FORCE ROW LEVEL SECURITY;
UPDATE runs SET sent_plan = (SELECT c.plan_id FROM changes c WHERE c.account = runs.account AND c.run_id = runs.run_id AND c.attempts > 0 ORDER BY c.change_id DESC LIMIT 1);
ALTER TABLE changes FORCE ROW LEVEL SECURITY;
ALTER TABLE runs FORCE ROW LEVEL SECURITY;
-- The field changes are kept as long as the audit log, so the retention of details passes them over.
DROP INDEX changes_details;
CREATE INDEX changes_details ON changes (account, updated_at) WHERE (wanted IS NOT NULL OR body IS NOT NULL OR pre_image IS NOT NULL) AND (state = 'done' OR state = 'failed' OR state = 'held' OR state = 'void');
