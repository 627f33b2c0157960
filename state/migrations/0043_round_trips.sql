-- +goose Up
-- What was seen of updates before one way of making them was believed: a customer was read,
-- replaced as a whole and read again. Whether that way is believed is computed.
CREATE TABLE round_trips (
  trip_id  INTEGER PRIMARY KEY,
  address  TEXT NOT NULL,                     -- of the billing service, as ledger.billing_address; blank while the ledger has none
  way      TEXT NOT NULL CHECK (way <> ''),   -- the settings that say how an update is written
  made_by  TEXT NOT NULL CHECK (made_by = 'update' OR made_by = 'probe' OR made_by = 'person'),
  subject  TEXT NOT NULL DEFAULT '',          -- the change, the customer of the probe, or who said it
  at       TEXT NOT NULL,
  survived TEXT NOT NULL DEFAULT '[]',        -- kinds of members of others that were there and stayed as they were, as a JSON list; "*" for any
  lost     TEXT NOT NULL DEFAULT '[]',        -- paths that did not come out as they should, as a JSON list; empty for a clean one
  sure     INTEGER NOT NULL DEFAULT 0 CHECK (sure = 0 OR sure = 1) -- nobody else's edit explains what was lost
) STRICT;
