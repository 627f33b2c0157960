-- +goose Up

-- Where a row is written for every record or webhook, enumerations are spelt with
-- OR: for an IN list of three values or more SQLite builds a temporary table, each
-- time the condition is looked at.

-- Facts about the ledger as a whole; exactly one row.
CREATE TABLE ledger (
  only_row    INTEGER PRIMARY KEY CHECK (only_row = 1),
  ticket      INTEGER NOT NULL DEFAULT 0 CHECK (ticket >= 0), -- last read ticket given out
  restored_at TEXT,                                           -- set by a restore: creates wait, older passes no longer count
  key_check   BLOB                                            -- a known text, sealed: opens with this ledger's key only
) STRICT;
INSERT INTO ledger (only_row) VALUES (1);

CREATE TABLE connections (
  name         TEXT PRIMARY KEY,
  source_kind  TEXT NOT NULL,
  tenant_id    TEXT NOT NULL DEFAULT '',
  tenant_name  TEXT NOT NULL DEFAULT '',
  fingerprint  TEXT NOT NULL DEFAULT '',
  state        TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'disconnected', 'parked')),
  parked_until TEXT,
  updated_at   TEXT NOT NULL
) STRICT;

CREATE TABLE mapping_versions (
  hash     TEXT PRIMARY KEY,
  text     TEXT NOT NULL,
  author   TEXT NOT NULL,
  saved_at TEXT NOT NULL
) STRICT;

CREATE TABLE runs (
  run_id          INTEGER PRIMARY KEY,
  connection      TEXT NOT NULL REFERENCES connections (name),
  kind            TEXT NOT NULL CHECK (kind IN ('sync', 'backfill', 'plan')),
  trigger         TEXT NOT NULL CHECK (trigger IN ('manual', 'schedule', 'catch_up')),
  mapping_version TEXT NOT NULL REFERENCES mapping_versions (hash),
  holder          TEXT NOT NULL,
  lease_until     TEXT NOT NULL,
  started_at      TEXT NOT NULL,
  finished_at     TEXT,
  outcome         TEXT NOT NULL DEFAULT 'running'
                  CHECK (outcome IN ('running', 'awaiting_approval', 'complete', 'incomplete', 'failed')),
  error           TEXT NOT NULL DEFAULT '',
  pulled          INTEGER NOT NULL DEFAULT 0,
  unchanged       INTEGER NOT NULL DEFAULT 0,
  excluded        INTEGER NOT NULL DEFAULT 0,
  created         INTEGER NOT NULL DEFAULT 0,
  adopted         INTEGER NOT NULL DEFAULT 0,
  updated         INTEGER NOT NULL DEFAULT 0,
  links_requested INTEGER NOT NULL DEFAULT 0,
  held            INTEGER NOT NULL DEFAULT 0,
  failed          INTEGER NOT NULL DEFAULT 0,
  waiting         INTEGER NOT NULL DEFAULT 0,
  CHECK ((finished_at IS NULL) = (outcome = 'running'))
) STRICT;
-- One open run per connection.
CREATE UNIQUE INDEX runs_open ON runs (connection) WHERE finished_at IS NULL;

CREATE TABLE cursors (
  connection TEXT NOT NULL REFERENCES connections (name),
  stream     TEXT NOT NULL,
  value      TEXT NOT NULL,
  set_by_run INTEGER NOT NULL REFERENCES runs (run_id),
  PRIMARY KEY (connection, stream)
) STRICT;

CREATE TABLE source_records (
  connection      TEXT NOT NULL REFERENCES connections (name),
  source_id       TEXT NOT NULL CHECK (source_id <> ''),
  content_hash    TEXT NOT NULL,
  record          BLOB NOT NULL,                       -- sealed
  state           TEXT NOT NULL CHECK (state = 'active' OR state = 'archived' OR state = 'deleted' OR state = 'merged' OR state = 'unknown'),
  source_time     TEXT,
  origin          TEXT NOT NULL DEFAULT '',
  last_seen_run   INTEGER NOT NULL REFERENCES runs (run_id),
  planned_hash    TEXT NOT NULL DEFAULT '',            -- content the last plan saw
  planned_mapping TEXT NOT NULL DEFAULT '',            -- mapping version the last plan used
  decision        TEXT NOT NULL DEFAULT 'none' CHECK (decision = 'none' OR decision = 'excluded' OR decision = 'held' OR decision = 'included'),
  replan          INTEGER NOT NULL DEFAULT 0 CHECK (replan IN (0, 1)), -- facts beside the record may have changed
  updated_at      TEXT NOT NULL,
  PRIMARY KEY (connection, source_id)
) STRICT;

