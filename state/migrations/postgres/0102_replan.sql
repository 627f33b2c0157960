-- +goose Up
-- Few records are to be planned again at any time. Each run asks at its end whether there are any.
CREATE INDEX source_records_replan ON source_records (account, connection) WHERE replan = 1;
