-- +goose Up
-- Who signs in to the pages with a password. The name stands in the audit log as well, which is
-- in the clear; the hash of the password is sealed. generation counts what ends all logins of
-- somebody: another password, another role.
CREATE TABLE users (
  name        TEXT PRIMARY KEY CHECK (name <> ''),
  role        TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
  password    BLOB, -- NULL until the invitation is used
  generation  INTEGER NOT NULL CHECK (generation > 0),
  made_at     TEXT NOT NULL,
  password_at TEXT
) STRICT;

-- A link that invites lets its person choose a password; the others sign in as they say.
ALTER TABLE login_links ADD COLUMN invites INTEGER NOT NULL DEFAULT 0 CHECK (invites IN (0, 1));