CREATE TABLE payers (
  connection   TEXT NOT NULL,
  source_id    TEXT NOT NULL,
  key_name     TEXT NOT NULL,
  key_value    TEXT NOT NULL CHECK (key_value <> ''),
  billing_id   TEXT CHECK (billing_id <> ''),
  link_state   TEXT NOT NULL DEFAULT 'new'
               CHECK (link_state = 'new' OR link_state = 'creating' OR link_state = 'linked' OR link_state = 'missing' OR link_state = 'conflict' OR link_state = 'held'),
  applied_hash TEXT NOT NULL DEFAULT '',               -- hash of the rendered customer last applied
  applied      BLOB,                                   -- that customer, sealed: the base of a three-way merge
  mandate_id   TEXT,
  updated_at   TEXT NOT NULL,
  PRIMARY KEY (connection, source_id),
  FOREIGN KEY (connection, source_id) REFERENCES source_records (connection, source_id),
  CHECK (link_state <> 'linked' OR billing_id IS NOT NULL)
) STRICT;
CREATE UNIQUE INDEX payers_billing_id ON payers (billing_id) WHERE billing_id IS NOT NULL;
-- A key is created or linked for one payer only, whatever two records say.
CREATE UNIQUE INDEX payers_live_key ON payers (key_name, key_value) WHERE link_state IN ('creating', 'linked');
CREATE INDEX payers_key ON payers (key_name, key_value);
CREATE INDEX payers_unverified ON payers (connection, source_id) WHERE link_state = 'creating';

-- What a person should look at, one row per payer and topic, so that a record's
-- problem never hides its mandate's.
CREATE TABLE attention (
  connection TEXT NOT NULL,
  source_id  TEXT NOT NULL,
  topic      TEXT NOT NULL CHECK (topic = 'record' OR topic = 'link' OR topic = 'mandate'),
  reason     TEXT NOT NULL CHECK (reason <> ''),
  detail     TEXT NOT NULL,
  since      TEXT NOT NULL,
  PRIMARY KEY (connection, source_id, topic),
  FOREIGN KEY (connection, source_id) REFERENCES source_records (connection, source_id)
) STRICT;

CREATE TABLE plans (
  plan_id         INTEGER PRIMARY KEY,
  connection      TEXT NOT NULL REFERENCES connections (name),
  run_id          INTEGER NOT NULL REFERENCES runs (run_id),
  hash            TEXT NOT NULL,
  mapping_version TEXT NOT NULL,
  created_at      TEXT NOT NULL,
  state           TEXT NOT NULL CHECK (state IN ('draft', 'waiting', 'approved', 'applied', 'superseded')),
  creates         INTEGER NOT NULL DEFAULT 0,
  adopts          INTEGER NOT NULL DEFAULT 0,
  updates         INTEGER NOT NULL DEFAULT 0,
  links           INTEGER NOT NULL DEFAULT 0,
  holds           INTEGER NOT NULL DEFAULT 0,
  limits          TEXT NOT NULL DEFAULT '',            -- the limits it exceeds, in words
  approved_by     TEXT NOT NULL DEFAULT '',
  approved_at     TEXT
) STRICT;
CREATE INDEX plans_waiting ON plans (connection) WHERE state = 'waiting';

