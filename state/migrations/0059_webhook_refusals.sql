-- +goose Up
-- How many requests to the webhook endpoint were not taken in, by day and why. The reasons are
-- words of ours alone: nothing that a stranger sent is here.
CREATE TABLE webhook_refusals (
  day      TEXT NOT NULL CHECK (day GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]'), -- in UTC
  reason   TEXT NOT NULL CHECK (reason IN ('wrong_path', 'wrong_method', 'too_many', 'wrong_encoding', 'wrong_type', 'too_large', 'broken_off',
    'signature_failed', 'delivery_key_failed', 'secret_unknown', 'busy', 'not_stored', 'panicked')),
  requests INTEGER NOT NULL CHECK (requests > 0),
  first_at TEXT NOT NULL,
  last_at  TEXT NOT NULL,
  PRIMARY KEY (day, reason)
) STRICT, WITHOUT ROWID;
