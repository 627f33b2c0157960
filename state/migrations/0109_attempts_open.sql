-- +goose Up
-- One index of the requests without an end serves those that may still arrive, and those that can arrive no more.
-- Every request enters it and leaves it.
DROP INDEX attempts_under_way;
DROP INDEX attempts_open;
CREATE INDEX attempts_open ON attempts (over, sent_at) WHERE ended = '';