CREATE TABLE changes (
  change_id    INTEGER PRIMARY KEY,
  plan_id      INTEGER REFERENCES plans (plan_id),     -- NULL until the plan that holds it is whole
  run_id       INTEGER NOT NULL REFERENCES runs (run_id), -- the run that touched it last
  connection   TEXT NOT NULL,
  source_id    TEXT NOT NULL,
  lane         TEXT NOT NULL CHECK (lane IN ('customer', 'mandate')),
  action       TEXT NOT NULL CHECK (action = 'create' OR action = 'adopt' OR action = 'update' OR action = 'link'),
  change_hash  TEXT NOT NULL,
  wanted       BLOB,                                   -- rendered customer, sealed
  wanted_hash  TEXT NOT NULL DEFAULT '',
  diff         BLOB,                                   -- field changes, sealed
  blanks       INTEGER NOT NULL DEFAULT 0,             -- fields it would empty
  identity     INTEGER NOT NULL DEFAULT 0 CHECK (identity IN (0, 1)), -- it alters a name or an e-mail address
  approved     INTEGER NOT NULL DEFAULT 0 CHECK (approved IN (0, 1)),
  billing_id   TEXT,                                   -- the customer to adopt or update
  body         BLOB,                                   -- frozen request body, sealed
  body_sha256  TEXT NOT NULL DEFAULT '',
  pre_image    BLOB,                                   -- the customer as fetched before an update, sealed
  state        TEXT NOT NULL CHECK (state = 'pending' OR state = 'frozen' OR state = 'unknown' OR state = 'done' OR state = 'failed' OR state = 'held' OR state = 'void'),
  attempts     INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  frozen_at    TEXT,
  reason       TEXT NOT NULL DEFAULT '',
  detail       TEXT NOT NULL DEFAULT '',
  updated_at   TEXT NOT NULL,
  FOREIGN KEY (connection, source_id) REFERENCES source_records (connection, source_id),
  CHECK ((lane = 'mandate') = (action = 'link')),
  CHECK (body IS NOT NULL OR body_sha256 = ''),
  CHECK (NOT (action = 'create' AND state IN ('frozen', 'unknown')) OR body IS NOT NULL)
) STRICT;
-- A newer intent opens only after the older one was closed.
CREATE UNIQUE INDEX changes_open ON changes (connection, source_id, lane) WHERE state = 'pending' OR state = 'frozen' OR state = 'unknown';
CREATE INDEX changes_links ON changes (run_id) WHERE action = 'link' AND state = 'done';
CREATE INDEX changes_queue ON changes (connection, lane, state, change_id) WHERE state = 'pending' OR state = 'frozen' OR state = 'unknown';
CREATE INDEX changes_payer ON changes (connection, source_id, lane);

