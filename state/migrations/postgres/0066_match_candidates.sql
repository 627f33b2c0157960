-- +goose Up
-- What a read showed of a customer that no payer is linked to, as far as records are compared with
-- it. The digest tells whether a read shows something else; saved counts up with every write.
CREATE TABLE remote_profiles (
  account    account_id NOT NULL,
  billing_id TEXT COLLATE "C" NOT NULL,
  profile    BYTEA NOT NULL, -- sealed
  digest     TEXT COLLATE "C" NOT NULL, -- keyed
  saved      BIGINT NOT NULL,
  PRIMARY KEY (account, billing_id),
  FOREIGN KEY (account, billing_id) REFERENCES remote_customers (account, billing_id) ON DELETE CASCADE
);
CREATE INDEX remote_profiles_saved ON remote_profiles (account, saved);

-- The customers that a record without one may be, with the score of each pair and its reasons as
-- codes.
CREATE TABLE match_candidates (
  account    account_id NOT NULL,
  connection TEXT COLLATE "C" NOT NULL,
  source_id  TEXT COLLATE "C" NOT NULL,
  billing_id TEXT COLLATE "C" NOT NULL,
  score      BIGINT NOT NULL CHECK (score >= 0 AND score <= 100),
  reasons    TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (account, connection, source_id, billing_id)
);
CREATE INDEX match_candidates_customer ON match_candidates (account, billing_id);

-- The profile that was saved last when the records of the connection were compared.
ALTER TABLE connections ADD COLUMN matched_to BIGINT NOT NULL DEFAULT 0;

-- Earlier lists kept no profiles, so they prove nothing of who a record may be.
ALTER TABLE passes NO FORCE ROW LEVEL SECURITY;
UPDATE passes SET lacking = NULL;
ALTER TABLE passes FORCE ROW LEVEL SECURITY;

ALTER TABLE remote_profiles ENABLE ROW LEVEL SECURITY;
ALTER TABLE remote_profiles FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON remote_profiles USING (account = (SELECT current_setting('payersync.account')::bigint));
ALTER TABLE match_candidates ENABLE ROW LEVEL SECURITY;
ALTER TABLE match_candidates FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON match_candidates USING (account = (SELECT current_setting('payersync.account')::bigint));
