-- +goose Up
-- What is the matter with an installation is computed. These tables hold what was told of it.
-- A message to one way of telling: frozen before it leaves, and sent again byte for byte, under
-- the same id, until somebody takes it.
CREATE TABLE alarm_messages (
  message_id   TEXT NOT NULL PRIMARY KEY CHECK (message_id <> ''), -- also that of the mail or the webhook
  way          TEXT NOT NULL CHECK (way <> ''),
  made_at      TEXT NOT NULL,
  digest       TEXT NOT NULL,                          -- SHA-256 of the frozen bytes
  body         BLOB,                                   -- the frozen bytes, sealed; NULL once they were taken
  attempts     INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  next_attempt TEXT,
  refused      INTEGER NOT NULL DEFAULT 0 CHECK (refused IN (0, 1)), -- the last attempt was refused for good
  problem      TEXT NOT NULL DEFAULT '',               -- why the last attempt failed
  sent_at      TEXT,
  CHECK ((body IS NULL) = (sent_at IS NOT NULL))
) STRICT;
-- Whatever begins while a message waits is told by the next one.
CREATE UNIQUE INDEX alarm_messages_open ON alarm_messages (way) WHERE sent_at IS NULL;
CREATE INDEX alarm_messages_way ON alarm_messages (way, made_at);

-- A condition as one way was told of it, or is to be told. It is closed by the message that
-- told its end.
CREATE TABLE alarms (
  alarm_id   INTEGER PRIMARY KEY,
  way        TEXT NOT NULL CHECK (way <> ''),
  code       TEXT NOT NULL CHECK (code <> ''),
  subject    TEXT NOT NULL,
  connection TEXT NOT NULL,
  urgent     INTEGER NOT NULL CHECK (urgent IN (0, 1)),
  since      TEXT,                                     -- when it began, as far as that is known
  noticed_at TEXT NOT NULL,
  text       TEXT NOT NULL,                            -- the sentence that tells it, without a name
  over_at    TEXT,                                     -- when it was found to be gone
  told       TEXT REFERENCES alarm_messages (message_id),
  over_told  TEXT REFERENCES alarm_messages (message_id),
  CHECK (over_told IS NULL OR over_at IS NOT NULL AND told IS NOT NULL)
) STRICT;
CREATE UNIQUE INDEX alarms_open ON alarms (way, code, subject) WHERE over_told IS NULL;
CREATE INDEX alarms_closed ON alarms (over_at) WHERE over_told IS NOT NULL;

-- For what is looked up every minute.
CREATE INDEX runs_connection ON runs (connection, run_id);
CREATE INDEX mandate_history_mandate ON mandate_history (mandate_id, seq);
CREATE INDEX attempts_open ON attempts (sent_at) WHERE ended = '';