CREATE TABLE passes (
  pass_id     INTEGER PRIMARY KEY,
  started_at  TEXT NOT NULL,
  finished_at TEXT,                                    -- set only by a complete pass
  ids         INTEGER NOT NULL DEFAULT 0,
  ids_hash    TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE remote_customers (
  billing_id TEXT PRIMARY KEY CHECK (billing_id <> ''),
  key_values TEXT NOT NULL,                            -- externalData as JSON, names sorted
  digest     TEXT NOT NULL,                            -- of everything the index holds of it
  seen_pass  INTEGER NOT NULL DEFAULT 0,
  listed_at  TEXT NOT NULL,
  ticket     INTEGER NOT NULL DEFAULT 0                -- newest read that was applied
) STRICT, WITHOUT ROWID;
CREATE TABLE remote_traits (
  kind       TEXT NOT NULL CHECK (kind = 'key' OR kind = 'name' OR kind = 'email'),
  value      TEXT NOT NULL,                            -- key as name=value; names and e-mails only as keyed hashes
  billing_id TEXT NOT NULL REFERENCES remote_customers (billing_id) ON DELETE CASCADE,
  PRIMARY KEY (kind, value, billing_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX remote_traits_customer ON remote_traits (billing_id);

CREATE TABLE mandates (
  mandate_id    TEXT PRIMARY KEY CHECK (mandate_id <> ''),
  billing_id    TEXT NOT NULL,
  status        TEXT NOT NULL,                         -- as the service spells it; unknown ones are kept
  status_since  TEXT NOT NULL,
  service_time  TEXT NOT NULL DEFAULT '',              -- the service's own time, as it came
  first_seen_at TEXT NOT NULL,
  last_seen_at  TEXT NOT NULL,
  link          BLOB,                                  -- signing link, sealed
  link_at       TEXT
) STRICT;
CREATE INDEX mandates_customer ON mandates (billing_id);

CREATE TABLE mandate_history (
  seq          INTEGER PRIMARY KEY,
  mandate_id   TEXT NOT NULL REFERENCES mandates (mandate_id),
  billing_id   TEXT NOT NULL,
  from_status  TEXT NOT NULL,
  to_status    TEXT NOT NULL,
  service_time TEXT NOT NULL,
  observed_at  TEXT NOT NULL,
  cause        TEXT NOT NULL CHECK (cause = 'create' OR cause = 'adopt' OR cause = 'update' OR cause = 'link' OR cause = 'cancel' OR cause = 'webhook' OR cause = 'sweep'),
  cause_id     TEXT NOT NULL,
  prev_hash    TEXT NOT NULL,
  hash         TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE inbox (
  inbox_id     INTEGER PRIMARY KEY,
  delivery_key TEXT NOT NULL UNIQUE CHECK (delivery_key <> ''),
  received_at  TEXT NOT NULL,
  event_type   TEXT NOT NULL,
  billing_id   TEXT NOT NULL DEFAULT '',
  body         BLOB NOT NULL,                          -- sealed
  state        TEXT NOT NULL CHECK (state = 'received' OR state = 'reflected' OR state = 'superseded' OR state = 'parked' OR state = 'quarantined' OR state = 'ignored'),
  attempts     INTEGER NOT NULL DEFAULT 0,
  next_attempt TEXT,
  processed_at TEXT,
  detail       TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX inbox_open ON inbox (billing_id, inbox_id) WHERE state IN ('received', 'parked');

CREATE TABLE tokens (
  connection   TEXT PRIMARY KEY,
  token        BLOB NOT NULL,                          -- sealed
  generation   INTEGER NOT NULL,
  expires_at   TEXT,
  reconnect_by TEXT
) STRICT;

CREATE TABLE audit (
  seq       INTEGER PRIMARY KEY,
  at        TEXT NOT NULL,
  actor     TEXT NOT NULL,
  action    TEXT NOT NULL,
  subject   TEXT NOT NULL,
  reason    TEXT NOT NULL,
  prev_hash TEXT NOT NULL,
  hash      TEXT NOT NULL UNIQUE
) STRICT;

-- +goose StatementBegin
CREATE TRIGGER mandate_history_keeps BEFORE UPDATE ON mandate_history BEGIN SELECT RAISE(ABORT, 'mandate history is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER mandate_history_stays BEFORE DELETE ON mandate_history BEGIN SELECT RAISE(ABORT, 'mandate history is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_keeps BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_stays BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
-- +goose StatementEnd

CREATE VIEW v_attention (connection, source_id, reason, detail, since) AS
  SELECT connection, source_id, reason, detail, since FROM attention
  UNION ALL
  SELECT '', delivery_key, 'event_not_understood', detail, received_at FROM inbox WHERE state = 'quarantined';

CREATE VIEW v_payers (connection, source_id, key_name, key_value, billing_id, link_state,
                      mandate_id, mandate_status, attention_reason, updated_at) AS
  SELECT p.connection, p.source_id, p.key_name, p.key_value, p.billing_id, p.link_state,
         p.mandate_id, m.status,
         (SELECT a.reason FROM attention a
          WHERE a.connection = p.connection AND a.source_id = p.source_id
          ORDER BY CASE a.topic WHEN 'link' THEN 0 WHEN 'record' THEN 1 ELSE 2 END LIMIT 1),
         p.updated_at
  FROM payers p LEFT JOIN mandates m ON m.mandate_id = p.mandate_id;

CREATE VIEW v_mandates (mandate_id, billing_id, connection, source_id, status, status_since, first_seen_at, last_seen_at) AS
  SELECT m.mandate_id, m.billing_id, p.connection, p.source_id, m.status, m.status_since, m.first_seen_at, m.last_seen_at
  FROM mandates m LEFT JOIN payers p ON p.billing_id = m.billing_id;

CREATE VIEW v_mandate_history (seq, mandate_id, billing_id, from_status, to_status, service_time, observed_at, cause) AS
  SELECT seq, mandate_id, billing_id, from_status, to_status, service_time, observed_at, cause FROM mandate_history;

CREATE VIEW v_runs (run_id, connection, kind, trigger, started_at, finished_at, outcome, pulled, unchanged, excluded,
                    created, adopted, updated, links_requested, held, failed) AS
  SELECT run_id, connection, kind, trigger, started_at, finished_at, outcome, pulled, unchanged, excluded,
         created, adopted, updated, links_requested, held, failed FROM runs;

CREATE VIEW v_inbox (delivery_key, received_at, event_type, billing_id, state, processed_at) AS
  SELECT delivery_key, received_at, event_type, billing_id, state, processed_at FROM inbox;
