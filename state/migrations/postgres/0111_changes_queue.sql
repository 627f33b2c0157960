-- +goose Up
-- The index of the changes to send also holds what a person decided about them. So the page of a plan need not read
-- each change of it.
DROP INDEX changes_queue;
CREATE INDEX changes_queue ON changes (account, connection, lane, state, change_id, plan_id, approved, left_out)
  WHERE state = 'pending' OR state = 'frozen' OR state = 'unknown';
