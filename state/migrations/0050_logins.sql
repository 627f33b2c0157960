-- +goose Up
-- Who is signed in to the pages. A browser holds a random token; here is its hash, so that who
-- reads this file signs in nowhere. What is kept with a login (who it is, what was searched for)
-- is sealed.
CREATE TABLE logins (
  token_hash TEXT PRIMARY KEY,
  data       BLOB NOT NULL,
  expires_at TEXT NOT NULL
) STRICT;

-- Links that sign somebody in once. One that was used stays until it would have expired, so
-- that a second use is told from a link that never was.
CREATE TABLE login_links (
  token_hash TEXT PRIMARY KEY,
  person     TEXT NOT NULL,
  role       TEXT NOT NULL,
  made_at    TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  used_at    TEXT
) STRICT;
