-- +goose Up
-- What a read showed of a customer that no payer is linked to, as far as records are compared with
-- it. The digest tells whether a read shows something else; saved counts up with every write.
CREATE TABLE remote_profiles (
  billing_id TEXT NOT NULL PRIMARY KEY REFERENCES remote_customers (billing_id) ON DELETE CASCADE,
  profile    BLOB NOT NULL, -- sealed
  digest     TEXT NOT NULL, -- keyed
  saved      INTEGER NOT NULL
) STRICT;
CREATE INDEX remote_profiles_saved ON remote_profiles (saved);

-- The customers that a record without one may be, with the score of each pair and its reasons as
-- codes.
CREATE TABLE match_candidates (
  connection TEXT NOT NULL,
  source_id  TEXT NOT NULL,
  billing_id TEXT NOT NULL,
  score      INTEGER NOT NULL CHECK (score >= 0 AND score <= 100),
  reasons    TEXT NOT NULL,
  PRIMARY KEY (connection, source_id, billing_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX match_candidates_customer ON match_candidates (billing_id);

-- The profile that was saved last when the records of the connection were compared.
ALTER TABLE connections ADD COLUMN matched_to INTEGER NOT NULL DEFAULT 0;

-- Earlier lists kept no profiles, so they prove nothing of who a record may be.
UPDATE passes SET lacking = NULL;
