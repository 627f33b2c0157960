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
  seen_pass  BIGINT NOT NULL DEFAULT 0,
  listed_at  TEXT COLLATE "C" NOT NULL,
  ticket     BIGINT NOT NULL DEFAULT 0, -- newest read that was applied
  read_at    TEXT COLLATE "C" NOT NULL DEFAULT '',
  bare_pass  BIGINT NOT NULL DEFAULT 0,
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
  link_refused  BIGINT NOT NULL DEFAULT 0
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
