-- +goose Up
-- What sweeps found of mandates that were known is counted since the last webhook came, for the
-- overview and for alarms: of a long history it is asked by when it was.
CREATE INDEX mandate_history_swept ON mandate_history (observed_at, cause_id, cause, from_status) WHERE cause = 'sweep' AND from_status <> '';
