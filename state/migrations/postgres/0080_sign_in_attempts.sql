-- +goose Up
-- Wrong passwords at the sign-in to the pages, so that a restart does not forget them. counter is a
-- keyed hash: typed names and addresses are not kept. A device is a browser that has signed in before.
CREATE TABLE sign_in_attempts (
  account    account_id NOT NULL,
  counter    TEXT COLLATE "C" NOT NULL CHECK (counter <> ''),
  kind       TEXT COLLATE "C" NOT NULL CHECK (kind IN ('device', 'stranger')),
  wrong      BIGINT NOT NULL CHECK (wrong > 0),
  wait_until TEXT COLLATE "C", -- before it, no password of this stranger is checked
  expires_at TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (account, counter)
);
CREATE INDEX sign_in_attempts_expires ON sign_in_attempts (account, expires_at);
ALTER TABLE sign_in_attempts ENABLE ROW LEVEL SECURITY;
ALTER TABLE sign_in_attempts FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON sign_in_attempts USING (account = (SELECT current_setting('payersync.account')::bigint));
