-- +goose Up
-- What shows that the billing service has an accounting connection of its own to the books of a
-- connection: pairs of their kind on customers, which payersync did not write. It is kept once
-- it was found, because customers that are linked since carry the same pairs.
CREATE TABLE two_way (
  connection TEXT NOT NULL PRIMARY KEY CHECK (connection <> ''),
  found_at   TEXT,                                     -- when that was found; NULL for never
  customers  INTEGER NOT NULL DEFAULT 0 CHECK (customers >= 0), -- that carried such a pair then
  matching   INTEGER NOT NULL DEFAULT 0 CHECK (matching >= 0),  -- of them, those with the id of a record of the connection
  example    TEXT NOT NULL DEFAULT '',                 -- one of them
  in_force   INTEGER NOT NULL DEFAULT 0 CHECK (in_force IN (0, 1)), -- the newest plan linked only
  since      TEXT                                      -- since when it is in force, or is no more
) STRICT, WITHOUT ROWID;
