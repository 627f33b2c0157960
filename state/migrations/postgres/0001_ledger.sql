-- +goose Up
-- The ledger as the newest migration of SQLite leaves it: the same tables, columns, laws and
-- indexes. Text is ordered by its bytes, as SQLite orders it: lists that go on from a place are
-- paged by it.

-- What statements ask for by SQLite's name.

CREATE FUNCTION instr(text, text) RETURNS integer IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql AS 'SELECT strpos($1, $2)';
CREATE FUNCTION max(bigint, bigint) RETURNS bigint IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql AS 'SELECT greatest($1, $2)';
CREATE FUNCTION max(bigint, bigint, bigint, bigint) RETURNS bigint IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql AS 'SELECT greatest($1, $2, $3, $4)';
CREATE FUNCTION max(text, text) RETURNS text IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql AS 'SELECT greatest($1 COLLATE "C", $2)';
CREATE FUNCTION max(text, text, text) RETURNS text IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql AS 'SELECT greatest($1 COLLATE "C", $2, $3)';
CREATE FUNCTION min(text, text) RETURNS text IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql AS 'SELECT least($1 COLLATE "C", $2)';

-- A column that holds 0 or 1 beside a condition.
CREATE FUNCTION differs(bigint, boolean) RETURNS boolean IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql AS 'SELECT $1 <> $2::int';
CREATE OPERATOR <> (LEFTARG = bigint, RIGHTARG = boolean, FUNCTION = differs);

CREATE FUNCTION json_type(text) RETURNS text IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql AS 'SELECT json_typeof($1::json)';
CREATE FUNCTION json_array_length(text) RETURNS bigint IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql AS 'SELECT json_array_length($1::json)::bigint';
CREATE FUNCTION json_member(text, text) RETURNS text IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql AS 'SELECT $1::json ->> $2';
CREATE OPERATOR ->> (LEFTARG = text, RIGHTARG = text, FUNCTION = json_member);
-- +goose StatementBegin
CREATE FUNCTION json_valid(text) RETURNS boolean IMMUTABLE STRICT LANGUAGE plpgsql AS $$
BEGIN
  PERFORM $1::json;
  RETURN true;
EXCEPTION WHEN invalid_text_representation THEN
  RETURN false;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION json_extract(text, text) RETURNS text IMMUTABLE STRICT LANGUAGE plpgsql AS $$
BEGIN
  RETURN $1::json #>> string_to_array(substr($2, 3), '.');
EXCEPTION WHEN invalid_text_representation THEN
  RETURN NULL; -- a condition may be looked at before the one that says it is valid
END $$;
-- +goose StatementEnd
CREATE FUNCTION json_value(json) RETURNS text IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql AS
  'SELECT CASE json_typeof($1) WHEN ''boolean'' THEN ($1 #>> ''{}'')::boolean::int::text ELSE $1 #>> ''{}'' END';
-- +goose StatementBegin
CREATE FUNCTION json_each(text, OUT key text, OUT value text) RETURNS SETOF record IMMUTABLE STRICT LANGUAGE sql AS $$
  SELECT (a.place - 1)::text, json_value(a.value)
    FROM json_array_elements(CASE json_typeof($1::json) WHEN 'array' THEN $1::json ELSE '[]' END) WITH ORDINALITY a (value, place)
  UNION ALL
  SELECT o.key, json_value(o.value) FROM pg_catalog.json_each(CASE json_typeof($1::json) WHEN 'object' THEN $1::json ELSE '{}' END) o
$$;
-- +goose StatementEnd

