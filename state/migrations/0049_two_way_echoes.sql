-- +goose Up
-- Changes of the books that a customer showed before payersync had sent them: somebody else
-- carries them too. The newest of each record is kept, for a month.
CREATE TABLE two_way_echoes (
  connection TEXT NOT NULL CHECK (connection <> ''),
  source_id  TEXT NOT NULL,
  at         TEXT NOT NULL,
  PRIMARY KEY (connection, source_id)
) STRICT, WITHOUT ROWID;
ALTER TABLE two_way ADD COLUMN echoes INTEGER NOT NULL DEFAULT 0 CHECK (echoes >= 0); -- records of which that showed it; 0 where pairs did
