-- +goose Up
-- Each try to have webhooks signed with another secret. A try is written down before anything
-- is asked of the service, and what comes of it before it is used: which secrets are accepted,
-- and whether one may be in use that nobody here knows, is computed.
CREATE TABLE webhook_rotations (
  rotation_id  INTEGER PRIMARY KEY,
  begun_at     TEXT NOT NULL,            -- before the first call
  begun_by     TEXT NOT NULL DEFAULT '',
  secret       BLOB,                     -- what the service signs with from then on, sealed; NULL while it named none, and when nothing needs it any more
  secret_at    TEXT,                     -- when it was kept
  delivery_key BLOB,                     -- what deliveries are to carry from then on, sealed; NULL for none, and when nothing needs it any more
  done_at      TEXT,                     -- when the service had taken all of it
  refused_at   TEXT,                     -- when the service refused before it named a secret, so that the one before still signs
  CHECK (secret IS NULL OR secret_at IS NOT NULL),
  CHECK (done_at IS NULL OR refused_at IS NULL)
) STRICT;
