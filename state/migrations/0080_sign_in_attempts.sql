-- +goose Up
-- Wrong passwords at the sign-in to the pages, so that a restart does not forget them. counter is a
-- keyed hash: typed names and addresses are not kept. A device is a browser that has signed in before.
CREATE TABLE sign_in_attempts (
  counter    TEXT PRIMARY KEY CHECK (counter <> ''),
  kind       TEXT NOT NULL CHECK (kind IN ('device', 'stranger')),
  wrong      INTEGER NOT NULL CHECK (wrong > 0),
  wait_until TEXT, -- before it, no password of this stranger is checked
  expires_at TEXT NOT NULL
) STRICT;
CREATE INDEX sign_in_attempts_expires ON sign_in_attempts (expires_at);
