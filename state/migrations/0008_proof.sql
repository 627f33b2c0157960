-- +goose Up
-- What a list left in doubt: customers that the index had, that it did not show and
-- that no read says are gone, and customers shown without externalData that no read
-- has shown since. NULL while nobody has looked. Only a pass that left nothing in
-- doubt proves that a key does not exist.
ALTER TABLE passes ADD COLUMN lacking INTEGER;
ALTER TABLE passes ADD COLUMN unread INTEGER;

-- When a read of the customer by itself last showed its externalData, '' for never, and
-- the last pass that listed it without any: a list may leave externalData out.
ALTER TABLE remote_customers ADD COLUMN read_at TEXT NOT NULL DEFAULT '';
ALTER TABLE remote_customers ADD COLUMN bare_pass INTEGER NOT NULL DEFAULT 0;

-- When times that the ledger had noted were found to lie in the future, because the
-- clock had been ahead: requests without an answer may be younger than they say.
ALTER TABLE ledger ADD COLUMN clock_back_at TEXT;
