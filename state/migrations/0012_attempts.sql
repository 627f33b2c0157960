-- +goose Up
-- Every request that changes something at the billing service, one row for each time
-- it left. A row is added before the request leaves, and ends once: by the answer to it,
-- because it certainly never left, or because its time is over and a look that began later
-- shows what became of it. Until then it may still arrive.
CREATE TABLE attempts (
  attempt_id INTEGER PRIMARY KEY,                      -- in the order in which they left
  change_id  INTEGER NOT NULL REFERENCES changes (change_id),
  action     TEXT NOT NULL CHECK (action = 'create' OR action = 'adopt' OR action = 'update' OR action = 'link'),
  connection TEXT NOT NULL,
  source_id  TEXT NOT NULL,
  key_name   TEXT NOT NULL,                            -- the payer's key when it left
  key_value  TEXT NOT NULL,
  billing_id TEXT NOT NULL DEFAULT '',                 -- the customer it is for; '' for a create
  ticket     INTEGER NOT NULL,
  sent_at    TEXT NOT NULL,
  ended      TEXT NOT NULL DEFAULT '' CHECK (ended = '' OR ended = 'answered' OR ended = 'unsent' OR ended = 'looked'),
  end_ticket INTEGER NOT NULL DEFAULT 0                -- taken when it ended
) STRICT;
CREATE INDEX attempts_open_creates ON attempts (key_name, key_value) WHERE action = 'create' AND ended = '';
CREATE INDEX attempts_updates ON attempts (billing_id, sent_at) WHERE action = 'adopt' OR action = 'update';
CREATE INDEX attempts_change ON attempts (change_id);

-- What was sent before there were attempts, and whose answer is not known.
INSERT INTO attempts (change_id, action, connection, source_id, key_name, key_value, billing_id, ticket, sent_at)
  SELECT c.change_id, c.action, c.connection, c.source_id, p.key_name, p.key_value,
         CASE c.action WHEN 'create' THEN '' ELSE coalesce(c.billing_id, p.billing_id, '') END, 0, c.updated_at
  FROM changes c JOIN payers p ON p.connection = c.connection AND p.source_id = c.source_id
  WHERE c.attempts > 0 AND c.lane = 'customer' AND (
    c.state IN ('frozen', 'unknown', 'void') OR c.state = 'held' AND c.reason <> 'outcome_unknown'
    OR c.state = 'done' AND (c.action = 'create' OR c.attempts > 1));