CREATE FUNCTION json_of(bigint[]) RETURNS text IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql AS 'SELECT array_to_json($1)::text';
CREATE AGGREGATE json_group_array(bigint) (SFUNC = array_append, STYPE = bigint[], INITCOND = '{}', FINALFUNC = json_of);
CREATE FUNCTION concat_next(text, text, text) RETURNS text IMMUTABLE PARALLEL SAFE LANGUAGE sql AS 'SELECT CASE WHEN $2 IS NULL THEN $1 ELSE coalesce($1 || $3, '''') || $2 END';
CREATE AGGREGATE group_concat(text, text) (SFUNC = concat_next, STYPE = text);

CREATE TABLE ledger (
  only_row             BIGINT PRIMARY KEY CHECK (only_row = 1),
  ticket               BIGINT NOT NULL DEFAULT 0 CHECK (ticket >= 0), -- last read ticket given out
  restored_at          TEXT COLLATE "C", -- set by a restore: creates wait, older passes no longer count
  key_check            BYTEA, -- a known text, sealed: opens with this ledger's key only
  identity             TEXT COLLATE "C" NOT NULL DEFAULT '',
  commits              BIGINT NOT NULL DEFAULT 0 CHECK (commits >= 0),
  put_back_at          TEXT COLLATE "C",
  clock_back_at        TEXT COLLATE "C",
  doubt                BIGINT NOT NULL DEFAULT 0,
  doubt_over           BIGINT NOT NULL DEFAULT 0,
  doubt_of             TEXT COLLATE "C",
  billing_address      TEXT COLLATE "C" NOT NULL DEFAULT '',
  billing_credentials  TEXT COLLATE "C" NOT NULL DEFAULT '',
  config_problem       TEXT COLLATE "C" NOT NULL DEFAULT '',
  config_problem_since TEXT COLLATE "C",
  restart_needed       TEXT COLLATE "C" NOT NULL DEFAULT '',
  letter_key           BYTEA
);
INSERT INTO ledger (only_row) VALUES (1);

CREATE TABLE connections (
  name                  TEXT COLLATE "C" PRIMARY KEY,
  source_kind           TEXT COLLATE "C" NOT NULL,
  tenant_id             TEXT COLLATE "C" NOT NULL DEFAULT '',
  tenant_name           TEXT COLLATE "C" NOT NULL DEFAULT '',
  state                 TEXT COLLATE "C" NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'disconnected', 'parked')),
  parked_until          TEXT COLLATE "C",
  updated_at            TEXT COLLATE "C" NOT NULL,
  mapping_problem       TEXT COLLATE "C" NOT NULL DEFAULT '',
  mapping_problem_since TEXT COLLATE "C",
  described             TEXT COLLATE "C" NOT NULL DEFAULT ''
);

CREATE TABLE mapping_versions (
  hash     TEXT COLLATE "C" PRIMARY KEY,
  author   TEXT COLLATE "C" NOT NULL,
  saved_at TEXT COLLATE "C" NOT NULL,
  body     BYTEA NOT NULL DEFAULT ''
);

CREATE TABLE runs (
  run_id          BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  connection      TEXT COLLATE "C" NOT NULL REFERENCES connections (name),
  kind            TEXT COLLATE "C" NOT NULL CHECK (kind IN ('sync', 'backfill', 'plan')),
  trigger         TEXT COLLATE "C" NOT NULL CHECK (trigger IN ('manual', 'schedule', 'catch_up')),
  mapping_version TEXT COLLATE "C" NOT NULL REFERENCES mapping_versions (hash),
  holder          TEXT COLLATE "C" NOT NULL,
  lease_until     TEXT COLLATE "C" NOT NULL,
  started_at      TEXT COLLATE "C" NOT NULL,
  finished_at     TEXT COLLATE "C",
  outcome         TEXT COLLATE "C" NOT NULL DEFAULT 'running' CHECK (outcome IN ('running', 'awaiting_approval', 'complete', 'incomplete', 'failed')),
  error           TEXT COLLATE "C" NOT NULL DEFAULT '',
  pulled          BIGINT NOT NULL DEFAULT 0,
  unchanged       BIGINT NOT NULL DEFAULT 0,
  excluded        BIGINT NOT NULL DEFAULT 0,
  created         BIGINT NOT NULL DEFAULT 0,
  adopted         BIGINT NOT NULL DEFAULT 0,
  updated         BIGINT NOT NULL DEFAULT 0,
  links_requested BIGINT NOT NULL DEFAULT 0,
  held            BIGINT NOT NULL DEFAULT 0,
  failed          BIGINT NOT NULL DEFAULT 0,
  waiting         BIGINT NOT NULL DEFAULT 0,
  read_kind       TEXT COLLATE "C" NOT NULL DEFAULT '' CHECK (read_kind IN ('', 'changes', 'full')),
  pages           BIGINT NOT NULL DEFAULT 0,
  repeats         BIGINT NOT NULL DEFAULT 0,
  passes          BIGINT NOT NULL DEFAULT 0,
  echoes          BIGINT NOT NULL DEFAULT 0,
  CHECK ((finished_at IS NULL) = (outcome = 'running'))
);

CREATE TABLE cursors (
  connection TEXT COLLATE "C" NOT NULL REFERENCES connections (name),
  stream     TEXT COLLATE "C" NOT NULL,
  value      TEXT COLLATE "C" NOT NULL,
  set_by_run BIGINT NOT NULL REFERENCES runs (run_id),
  PRIMARY KEY (connection, stream)
);

CREATE TABLE plans (
  plan_id         BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  connection      TEXT COLLATE "C" NOT NULL REFERENCES connections (name),
  run_id          BIGINT NOT NULL REFERENCES runs (run_id),
  hash            TEXT COLLATE "C" NOT NULL,
  mapping_version TEXT COLLATE "C" NOT NULL,
  created_at      TEXT COLLATE "C" NOT NULL,
  state           TEXT COLLATE "C" NOT NULL CHECK (state IN ('draft', 'waiting', 'approved', 'applied', 'superseded')),
  creates         BIGINT NOT NULL DEFAULT 0,
  adopts          BIGINT NOT NULL DEFAULT 0,
  updates         BIGINT NOT NULL DEFAULT 0,
  links           BIGINT NOT NULL DEFAULT 0,
  holds           BIGINT NOT NULL DEFAULT 0,
  limits          TEXT COLLATE "C" NOT NULL DEFAULT '', -- the limits it exceeds, in words
  approved_by     TEXT COLLATE "C" NOT NULL DEFAULT '',
  approved_at     TEXT COLLATE "C",
  missing         BIGINT NOT NULL DEFAULT 0,
  rejected_by     TEXT COLLATE "C" NOT NULL DEFAULT '',
  rejected_at     TEXT COLLATE "C",
  rejected_why    TEXT COLLATE "C" NOT NULL DEFAULT '',
  alike           BIGINT NOT NULL DEFAULT 0,
  lost            BIGINT NOT NULL DEFAULT 0 CHECK (lost >= 0)
);

CREATE TABLE source_records (
  connection      TEXT COLLATE "C" NOT NULL REFERENCES connections (name),
  source_id       TEXT COLLATE "C" NOT NULL CHECK (source_id <> ''),
  content_hash    TEXT COLLATE "C" NOT NULL,
  record          BYTEA NOT NULL, -- sealed
  state           TEXT COLLATE "C" NOT NULL CHECK (state = 'active' OR state = 'archived' OR state = 'deleted' OR state = 'merged' OR state = 'unknown'),
  source_time     TEXT COLLATE "C",
  origin          TEXT COLLATE "C" NOT NULL DEFAULT '',
  planned_hash    TEXT COLLATE "C" NOT NULL DEFAULT '', -- content the last plan saw
  planned_mapping TEXT COLLATE "C" NOT NULL DEFAULT '', -- mapping version the last plan used
  decision        TEXT COLLATE "C" NOT NULL DEFAULT 'none' CHECK (decision = 'none' OR decision = 'excluded' OR decision = 'held' OR decision = 'included'),
  replan          BIGINT NOT NULL DEFAULT 0 CHECK (replan IN (0, 1)), -- facts beside the record may have changed
  updated_at      TEXT COLLATE "C" NOT NULL,
  rests           BIGINT NOT NULL DEFAULT 0 CHECK (rests IN (0, 1)),
  unreadable      BIGINT NOT NULL DEFAULT 0 CHECK (unreadable IN (0, 1)),
  contested       BIGINT NOT NULL DEFAULT 0 CHECK (contested IN (0, 1)),
  retried_at      BIGINT NOT NULL DEFAULT 0,
  class           TEXT COLLATE "C" NOT NULL DEFAULT 'working' CHECK (class = 'working' OR class = 'failed' OR class = 'held' OR class = 'in step' OR class = 'out'),
  unseen          BIGINT NOT NULL DEFAULT 0 CHECK (unseen = 0 OR unseen = 1),
  same_as         TEXT COLLATE "C" NOT NULL DEFAULT '',
  let_go          BIGINT NOT NULL DEFAULT 0 CHECK (let_go = 0 OR let_go = 1),
  lost_by         BIGINT REFERENCES plans (plan_id),
  forgotten       TEXT COLLATE "C" NOT NULL DEFAULT '' CHECK (forgotten = '' OR forgotten = 'payer' OR forgotten = 'other' OR forgotten = 'alike'),
  given_up        BIGINT NOT NULL DEFAULT 0,
  given_up_of     TEXT COLLATE "C" NOT NULL DEFAULT '',
  missed          BIGINT NOT NULL DEFAULT 0 CHECK (missed = 0 OR missed = 1),
  PRIMARY KEY (connection, source_id)
);

CREATE TABLE payers (
  connection   TEXT COLLATE "C" NOT NULL,
  source_id    TEXT COLLATE "C" NOT NULL,
  key_name     TEXT COLLATE "C" NOT NULL,
  key_value    TEXT COLLATE "C" NOT NULL CHECK (key_value <> ''),
  billing_id   TEXT COLLATE "C" CHECK (billing_id <> ''),
  link_state   TEXT COLLATE "C" NOT NULL DEFAULT 'new' CHECK (link_state = 'new' OR link_state = 'creating' OR link_state = 'linked' OR link_state = 'missing' OR link_state = 'conflict' OR link_state = 'held'),
  applied_hash TEXT COLLATE "C" NOT NULL DEFAULT '', -- hash of the rendered customer last applied
  applied      BYTEA, -- that customer, sealed: the base of a three-way merge
  mandate_id   TEXT COLLATE "C",
  updated_at   TEXT COLLATE "C" NOT NULL,
  drained_at   TEXT COLLATE "C",
  shows        TEXT COLLATE "C" NOT NULL DEFAULT '',
  shown_at     BIGINT NOT NULL DEFAULT 0,
  confirmed_at BIGINT NOT NULL DEFAULT 0,
  answered_at  BIGINT NOT NULL DEFAULT 0,
  seen_at      BIGINT NOT NULL DEFAULT 0,
  moves_name   TEXT COLLATE "C" NOT NULL DEFAULT '',
  moves_value  TEXT COLLATE "C" NOT NULL DEFAULT '',
  stays_at     BIGINT NOT NULL DEFAULT 0,
  stays_with   TEXT COLLATE "C" NOT NULL DEFAULT '',
  accepted     BYTEA,
  likeness     TEXT COLLATE "C" NOT NULL DEFAULT '',
  unlink_at    BIGINT NOT NULL DEFAULT 0,
  unlink_from  BIGINT NOT NULL DEFAULT 0,
  parted       BIGINT NOT NULL DEFAULT 0,
  let_be       BIGINT NOT NULL DEFAULT 0,
  let_be_of    TEXT COLLATE "C" NOT NULL DEFAULT '',
  stays_word   BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (connection, source_id),
  FOREIGN KEY (connection, source_id) REFERENCES source_records (connection, source_id),
  CHECK (link_state <> 'linked' OR billing_id IS NOT NULL)
);

CREATE TABLE attention (
  connection TEXT COLLATE "C" NOT NULL,
  source_id  TEXT COLLATE "C" NOT NULL,
  topic      TEXT COLLATE "C" NOT NULL CHECK (topic = 'record' OR topic = 'link' OR topic = 'mandate'),
  reason     TEXT COLLATE "C" NOT NULL CHECK (reason <> ''),
  detail     TEXT COLLATE "C" NOT NULL,
  since      TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (connection, source_id, topic),
  FOREIGN KEY (connection, source_id) REFERENCES source_records (connection, source_id)
);

CREATE TABLE changes (
  change_id   BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  plan_id     BIGINT REFERENCES plans (plan_id), -- NULL until the plan that holds it is whole
  run_id      BIGINT NOT NULL REFERENCES runs (run_id), -- the run that touched it last
  connection  TEXT COLLATE "C" NOT NULL,
  source_id   TEXT COLLATE "C" NOT NULL,
  lane        TEXT COLLATE "C" NOT NULL CHECK (lane IN ('customer', 'mandate')),
  action      TEXT COLLATE "C" NOT NULL CHECK (action = 'create' OR action = 'adopt' OR action = 'update' OR action = 'link'),
  change_hash TEXT COLLATE "C" NOT NULL,
  wanted      BYTEA, -- rendered customer, sealed
  wanted_hash TEXT COLLATE "C" NOT NULL DEFAULT '',
  diff        BYTEA, -- field changes, sealed
  blanks      BIGINT NOT NULL DEFAULT 0, -- fields it would empty
  identity    BIGINT NOT NULL DEFAULT 0 CHECK (identity IN (0, 1)), -- it alters a name or an e-mail address
  approved    BIGINT NOT NULL DEFAULT 0 CHECK (approved IN (0, 1)),
  billing_id  TEXT COLLATE "C", -- the customer to adopt or update
  body        BYTEA, -- frozen request body, sealed
  body_sha256 TEXT COLLATE "C" NOT NULL DEFAULT '',
  pre_image   BYTEA, -- the customer as fetched before an update, sealed
  state       TEXT COLLATE "C" NOT NULL CHECK (state = 'pending' OR state = 'frozen' OR state = 'unknown' OR state = 'done' OR state = 'failed' OR state = 'held' OR state = 'void'),
  attempts    BIGINT NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  frozen_at   TEXT COLLATE "C",
  reason      TEXT COLLATE "C" NOT NULL DEFAULT '',
  detail      TEXT COLLATE "C" NOT NULL DEFAULT '',
  updated_at  TEXT COLLATE "C" NOT NULL,
  ended_at    BIGINT NOT NULL DEFAULT 0,
  left_out    BIGINT NOT NULL DEFAULT 0 CHECK (left_out = 0 OR left_out = 1),
  scopes      BIGINT NOT NULL DEFAULT 0,
  unlinks     BIGINT NOT NULL DEFAULT 0,
  FOREIGN KEY (connection, source_id) REFERENCES source_records (connection, source_id),
  CHECK ((lane = 'mandate') = (action = 'link')),
  CHECK (body IS NOT NULL OR body_sha256 = ''),
  CHECK (NOT (action = 'create' AND state IN ('frozen', 'unknown')) OR body IS NOT NULL)
);

CREATE TABLE passes (
  pass_id     BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  started_at  TEXT COLLATE "C" NOT NULL,
  finished_at TEXT COLLATE "C", -- set only by a complete pass
  ids         BIGINT NOT NULL DEFAULT 0,
  ids_hash    TEXT COLLATE "C" NOT NULL DEFAULT '',
  lacking     BIGINT,
  unread      BIGINT,
  ticket      BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE remote_customers (
  billing_id TEXT COLLATE "C" PRIMARY KEY CHECK (billing_id <> ''),
  key_values TEXT COLLATE "C" NOT NULL, -- externalData as JSON, names sorted
  digest     TEXT COLLATE "C" NOT NULL, -- of everything the index holds of it
  listed_at  TEXT COLLATE "C" NOT NULL,
  ticket     BIGINT NOT NULL DEFAULT 0, -- newest read that was applied
  read_at    TEXT COLLATE "C" NOT NULL DEFAULT '',
  known_pass BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE remote_traits (
  kind       TEXT COLLATE "C" NOT NULL CHECK (kind = 'key' OR kind = 'name' OR kind = 'email'),
  value      TEXT COLLATE "C" NOT NULL, -- key as name=value; names and e-mails only as keyed hashes
  billing_id TEXT COLLATE "C" NOT NULL REFERENCES remote_customers (billing_id) ON DELETE CASCADE,
  PRIMARY KEY (kind, value, billing_id)
);

CREATE TABLE mandates (
  mandate_id    TEXT COLLATE "C" PRIMARY KEY CHECK (mandate_id <> ''),
  billing_id    TEXT COLLATE "C" NOT NULL,
  status        TEXT COLLATE "C" NOT NULL, -- as the service spells it; unknown ones are kept
  status_since  TEXT COLLATE "C" NOT NULL,
  service_time  TEXT COLLATE "C" NOT NULL DEFAULT '', -- the service's own time, as it came
  first_seen_at TEXT COLLATE "C" NOT NULL,
  last_seen_at  TEXT COLLATE "C" NOT NULL,
  link          BYTEA, -- signing link, sealed
  link_at       TEXT COLLATE "C",
  link_refused  BIGINT NOT NULL DEFAULT 0,
  listed        BIGINT NOT NULL DEFAULT 0 CHECK (listed = 0 OR listed = 1) -- by the list pass that ended last
);

CREATE TABLE mandate_history (
  seq          BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  mandate_id   TEXT COLLATE "C" NOT NULL REFERENCES mandates (mandate_id),
  billing_id   TEXT COLLATE "C" NOT NULL,
  from_status  TEXT COLLATE "C" NOT NULL,
  to_status    TEXT COLLATE "C" NOT NULL,
  service_time TEXT COLLATE "C" NOT NULL,
  observed_at  TEXT COLLATE "C" NOT NULL,
  cause        TEXT COLLATE "C" NOT NULL CHECK (cause = 'create' OR cause = 'adopt' OR cause = 'update' OR cause = 'link' OR cause = 'cancel' OR cause = 'webhook' OR cause = 'sweep'),
  cause_id     TEXT COLLATE "C" NOT NULL,
  prev_hash    TEXT COLLATE "C" NOT NULL,
  hash         TEXT COLLATE "C" NOT NULL UNIQUE
);

CREATE TABLE inbox (
  inbox_id     BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  delivery_key TEXT COLLATE "C" NOT NULL UNIQUE CHECK (delivery_key <> ''),
  received_at  TEXT COLLATE "C" NOT NULL,
  event_type   TEXT COLLATE "C" NOT NULL,
  billing_id   TEXT COLLATE "C" NOT NULL DEFAULT '',
  body         BYTEA NOT NULL, -- sealed
  state        TEXT COLLATE "C" NOT NULL CHECK (state = 'received' OR state = 'reflected' OR state = 'superseded' OR state = 'parked' OR state = 'quarantined' OR state = 'ignored'),
  attempts     BIGINT NOT NULL DEFAULT 0,
  next_attempt TEXT COLLATE "C",
  processed_at TEXT COLLATE "C",
  detail       TEXT COLLATE "C" NOT NULL DEFAULT '',
  repeats      BIGINT NOT NULL DEFAULT 0 CHECK (repeats >= 0),
  mandate_id   TEXT COLLATE "C" NOT NULL DEFAULT '',
  type_header  TEXT COLLATE "C" NOT NULL DEFAULT ''
);

CREATE TABLE tokens (
  connection   TEXT COLLATE "C" PRIMARY KEY,
  token        BYTEA NOT NULL, -- sealed
  generation   BIGINT NOT NULL,
  expires_at   TEXT COLLATE "C",
  reconnect_by TEXT COLLATE "C",
  tenant_id    TEXT COLLATE "C" NOT NULL DEFAULT '',
  tenant_name  TEXT COLLATE "C" NOT NULL DEFAULT '',
  refreshed_at TEXT COLLATE "C",
  failures     BIGINT NOT NULL DEFAULT 0,
  retry_at     TEXT COLLATE "C",
  broken       TEXT COLLATE "C" NOT NULL DEFAULT '',
  lease_holder TEXT COLLATE "C" NOT NULL DEFAULT '',
  lease_until  TEXT COLLATE "C"
);

CREATE TABLE audit (
  seq       BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  at        TEXT COLLATE "C" NOT NULL,
  actor     TEXT COLLATE "C" NOT NULL,
  action    TEXT COLLATE "C" NOT NULL,
  subject   TEXT COLLATE "C" NOT NULL,
  reason    TEXT COLLATE "C" NOT NULL,
  prev_hash TEXT COLLATE "C" NOT NULL,
  hash      TEXT COLLATE "C" NOT NULL UNIQUE
);

CREATE TABLE budgets (
  scope        TEXT COLLATE "C" PRIMARY KEY CHECK (scope <> ''),
  minute_start TEXT COLLATE "C",
  minute_used  BIGINT NOT NULL DEFAULT 0 CHECK (minute_used >= 0),
  day_start    TEXT COLLATE "C",
  day_used     BIGINT NOT NULL DEFAULT 0 CHECK (day_used >= 0),
  parked_until TEXT COLLATE "C"
);

CREATE TABLE slots (
  slot_id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  scope   TEXT COLLATE "C" NOT NULL,
  until   TEXT COLLATE "C" NOT NULL
);

CREATE TABLE subscription (
  only_row      BIGINT PRIMARY KEY CHECK (only_row = 1),
  expected      TEXT COLLATE "C" NOT NULL DEFAULT '', -- JSON: id, url, events, enabled; '' while none is known
  shown         TEXT COLLATE "C" NOT NULL DEFAULT '', -- JSON: a list of such; '' when it was never shown
  shown_at      TEXT COLLATE "C",
  problem       TEXT COLLATE "C" NOT NULL DEFAULT '' CHECK (problem IN ('', 'replaced', 'disabled', 'deleted', 'not_shown')),
  detail        TEXT COLLATE "C" NOT NULL DEFAULT '',
  problem_since TEXT COLLATE "C",
  known         BIGINT NOT NULL DEFAULT 0,
  known_of      TEXT COLLATE "C" NOT NULL DEFAULT ''
);
INSERT INTO subscription (only_row) VALUES (1);

CREATE TABLE foreign_moves (
  path      TEXT COLLATE "C" NOT NULL,
  change_id BIGINT NOT NULL REFERENCES changes (change_id),
  PRIMARY KEY (path, change_id)
);

CREATE TABLE attempts (
  attempt_id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, -- in the order in which they left
  change_id  BIGINT REFERENCES changes (change_id), -- NULL: a person asked for a signing link
  action     TEXT COLLATE "C" NOT NULL CHECK (action = 'create' OR action = 'adopt' OR action = 'update' OR action = 'link'),
  connection TEXT COLLATE "C" NOT NULL,
  source_id  TEXT COLLATE "C" NOT NULL,
  key_name   TEXT COLLATE "C" NOT NULL, -- the payer's key when it left
  key_value  TEXT COLLATE "C" NOT NULL,
  billing_id TEXT COLLATE "C" NOT NULL DEFAULT '', -- the customer it is for; '' for a create
  ticket     BIGINT NOT NULL,
  sent_at    TEXT COLLATE "C" NOT NULL,
  over       BIGINT NOT NULL DEFAULT 0, -- ticket at which it could arrive no more; 0 before that
  ended      TEXT COLLATE "C" NOT NULL DEFAULT '' CHECK (ended = '' OR ended = 'answered' OR ended = 'refused' OR ended = 'unsent' OR ended = 'looked'),
  end_ticket BIGINT NOT NULL DEFAULT 0 -- taken when it ended
);

CREATE TABLE words (
  connection TEXT COLLATE "C" NOT NULL,
  source_id  TEXT COLLATE "C" NOT NULL,
  billing_id TEXT COLLATE "C" NOT NULL CHECK (billing_id <> ''),
  word       TEXT COLLATE "C" NOT NULL CHECK (word = 'accept' OR word = 'reject' OR word = 'spent'),
  reason     TEXT COLLATE "C" NOT NULL DEFAULT '', -- why it is spent
  ticket     BIGINT NOT NULL, -- when it was said, in the ledger's order
  said_at    TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (connection, source_id, billing_id),
  FOREIGN KEY (connection, source_id) REFERENCES source_records (connection, source_id)
);

CREATE TABLE likenesses (
  kind       TEXT COLLATE "C" NOT NULL CHECK (kind = 'name' OR kind = 'email' OR kind = 'name email' OR kind = 'name phone' OR kind = 'name postcode'),
  value      TEXT COLLATE "C" NOT NULL,
  connection TEXT COLLATE "C" NOT NULL,
  source_id  TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (kind, value, connection, source_id),
  FOREIGN KEY (connection, source_id) REFERENCES payers (connection, source_id)
);

CREATE TABLE apart (
  connection TEXT COLLATE "C" NOT NULL,
  source_id  TEXT COLLATE "C" NOT NULL,
  other_id   TEXT COLLATE "C" NOT NULL CHECK (other_id > source_id),
  said_at    TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (connection, source_id, other_id),
  FOREIGN KEY (connection, source_id) REFERENCES source_records (connection, source_id),
  FOREIGN KEY (connection, other_id) REFERENCES source_records (connection, source_id)
);

CREATE TABLE labels (
  number     BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  connection TEXT COLLATE "C" NOT NULL,
  source_id  TEXT COLLATE "C" NOT NULL,
  mapping    TEXT COLLATE "C" NOT NULL, -- the mapping version that made it
  digest     TEXT COLLATE "C" NOT NULL,
  label      BYTEA NOT NULL, -- sealed
  UNIQUE (connection, source_id),
  FOREIGN KEY (connection, source_id) REFERENCES source_records (connection, source_id)
);

CREATE TABLE jobs (
  name         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  begun_at     TEXT COLLATE "C",
  ended_at     TEXT COLLATE "C",
  done_at      TEXT COLLATE "C", -- when it last ended well
  outcome      TEXT COLLATE "C" NOT NULL DEFAULT '' CHECK (outcome IN ('', 'done', 'failed', 'panicked', 'interrupted', 'parked')), -- of its last end
  parked_until TEXT COLLATE "C", -- while it waits because a remote system asked for it
  problem      TEXT COLLATE "C" NOT NULL DEFAULT '' -- why its last end was not a good one
);

CREATE TABLE alarm_messages (
  message_id   TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (message_id <> ''), -- also that of the mail or the webhook
  way          TEXT COLLATE "C" NOT NULL CHECK (way <> ''),
  made_at      TEXT COLLATE "C" NOT NULL,
  digest       TEXT COLLATE "C" NOT NULL, -- SHA-256 of the frozen bytes
  body         BYTEA, -- the frozen bytes, sealed; NULL once they were taken
  attempts     BIGINT NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  next_attempt TEXT COLLATE "C",
  refused      BIGINT NOT NULL DEFAULT 0 CHECK (refused IN (0, 1)), -- the last attempt was refused for good
  problem      TEXT COLLATE "C" NOT NULL DEFAULT '', -- why the last attempt failed
  sent_at      TEXT COLLATE "C",
  CHECK ((body IS NULL) = (sent_at IS NOT NULL))
);

CREATE TABLE alarms (
  alarm_id   BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  way        TEXT COLLATE "C" NOT NULL CHECK (way <> ''),
  code       TEXT COLLATE "C" NOT NULL CHECK (code <> ''),
  subject    TEXT COLLATE "C" NOT NULL,
  connection TEXT COLLATE "C" NOT NULL,
  urgent     BIGINT NOT NULL CHECK (urgent IN (0, 1)),
  since      TEXT COLLATE "C", -- when it began, as far as that is known
  noticed_at TEXT COLLATE "C" NOT NULL,
  text       TEXT COLLATE "C" NOT NULL, -- the sentence that tells it, without a name
  over_at    TEXT COLLATE "C", -- when it was found to be gone
  told       TEXT COLLATE "C" REFERENCES alarm_messages (message_id),
  over_told  TEXT COLLATE "C" REFERENCES alarm_messages (message_id),
  CHECK (over_told IS NULL OR over_at IS NOT NULL AND told IS NOT NULL)
);

CREATE TABLE forget_keys (
  key_id TEXT COLLATE "C" PRIMARY KEY CHECK (key_id <> ''),
  key    BYTEA NOT NULL -- sealed
);

CREATE TABLE tombstones (
  record   TEXT COLLATE "C" PRIMARY KEY CHECK (record <> ''), -- of the connection and the source id
  key_id   TEXT COLLATE "C" NOT NULL REFERENCES forget_keys (key_id),
  holds    BIGINT NOT NULL CHECK (holds = 0 OR holds = 1), -- 0: it may be kept after all
  marks    TEXT COLLATE "C" NOT NULL, -- of the number, and of the name with the e-mail address, as JSON
  said_at  TEXT COLLATE "C" NOT NULL,
  scrubbed BIGINT NOT NULL DEFAULT 0 CHECK (scrubbed = 0 OR scrubbed = 1) -- what was erased is in no free place of the files either
);

CREATE TABLE letters (
  letter_id  BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  mandate_id TEXT COLLATE "C" NOT NULL REFERENCES mandates (mandate_id),
  step       BIGINT NOT NULL CHECK (step >= 0), -- 0 is the invitation, then the reminders by their place in letters.steps
  kind       TEXT COLLATE "C" NOT NULL CHECK (kind <> ''), -- which template
  connection TEXT COLLATE "C" NOT NULL,
  source_id  TEXT COLLATE "C" NOT NULL,
  recipient  TEXT COLLATE "C" NOT NULL CHECK (recipient <> ''), -- keyed hash of the address
  setup      TEXT COLLATE "C" NOT NULL, -- hash of what a person approves the first batch of: templates, sender, mapping, source
  language   TEXT COLLATE "C" NOT NULL,
  message_id TEXT COLLATE "C" NOT NULL UNIQUE CHECK (message_id <> ''), -- keyed hash of mandate and step
  digest     TEXT COLLATE "C" NOT NULL, -- SHA-256 of the frozen bytes
  looked_at  TEXT COLLATE "C" NOT NULL, -- when the customer was read before it
  frozen_at  TEXT COLLATE "C" NOT NULL,
  state      TEXT COLLATE "C" NOT NULL CHECK (state = 'frozen' OR state = 'sending' OR state = 'sent' OR state = 'refused' OR state = 'deferred' OR state = 'unclear' OR state = 'void'),
  attempts   BIGINT NOT NULL DEFAULT 0 CHECK (attempts >= 0), -- how often its first byte was about to leave
  deferrals  BIGINT NOT NULL DEFAULT 0 CHECK (deferrals >= 0), -- how often the mail server said not now
  sending_at TEXT COLLATE "C", -- when the last attempt began
  ended_at   TEXT COLLATE "C", -- when its outcome was known
  answer     TEXT COLLATE "C" NOT NULL DEFAULT '', -- what the mail server said, without addresses
  word       TEXT COLLATE "C" NOT NULL DEFAULT '', -- what a person said of one that is unclear
  body       BYTEA, -- the frozen bytes with their recipient, sealed; NULL when they are kept no longer; last, so that the rest is read without its pages
  FOREIGN KEY (connection, source_id) REFERENCES source_records (connection, source_id),
  CHECK (state = 'frozen' OR state = 'void' OR sending_at IS NOT NULL),
  UNIQUE (mandate_id, step)
);

CREATE TABLE handovers (
  mandate_id TEXT COLLATE "C" NOT NULL REFERENCES mandates (mandate_id),
  sent_on    TEXT COLLATE "C" NOT NULL, -- a day, as YYYY-MM-DD
  noted_at   TEXT COLLATE "C" NOT NULL,
  actor      TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (mandate_id, sent_on)
);

CREATE TABLE letter_stops (
  stop_id    BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  scope      TEXT COLLATE "C" NOT NULL CHECK (scope = 'payer' OR scope = 'address' OR scope = 'connection' OR scope = 'all'),
  connection TEXT COLLATE "C" NOT NULL DEFAULT '', -- of a payer, or of a connection
  source_id  TEXT COLLATE "C" NOT NULL DEFAULT '',
  recipient  TEXT COLLATE "C" NOT NULL DEFAULT '', -- keyed hash of an address
  why        TEXT COLLATE "C" NOT NULL CHECK (why = 'person' OR why = 'opted_out' OR why = 'bounced' OR why = 'pause' OR why = 'brake'),
  until_on   TEXT COLLATE "C", -- the first day on which it holds no more; NULL for ever
  note       TEXT COLLATE "C" NOT NULL DEFAULT '',
  actor      TEXT COLLATE "C" NOT NULL,
  since      TEXT COLLATE "C" NOT NULL,
  ended_at   TEXT COLLATE "C", -- when somebody took it back; NULL while it holds
  CHECK ((scope = 'payer') = (source_id <> '')),
  CHECK ((scope = 'address') = (recipient <> '')),
  CHECK (scope <> 'connection' OR connection <> '')
);

CREATE TABLE letter_approvals (
  approval_id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  setup       TEXT COLLATE "C" NOT NULL CHECK (setup <> ''),
  batch       TEXT COLLATE "C" NOT NULL CHECK (batch <> ''), -- hash of the letters that were shown: mandate, step, recipient
  whole       BIGINT NOT NULL CHECK (whole IN (0, 1)), -- the setup itself, and not single letters of it
  letters     BIGINT NOT NULL CHECK (letters >= 0),
  actor       TEXT COLLATE "C" NOT NULL,
  reason      TEXT COLLATE "C" NOT NULL DEFAULT '',
  at          TEXT COLLATE "C" NOT NULL
);

CREATE TABLE letter_approved (
  approval_id BIGINT NOT NULL REFERENCES letter_approvals (approval_id),
  mandate_id  TEXT COLLATE "C" NOT NULL,
  step        BIGINT NOT NULL,
  recipient   TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (mandate_id, step, recipient, approval_id)
);

CREATE TABLE letter_addresses (
  connection TEXT COLLATE "C" NOT NULL,
  source_id  TEXT COLLATE "C" NOT NULL,
  recipient  TEXT COLLATE "C" NOT NULL,
  changed_at TEXT COLLATE "C", -- when it came to be another one; NULL for never
  PRIMARY KEY (connection, source_id),
  FOREIGN KEY (connection, source_id) REFERENCES source_records (connection, source_id)
);

CREATE TABLE letter_journal (
  message_id TEXT COLLATE "C" NOT NULL,
  recipient  TEXT COLLATE "C" NOT NULL,
  at         TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (message_id, at)
);

CREATE TABLE letter_desk (
  only_row    BIGINT PRIMARY KEY CHECK (only_row = 1),
  journal     TEXT COLLATE "C" NOT NULL DEFAULT '', -- the id of the journal; '' while there is none
  restored    TEXT COLLATE "C", -- the restore after which a person said to go on
  gone_on_at  TEXT COLLATE "C", -- when a person last said to go on; the next letters are read by one
  looked_at   TEXT COLLATE "C", -- when letters were last looked for, by a clock that could be right
  renewed_at  TEXT COLLATE "C", -- when old links were last fetched again for letters
  waiting     BIGINT NOT NULL DEFAULT 0, -- letters that waited for a person then
  waits_since TEXT COLLATE "C",
  brake       TEXT COLLATE "C" NOT NULL DEFAULT '', -- why nothing left then; '' for nothing
  brake_since TEXT COLLATE "C"
);
INSERT INTO letter_desk (only_row) VALUES (1);

CREATE TABLE failure_reasons (
  seq        BIGINT PRIMARY KEY REFERENCES mandate_history (seq),
  mandate_id TEXT COLLATE "C" NOT NULL REFERENCES mandates (mandate_id),
  reason     BYTEA NOT NULL, -- sealed
  kept_at    TEXT COLLATE "C" NOT NULL
);

CREATE TABLE writebacks (
  connection TEXT COLLATE "C" NOT NULL,
  source_id  TEXT COLLATE "C" NOT NULL,
  setup      TEXT COLLATE "C" NOT NULL CHECK (setup <> ''), -- hash of which field of which system it is about
  applied    TEXT COLLATE "C" NOT NULL DEFAULT 'none' CHECK (applied = 'none' OR applied = 'asked' OR applied = 'signed' OR applied = 'active' OR applied = 'cancelled'), -- what the field says of ours, for all that is known
  applied_at TEXT COLLATE "C", -- since when; NULL while nothing was written
  field      BYTEA, -- what it held before the first write, after the last, and when somebody else had changed it; sealed
  wanted     TEXT COLLATE "C" NOT NULL DEFAULT '' CHECK (wanted = '' OR wanted = 'none' OR wanted = 'asked' OR wanted = 'signed' OR wanted = 'active' OR wanted = 'cancelled'), -- what the open request says; blank for no request
  write_id   TEXT COLLATE "C" NOT NULL DEFAULT '',
  request    BYTEA, -- its frozen bytes, sealed; NULL while none is open
  digest     TEXT COLLATE "C" NOT NULL DEFAULT '', -- SHA-256 of them
  frozen_at  TEXT COLLATE "C", -- when the last request was frozen
  sent_at    TEXT COLLATE "C", -- when the open one last left, or may have; NULL before
  attempts   BIGINT NOT NULL DEFAULT 0 CHECK (attempts >= 0), -- of the open one
  day        TEXT COLLATE "C" NOT NULL DEFAULT '', -- on which requests were counted last
  day_writes BIGINT NOT NULL DEFAULT 0 CHECK (day_writes >= 0),
  approved   TEXT COLLATE "C" NOT NULL DEFAULT '', -- what a person let go; blank when that was written
  refused    TEXT COLLATE "C" NOT NULL DEFAULT '', -- what the system would not write
  problem    TEXT COLLATE "C" NOT NULL DEFAULT '', -- why, or why the end of the open request is not known
  problem_at TEXT COLLATE "C",
  foreign_at TEXT COLLATE "C", -- since when the field is left to whoever changed it; NULL while it is ours
  taken      BIGINT NOT NULL DEFAULT 0 CHECK (taken = 0 OR taken = 1), -- a person gave it back, and it was not read since
  known_at   TEXT COLLATE "C", -- when what it holds was last known, by a read or a write; NULL for never
  echo       BIGINT NOT NULL DEFAULT 0 CHECK (echo = 0 OR echo = 1), -- a write of ours that no reading of the books has shown yet
  echoes     BIGINT NOT NULL DEFAULT 0 CHECK (echoes >= 0), -- how often a reading showed a record with no other change
  PRIMARY KEY (connection, source_id),
  FOREIGN KEY (connection, source_id) REFERENCES source_records (connection, source_id),
  CHECK ((request IS NULL) = (wanted = '')),
  CHECK (sent_at IS NULL OR request IS NOT NULL)
);

CREATE TABLE writeback_approvals (
  approval_id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  connection  TEXT COLLATE "C" NOT NULL CHECK (connection <> ''),
  setup       TEXT COLLATE "C" NOT NULL CHECK (setup <> ''),
  batch       TEXT COLLATE "C" NOT NULL CHECK (batch <> ''), -- hash of what was shown: record, from, to
  payers      BIGINT NOT NULL CHECK (payers >= 0),
  actor       TEXT COLLATE "C" NOT NULL,
  reason      TEXT COLLATE "C" NOT NULL DEFAULT '',
  at          TEXT COLLATE "C" NOT NULL
);

CREATE TABLE writeback_runs (
  connection TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (connection <> ''),
  at         TEXT COLLATE "C" NOT NULL,
  written    BIGINT NOT NULL CHECK (written >= 0),
  waiting    BIGINT NOT NULL CHECK (waiting >= 0), -- for a person's approval
  waits_at   TEXT COLLATE "C", -- since when they wait; NULL for none
  stuck      BIGINT NOT NULL CHECK (stuck >= 0), -- refused, too often written, of unknown end, or left to somebody else
  stuck_at   TEXT COLLATE "C", -- since when there are any
  problem    TEXT COLLATE "C" NOT NULL DEFAULT '' -- why it ended early
);

CREATE TABLE round_trips (
  trip_id  BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  address  TEXT COLLATE "C" NOT NULL, -- of the billing service, as ledger.billing_address; blank while the ledger has none
  way      TEXT COLLATE "C" NOT NULL CHECK (way <> ''), -- the settings that say how an update is written
  made_by  TEXT COLLATE "C" NOT NULL CHECK (made_by = 'update' OR made_by = 'probe' OR made_by = 'person'),
  subject  TEXT COLLATE "C" NOT NULL DEFAULT '', -- the change, the customer of the probe, or who said it
  at       TEXT COLLATE "C" NOT NULL,
  survived TEXT COLLATE "C" NOT NULL DEFAULT '[]', -- kinds of members of others that were there and stayed as they were, as a JSON list; "*" for any
  lost     TEXT COLLATE "C" NOT NULL DEFAULT '[]', -- paths that did not come out as they should, as a JSON list; empty for a clean one
  sure     BIGINT NOT NULL DEFAULT 0 CHECK (sure = 0 OR sure = 1) -- nobody else's edit explains what was lost
);

CREATE TABLE two_way (
  connection TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (connection <> ''),
  found_at   TEXT COLLATE "C", -- when that was found; NULL for never
  customers  BIGINT NOT NULL DEFAULT 0 CHECK (customers >= 0), -- that carried such a pair then
  matching   BIGINT NOT NULL DEFAULT 0 CHECK (matching >= 0), -- of them, those with the id of a record of the connection
  example    TEXT COLLATE "C" NOT NULL DEFAULT '', -- one of them
  in_force   BIGINT NOT NULL DEFAULT 0 CHECK (in_force IN (0, 1)), -- the newest plan linked only
  since      TEXT COLLATE "C", -- since when it is in force, or is no more
  echoes     BIGINT NOT NULL DEFAULT 0 CHECK (echoes >= 0)
);

CREATE TABLE financial_statuses (
  billing_id TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (billing_id <> ''),
  status     BYTEA NOT NULL, -- sealed
  seen_at    TEXT COLLATE "C" NOT NULL, -- when a read showed it last
  listed     BIGINT NOT NULL DEFAULT 0 CHECK (listed = 0 OR listed = 1)
);

CREATE TABLE webhook_rotations (
  rotation_id  BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  begun_at     TEXT COLLATE "C" NOT NULL, -- before the first call
  begun_by     TEXT COLLATE "C" NOT NULL DEFAULT '',
  secret       BYTEA, -- what the service signs with from then on, sealed; NULL while it named none, and when nothing needs it any more
  secret_at    TEXT COLLATE "C", -- when it was kept
  delivery_key BYTEA, -- what deliveries are to carry from then on, sealed; NULL for none, and when nothing needs it any more
  done_at      TEXT COLLATE "C", -- when the service had taken all of it
  refused_at   TEXT COLLATE "C", -- when the service refused before it named a secret, so that the one before still signs
  CHECK (secret IS NULL OR secret_at IS NOT NULL),
  CHECK (done_at IS NULL OR refused_at IS NULL)
);

CREATE TABLE two_way_echoes (
  connection TEXT COLLATE "C" NOT NULL CHECK (connection <> ''),
  source_id  TEXT COLLATE "C" NOT NULL,
  at         TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (connection, source_id)
);

CREATE TABLE logins (
  token_hash TEXT COLLATE "C" PRIMARY KEY,
  data       BYTEA NOT NULL,
  expires_at TEXT COLLATE "C" NOT NULL
);

CREATE TABLE login_links (
  token_hash  TEXT COLLATE "C" PRIMARY KEY,
  person      TEXT COLLATE "C" NOT NULL,
  role        TEXT COLLATE "C" NOT NULL,
  made_at     TEXT COLLATE "C" NOT NULL,
  expires_at  TEXT COLLATE "C" NOT NULL,
  used_at     TEXT COLLATE "C",
  invites     BIGINT NOT NULL DEFAULT 0 CHECK (invites IN (0, 1)),
  connections TEXT COLLATE "C" CHECK (connections IS NULL OR json_type(connections) = 'array' AND json_array_length(connections) > 0)
);

CREATE TABLE put_off (
  connection TEXT COLLATE "C" NOT NULL,
  source_id  TEXT COLLATE "C" NOT NULL,
  reason     TEXT COLLATE "C" NOT NULL,
  at         TEXT COLLATE "C" NOT NULL,
  until      TEXT COLLATE "C" NOT NULL,
  word       BIGINT NOT NULL,
  PRIMARY KEY (connection, source_id, reason)
);

CREATE TABLE users (
  name        TEXT COLLATE "C" PRIMARY KEY CHECK (name <> ''),
  role        TEXT COLLATE "C" NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
  password    BYTEA, -- NULL until the invitation is used
  generation  BIGINT NOT NULL CHECK (generation > 0),
  made_at     TEXT COLLATE "C" NOT NULL,
  password_at TEXT COLLATE "C",
  connections TEXT COLLATE "C" CHECK (connections IS NULL OR json_type(connections) = 'array' AND json_array_length(connections) > 0)
);

CREATE TABLE webhook_refusals (
  day      TEXT COLLATE "C" NOT NULL CHECK (day ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$'), -- in UTC
  reason   TEXT COLLATE "C" NOT NULL CHECK (reason IN ('wrong_path', 'wrong_method', 'too_many', 'wrong_encoding', 'wrong_type', 'too_large', 'broken_off', 'signature_failed', 'delivery_key_failed', 'secret_unknown', 'busy', 'not_stored', 'panicked')),
  requests BIGINT NOT NULL CHECK (requests > 0),
  first_at TEXT COLLATE "C" NOT NULL,
  last_at  TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (day, reason)
);

CREATE UNIQUE INDEX runs_open ON runs (connection) WHERE finished_at IS NULL;
CREATE UNIQUE INDEX payers_billing_id ON payers (billing_id) WHERE billing_id IS NOT NULL;
CREATE INDEX payers_key ON payers (key_name, key_value);
CREATE INDEX plans_waiting ON plans (connection) WHERE state = 'waiting';
CREATE UNIQUE INDEX changes_open ON changes (connection, source_id, lane) WHERE state = 'pending' OR state = 'frozen' OR state = 'unknown';
CREATE INDEX changes_links ON changes (run_id) WHERE action = 'link' AND state = 'done';
CREATE INDEX changes_queue ON changes (connection, lane, state, change_id) WHERE state = 'pending' OR state = 'frozen' OR state = 'unknown';
CREATE INDEX changes_payer ON changes (connection, source_id, lane);
CREATE INDEX remote_traits_customer ON remote_traits (billing_id);
CREATE INDEX mandates_customer ON mandates (billing_id);
CREATE INDEX inbox_open ON inbox (billing_id, inbox_id) WHERE state IN ('received', 'parked');
CREATE INDEX slots_scope ON slots (scope, until);
CREATE INDEX foreign_moves_change ON foreign_moves (change_id);
CREATE INDEX changes_confirmed ON changes (updated_at) WHERE state = 'done' AND body IS NOT NULL AND action <> 'create';
CREATE INDEX attempts_open_creates ON attempts (key_name, key_value) WHERE action = 'create' AND ended = '';
CREATE INDEX attempts_open_updates ON attempts (billing_id) WHERE ended = '' AND action <> 'create';
CREATE INDEX attempts_updates ON attempts (billing_id, attempt_id) WHERE action = 'adopt' OR action = 'update';
CREATE INDEX attempts_under_way ON attempts (sent_at) WHERE ended = '' AND over = 0;
CREATE INDEX attempts_change ON attempts (change_id);
CREATE INDEX payers_unverified ON payers (connection, source_id) WHERE billing_id IS NOT NULL AND seen_at = 0;
CREATE INDEX source_records_working ON source_records (connection) WHERE class = 'working';
CREATE INDEX remote_customers_missing ON remote_customers (billing_id) WHERE digest = '';
CREATE UNIQUE INDEX words_of_record ON words (connection, source_id) WHERE word <> 'reject';
CREATE UNIQUE INDEX words_of_customer ON words (billing_id) WHERE word = 'accept';
CREATE INDEX likenesses_record ON likenesses (connection, source_id);
CREATE INDEX payers_unlearnt ON payers (connection, source_id) WHERE likeness = '' AND billing_id IS NOT NULL AND applied IS NOT NULL;
CREATE INDEX source_records_turned ON source_records (connection, source_id) WHERE let_go <> (decision = 'held' OR decision = 'excluded');
CREATE UNIQUE INDEX alarm_messages_open ON alarm_messages (way) WHERE sent_at IS NULL;
CREATE INDEX alarm_messages_way ON alarm_messages (way, made_at);
CREATE UNIQUE INDEX alarms_open ON alarms (way, code, subject) WHERE over_told IS NULL;
CREATE INDEX alarms_closed ON alarms (over_at) WHERE over_told IS NOT NULL;
CREATE INDEX runs_connection ON runs (connection, run_id);
CREATE INDEX mandate_history_mandate ON mandate_history (mandate_id, seq);
CREATE INDEX attempts_open ON attempts (sent_at) WHERE ended = '';
CREATE INDEX source_records_forgotten ON source_records (connection, source_id) WHERE forgotten <> '';
CREATE INDEX inbox_bodies ON inbox (coalesce(processed_at, received_at)) WHERE body <> '\x' AND (state = 'reflected' OR state = 'superseded' OR state = 'ignored');
CREATE INDEX changes_details ON changes (updated_at) WHERE (wanted IS NOT NULL OR diff IS NOT NULL OR body IS NOT NULL OR pre_image IS NOT NULL) AND (state = 'done' OR state = 'failed' OR state = 'held' OR state = 'void');
CREATE INDEX source_records_given_up ON source_records (connection, source_id) WHERE given_up <> 0;
CREATE INDEX mandate_history_customer ON mandate_history (billing_id, seq);
CREATE INDEX payers_link_state ON payers (connection, link_state);
CREATE INDEX mandates_status ON mandates (status);
CREATE INDEX inbox_state ON inbox (state);
CREATE INDEX payers_stays ON payers (connection, source_id) WHERE stays_at <> 0;
CREATE INDEX payers_let_be ON payers (connection, source_id) WHERE let_be <> 0;
CREATE INDEX letters_payer ON letters (connection, source_id);
CREATE INDEX letters_recipient ON letters (recipient, ended_at);
CREATE INDEX letters_open ON letters (state) WHERE state = 'frozen' OR state = 'sending' OR state = 'deferred' OR state = 'unclear';
CREATE INDEX letters_ended ON letters (ended_at) WHERE body IS NOT NULL;
CREATE INDEX letter_stops_payer ON letter_stops (connection, source_id) WHERE ended_at IS NULL;
CREATE INDEX letter_stops_recipient ON letter_stops (recipient) WHERE ended_at IS NULL AND recipient <> '';
CREATE INDEX letter_approvals_setup ON letter_approvals (setup);
CREATE UNIQUE INDEX mandates_one_link ON mandates (billing_id) WHERE link IS NOT NULL;
CREATE INDEX letter_addresses_recipient ON letter_addresses (recipient);
CREATE INDEX failure_reasons_mandate ON failure_reasons (mandate_id);
CREATE INDEX failure_reasons_kept ON failure_reasons (kept_at);
CREATE INDEX writebacks_echo ON writebacks (connection, source_id) WHERE echo = 1;
CREATE INDEX writeback_approvals_setup ON writeback_approvals (connection, setup);
CREATE INDEX inbox_types ON inbox (event_type, received_at);
CREATE INDEX changes_run ON changes (run_id, change_id);
CREATE INDEX plans_run ON plans (run_id, plan_id);
CREATE INDEX mandate_history_swept ON mandate_history (observed_at, cause_id, cause, from_status) WHERE cause = 'sweep' AND from_status <> '';

-- +goose StatementBegin
CREATE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only', TG_ARGV[0];
END $$;
-- +goose StatementEnd
CREATE TRIGGER mandate_history_keeps BEFORE UPDATE ON mandate_history FOR EACH ROW EXECUTE FUNCTION append_only('mandate history');
CREATE TRIGGER mandate_history_stays BEFORE DELETE ON mandate_history FOR EACH ROW EXECUTE FUNCTION append_only('mandate history');
CREATE TRIGGER audit_keeps BEFORE UPDATE ON audit FOR EACH ROW EXECUTE FUNCTION append_only('the audit log');
CREATE TRIGGER audit_stays BEFORE DELETE ON audit FOR EACH ROW EXECUTE FUNCTION append_only('the audit log');

CREATE VIEW v_mandates (mandate_id, billing_id, connection, source_id, status, status_since, first_seen_at, last_seen_at) AS
  SELECT m.mandate_id, m.billing_id, p.connection, p.source_id, m.status, m.status_since, m.first_seen_at,
    CASE m.listed WHEN 1 THEN max(m.last_seen_at, coalesce((SELECT q.started_at FROM passes q
      WHERE q.finished_at IS NOT NULL ORDER BY q.finished_at DESC, q.started_at LIMIT 1), '')) ELSE m.last_seen_at END
  FROM mandates m LEFT JOIN payers p ON p.billing_id = m.billing_id;

CREATE VIEW v_mandate_history (seq, mandate_id, billing_id, from_status, to_status, service_time, observed_at, cause) AS
  SELECT seq, mandate_id, billing_id, from_status, to_status, service_time, observed_at, cause FROM mandate_history;

CREATE VIEW v_runs (run_id, connection, kind, trigger, started_at, finished_at, outcome, pulled, unchanged, excluded,
                    created, adopted, updated, links_requested, held, failed) AS
  SELECT run_id, connection, kind, trigger, started_at, finished_at, outcome, pulled, unchanged, excluded,
         created, adopted, updated, links_requested, held, failed FROM runs;

CREATE VIEW v_inbox (delivery_key, received_at, event_type, billing_id, state, processed_at) AS
  SELECT delivery_key, received_at, event_type, billing_id, state, processed_at FROM inbox;

CREATE VIEW v_payers (connection, source_id, key_name, key_value, billing_id, link_state,
                      mandate_id, mandate_status, attention_reason, updated_at, key_scope) AS
  SELECT p.connection, p.source_id, p.key_name, substr(p.key_value, 1, instr(p.key_value || chr(31), chr(31)) - 1), p.billing_id, p.link_state,
         p.mandate_id, m.status,
         (SELECT a.reason FROM attention a
          WHERE a.connection = p.connection AND a.source_id = p.source_id
          ORDER BY CASE a.topic WHEN 'link' THEN 0 WHEN 'record' THEN 1 ELSE 2 END LIMIT 1),
         p.updated_at, substr(p.key_value, instr(p.key_value || chr(31), chr(31)) + 1)
  FROM payers p LEFT JOIN mandates m ON m.mandate_id = p.mandate_id;

CREATE VIEW v_attention (connection, source_id, reason, detail, since) AS
  SELECT connection, source_id, reason, detail, since FROM attention
  UNION ALL
  SELECT '', delivery_key, 'event_not_understood', detail, received_at FROM inbox WHERE state = 'quarantined'
  UNION ALL
  SELECT '', 'webhooks', 'subscription_changed', detail, problem_since FROM subscription WHERE problem <> '' AND NOT (known <> 0 AND known_of = detail)
  UNION ALL
  SELECT a.connection, a.source_id, 'address_bounced', 'A letter to the payer''s e-mail address came back: the address does not exist, or takes no mail.', min(s.since)
  FROM letter_stops s JOIN letter_addresses a ON a.recipient = s.recipient
  JOIN payers p ON p.connection = a.connection AND p.source_id = a.source_id
  JOIN mandates m ON m.mandate_id = p.mandate_id AND m.status = 'CREATED'
  WHERE s.scope = 'address' AND s.why = 'bounced' AND s.ended_at IS NULL AND s.recipient <> '' GROUP BY a.connection, a.source_id;
