-- +goose Up
-- What reached payers, or may have, about their mandates. What is due is computed from it.

-- A letter of ours. Its row is made when its bytes are frozen, before the first of them leaves.
CREATE TABLE letters (
  letter_id  INTEGER PRIMARY KEY,
  mandate_id TEXT NOT NULL REFERENCES mandates (mandate_id),
  step       INTEGER NOT NULL CHECK (step >= 0),       -- 0 is the invitation, then the reminders by their place in letters.steps
  kind       TEXT NOT NULL CHECK (kind <> ''),         -- which template
  connection TEXT NOT NULL,
  source_id  TEXT NOT NULL,
  recipient  TEXT NOT NULL CHECK (recipient <> ''),    -- keyed hash of the address
  setup      TEXT NOT NULL,                            -- hash of what a person approves the first batch of: templates, sender, mapping, source
  language   TEXT NOT NULL,
  message_id TEXT NOT NULL UNIQUE CHECK (message_id <> ''), -- keyed hash of mandate and step
  digest     TEXT NOT NULL,                            -- SHA-256 of the frozen bytes
  looked_at  TEXT NOT NULL,                            -- when the customer was read before it
  frozen_at  TEXT NOT NULL,
  state      TEXT NOT NULL CHECK (state = 'frozen' OR state = 'sending' OR state = 'sent' OR state = 'refused' OR state = 'deferred' OR state = 'unclear' OR state = 'void'),
  attempts   INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),   -- how often its first byte was about to leave
  deferrals  INTEGER NOT NULL DEFAULT 0 CHECK (deferrals >= 0),  -- how often the mail server said not now
  sending_at TEXT,                                     -- when the last attempt began
  ended_at   TEXT,                                     -- when its outcome was known
  answer     TEXT NOT NULL DEFAULT '',                 -- what the mail server said, without addresses
  word       TEXT NOT NULL DEFAULT '',                 -- what a person said of one that is unclear
  body       BLOB,                                     -- the frozen bytes with their recipient, sealed; NULL when they are kept no longer; last, so that the rest is read without its pages
  FOREIGN KEY (connection, source_id) REFERENCES source_records (connection, source_id),
  CHECK (state = 'frozen' OR state = 'void' OR sending_at IS NOT NULL),
  UNIQUE (mandate_id, step)
) STRICT;
CREATE INDEX letters_payer ON letters (connection, source_id);
CREATE INDEX letters_recipient ON letters (recipient, ended_at);
CREATE INDEX letters_open ON letters (state) WHERE state = 'frozen' OR state = 'sending' OR state = 'deferred' OR state = 'unclear';
CREATE INDEX letters_ended ON letters (ended_at) WHERE body IS NOT NULL;

-- What somebody else sent for a mandate: by post, by mail merge, by telephone.
CREATE TABLE handovers (
  mandate_id TEXT NOT NULL REFERENCES mandates (mandate_id),
  sent_on    TEXT NOT NULL,                            -- a day, as YYYY-MM-DD
  noted_at   TEXT NOT NULL,
  actor      TEXT NOT NULL,
  PRIMARY KEY (mandate_id, sent_on)
) STRICT, WITHOUT ROWID;

-- Who is not to be written to. Of a payer, of an address, or of all letters.
CREATE TABLE letter_stops (
  stop_id    INTEGER PRIMARY KEY,
  scope      TEXT NOT NULL CHECK (scope = 'payer' OR scope = 'address' OR scope = 'connection' OR scope = 'all'),
  connection TEXT NOT NULL DEFAULT '',                 -- of a payer, or of a connection
  source_id  TEXT NOT NULL DEFAULT '',
  recipient  TEXT NOT NULL DEFAULT '',                 -- keyed hash of an address
  why        TEXT NOT NULL CHECK (why = 'person' OR why = 'opted_out' OR why = 'bounced' OR why = 'pause' OR why = 'brake'),
  until_on   TEXT,                                     -- the first day on which it holds no more; NULL for ever
  note       TEXT NOT NULL DEFAULT '',
  actor      TEXT NOT NULL,
  since      TEXT NOT NULL,
  ended_at   TEXT,                                     -- when somebody took it back; NULL while it holds
  CHECK ((scope = 'payer') = (source_id <> '')),
  CHECK ((scope = 'address') = (recipient <> '')),
  CHECK (scope <> 'connection' OR connection <> '')
) STRICT;
CREATE INDEX letter_stops_payer ON letter_stops (connection, source_id) WHERE ended_at IS NULL;
CREATE INDEX letter_stops_recipient ON letter_stops (recipient) WHERE ended_at IS NULL AND recipient <> '';

-- What a person has let go: letters of one setup, the first batch of it by its hash.
CREATE TABLE letter_approvals (
  approval_id INTEGER PRIMARY KEY,
  setup       TEXT NOT NULL CHECK (setup <> ''),
  batch       TEXT NOT NULL CHECK (batch <> ''),       -- hash of the letters that were shown: mandate, step, recipient
  whole       INTEGER NOT NULL CHECK (whole IN (0, 1)), -- the setup itself, and not single letters of it
  letters     INTEGER NOT NULL CHECK (letters >= 0),
  actor       TEXT NOT NULL,
  reason      TEXT NOT NULL DEFAULT '',
  at          TEXT NOT NULL
) STRICT;
CREATE INDEX letter_approvals_setup ON letter_approvals (setup);

-- The letters that were shown to whoever approved them, and no others.
CREATE TABLE letter_approved (
  approval_id INTEGER NOT NULL REFERENCES letter_approvals (approval_id),
  mandate_id  TEXT NOT NULL,
  step        INTEGER NOT NULL,
  recipient   TEXT NOT NULL,
  PRIMARY KEY (mandate_id, step, recipient, approval_id)
) STRICT, WITHOUT ROWID;

-- To which address payers were last written to, or would have been: how many changed is what
-- a batch waits for.
CREATE TABLE letter_addresses (
  connection TEXT NOT NULL,
  source_id  TEXT NOT NULL,
  recipient  TEXT NOT NULL,
  changed_at TEXT,                                     -- when it came to be another one; NULL for never
  PRIMARY KEY (connection, source_id),
  FOREIGN KEY (connection, source_id) REFERENCES source_records (connection, source_id)
) STRICT, WITHOUT ROWID;

-- Letters of which the journal beside the ledger tells, and the ledger knew nothing: it was put
-- back to a time before them.
CREATE TABLE letter_journal (
  message_id TEXT NOT NULL,
  recipient  TEXT NOT NULL,
  at         TEXT NOT NULL,
  PRIMARY KEY (message_id, at)
) STRICT, WITHOUT ROWID;

-- The desk that letters leave from; one row at most.
CREATE TABLE letter_desk (
  only_row  INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal   TEXT NOT NULL DEFAULT '',                  -- the id of the journal; '' while there is none
  restored  TEXT,                                      -- the restore after which a person said to go on
  gone_on_at TEXT,                                     -- when a person last said to go on; the next letters are read by one
  looked_at TEXT,                                      -- when letters were last looked for, by a clock that could be right
  renewed_at TEXT,                                     -- when old links were last fetched again for letters
  waiting   INTEGER NOT NULL DEFAULT 0,                -- letters that waited for a person then
  waits_since TEXT,
  brake     TEXT NOT NULL DEFAULT '',                  -- why nothing left then; '' for nothing
  brake_since TEXT
) STRICT;
INSERT INTO letter_desk (only_row) VALUES (1);

-- The key of what outlives the sealing key: hashes of addresses and letters. NULL while it is
-- made from the sealing key.
ALTER TABLE ledger ADD COLUMN letter_key BLOB;
