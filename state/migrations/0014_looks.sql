-- +goose Up
-- What of ours the newest read of a payer's customer showed, as the hash of the rendered
-- customer, '' for anything else; and the tickets at which that was first so, at which a
-- read last showed what was applied, and of the newest answer that changed the customer.
ALTER TABLE payers ADD COLUMN shows TEXT NOT NULL DEFAULT '';
ALTER TABLE payers ADD COLUMN shown_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE payers ADD COLUMN confirmed_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE payers ADD COLUMN answered_at INTEGER NOT NULL DEFAULT 0;
UPDATE payers SET shows = applied_hash, confirmed_at = CASE applied_hash WHEN '' THEN 0 ELSE (SELECT ticket FROM ledger) END,
  answered_at = CASE WHEN link_state = 'creating' AND billing_id IS NOT NULL THEN (SELECT ticket FROM ledger) ELSE 0 END;
-- An update that was answered, and that somebody overwrote at once: it was applied, and is
-- not what the customer shows.
UPDATE payers SET applied_hash = c.wanted_hash, confirmed_at = (SELECT ticket FROM ledger), answered_at = 1
  FROM changes c WHERE payers.applied IS NOT NULL AND payers.applied_hash = '' AND c.state = 'failed' AND c.reason = 'foreign_change'
    AND c.change_id = (SELECT max(n.change_id) FROM changes n WHERE n.connection = payers.connection AND n.source_id = payers.source_id
      AND n.lane = 'customer' AND (n.state = 'done' OR n.state = 'failed' OR n.state = 'held'));

-- When a person last said that a record may be tried again, and when a change came to
-- its end, as tickets: the one or the other was later. A person's word was noted till now
-- by planning the record again.
ALTER TABLE source_records ADD COLUMN retried_at INTEGER NOT NULL DEFAULT 0;
UPDATE source_records SET retried_at = (SELECT ticket FROM ledger) WHERE replan = 1;
ALTER TABLE changes ADD COLUMN ended_at INTEGER NOT NULL DEFAULT 0;

-- From when on the ledger knows what was sent, and when everything sent before must have
-- arrived, as tickets; and the restore that they are about. One that was followed by a
-- whole list a day later is in doubt no more.
ALTER TABLE ledger ADD COLUMN doubt INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN doubt_over INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN doubt_of TEXT;
UPDATE ledger SET doubt_of = restored_at WHERE EXISTS (SELECT 1 FROM passes
  WHERE finished_at IS NOT NULL AND started_at > strftime('%Y-%m-%dT%H:%M:%fZ', ledger.restored_at, '+1 day'));

-- When the time of an attempt was found to be over: any read that begins from then on
-- shows what became of it. An attempt may also end refused, so that it had no effect.
CREATE TABLE attempts_now (
  attempt_id INTEGER PRIMARY KEY,                      -- in the order in which they left
  change_id  INTEGER REFERENCES changes (change_id),   -- NULL: a person asked for a signing link
  action     TEXT NOT NULL CHECK (action = 'create' OR action = 'adopt' OR action = 'update' OR action = 'link'),
  connection TEXT NOT NULL,
  source_id  TEXT NOT NULL,
  key_name   TEXT NOT NULL,                            -- the payer's key when it left
  key_value  TEXT NOT NULL,
  billing_id TEXT NOT NULL DEFAULT '',                 -- the customer it is for; '' for a create
  ticket     INTEGER NOT NULL,
  sent_at    TEXT NOT NULL,
  over       INTEGER NOT NULL DEFAULT 0,               -- ticket at which it could arrive no more; 0 before that
  ended      TEXT NOT NULL DEFAULT '' CHECK (ended = '' OR ended = 'answered' OR ended = 'refused' OR ended = 'unsent' OR ended = 'looked'),
  end_ticket INTEGER NOT NULL DEFAULT 0                -- taken when it ended
) STRICT;
INSERT INTO attempts_now (attempt_id, change_id, action, connection, source_id, key_name, key_value, billing_id, ticket, sent_at, ended, end_ticket)
  SELECT attempt_id, change_id, action, connection, source_id, key_name, key_value, billing_id, ticket, sent_at, ended, end_ticket FROM attempts;
-- An update that nobody answered, or that was answered when a later one had left already,
-- could take effect within a day, unless the customer was seen after that.
CREATE TEMP TABLE undoing AS SELECT a.attempt_id, EXISTS (SELECT 1 FROM remote_customers r
    WHERE r.billing_id = a.billing_id AND r.listed_at > strftime('%Y-%m-%dT%H:%M:%fZ', a.sent_at, '+1 day')) AS looked
  FROM attempts a WHERE (a.action = 'adopt' OR a.action = 'update') AND (a.ended = '' OR a.ended = 'answered' AND EXISTS (
    SELECT 1 FROM attempts n WHERE (n.action = 'adopt' OR n.action = 'update') AND n.billing_id = a.billing_id AND n.attempt_id > a.attempt_id AND n.ticket < a.end_ticket));
UPDATE attempts_now SET ended = 'looked', end_ticket = (SELECT ticket FROM ledger)
  WHERE ended = '' AND attempt_id IN (SELECT attempt_id FROM undoing WHERE looked);
UPDATE attempts_now SET ended = '', end_ticket = 0
  WHERE ended = 'answered' AND attempt_id IN (SELECT attempt_id FROM undoing WHERE NOT looked);
DROP TABLE undoing;
DROP TABLE attempts;
ALTER TABLE attempts_now RENAME TO attempts;
CREATE INDEX attempts_open_creates ON attempts (key_name, key_value) WHERE action = 'create' AND ended = '';
CREATE INDEX attempts_open_updates ON attempts (billing_id) WHERE ended = '' AND action <> 'create';
CREATE INDEX attempts_updates ON attempts (billing_id, attempt_id) WHERE action = 'adopt' OR action = 'update';
CREATE INDEX attempts_under_way ON attempts (sent_at) WHERE ended = '' AND over = 0;
CREATE INDEX attempts_change ON attempts (change_id);

-- Lists are ordered by tickets, too: the one that was taken when a pass began.
ALTER TABLE passes ADD COLUMN ticket INTEGER NOT NULL DEFAULT 0;
UPDATE passes SET ticket = (SELECT ticket FROM ledger);

-- What a restored ledger holds was noted before it was restored: tickets say so now, and no
-- time is rewritten any more.
DROP TRIGGER ledger_restored;
