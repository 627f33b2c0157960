-- +goose Up
-- What nodes ask of all accounts at once, so that none has to be open for it. due_at is when the first waiting delivery is due:
-- '' for at once, NULL where none waits. look_at is when a node opens the account next to look what is the matter, NULL for
-- never, and touched_at when what nodes go by was changed last. settled is the version whose schedules and addresses are in force: pages_host is the
-- host of its pages and stop_path the path below which payers stop letters. written_at is when the ledger was written to,
-- to 10 seconds; summary is what the look at looked_at found, without personal values, and needs whether somebody should look.
ALTER TABLE accounts ADD COLUMN due_at TEXT COLLATE "C";
ALTER TABLE accounts ADD COLUMN look_at TEXT COLLATE "C" DEFAULT '';
ALTER TABLE accounts ADD COLUMN touched_at TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE accounts ADD COLUMN settled BIGINT NOT NULL DEFAULT 0;
ALTER TABLE accounts ADD COLUMN pages_host TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE accounts ADD COLUMN stop_path TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE accounts ADD COLUMN written_at TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE accounts ADD COLUMN looked_at TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE accounts ADD COLUMN summary TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE accounts ADD COLUMN needs BIGINT NOT NULL DEFAULT 0 CHECK (needs IN (0, 1));
CREATE INDEX accounts_due ON accounts (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX accounts_look ON accounts (look_at) WHERE look_at IS NOT NULL;
CREATE INDEX accounts_touched ON accounts (touched_at);
CREATE INDEX accounts_needs ON accounts (account_id) WHERE needs = 1;
CREATE INDEX inbox_due ON inbox (account, coalesce(next_attempt, '')) WHERE state IN ('received', 'parked');

-- The owner of the tables sees the rows of every account.
ALTER TABLE inbox NO FORCE ROW LEVEL SECURITY;
UPDATE accounts SET due_at = d.due_at
FROM (SELECT account, min(coalesce(next_attempt, '')) AS due_at FROM inbox WHERE state IN ('received', 'parked') GROUP BY account) d WHERE d.account = account_id;
ALTER TABLE inbox FORCE ROW LEVEL SECURITY;

-- Deliveries and due_at change in one transaction: no node that is lost leaves a delivery unseen.
-- +goose StatementBegin
CREATE FUNCTION note_due_deliveries() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE accounts SET due_at = d.due_at
  FROM (SELECT min(coalesce(next_attempt, '')) AS due_at FROM inbox
        WHERE account = (SELECT current_setting('payersync.account')::bigint) AND state IN ('received', 'parked')) d
  WHERE account_id = (SELECT current_setting('payersync.account')::bigint) AND accounts.due_at IS DISTINCT FROM d.due_at;
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER note_due_deliveries AFTER INSERT OR UPDATE OF state, next_attempt OR DELETE ON inbox FOR EACH STATEMENT EXECUTE FUNCTION note_due_deliveries();
