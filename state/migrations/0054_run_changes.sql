-- +goose Up
-- By which the pages show what a run did to whom, without walking through all changes that
-- were ever made.
CREATE INDEX changes_run ON changes (run_id, change_id);
CREATE INDEX plans_run ON plans (run_id, plan_id);
