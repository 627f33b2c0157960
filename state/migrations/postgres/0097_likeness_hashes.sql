-- +goose Up
-- A payer's traits are found by 8 bytes of their keyed hash: 61 bits of it, and the kind in the low 3 (0 name, 1 e-mail
-- address, 2 to 4 the name with an e-mail address, a phone or a postcode). The payer keeps its hashes, in order, as a
-- JSON array: its rows need no second index. The ids of payers are given by the program. indexed_to is the highest id
-- of which the traits are in the index: a plan adds those of many new payers at once, in the order of the hashes.
ALTER TABLE payers ADD COLUMN payer_id BIGINT NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN indexed_to BIGINT NOT NULL DEFAULT 0;
-- The owner of the tables changes the rows of every account.
ALTER TABLE ledger NO FORCE ROW LEVEL SECURITY;
ALTER TABLE payers NO FORCE ROW LEVEL SECURITY;
ALTER TABLE likenesses NO FORCE ROW LEVEL SECURITY;
DROP INDEX likenesses_record;
DROP INDEX payers_unlearnt;
ALTER TABLE likenesses RENAME TO earlier_likenesses;
ALTER INDEX likenesses_pkey RENAME TO earlier_likenesses_pkey;
ALTER TABLE earlier_likenesses ADD COLUMN hash BIGINT;
UPDATE earlier_likenesses SET hash = ('x' || substr(value, 1, 16))::bit(64)::bigint & ~7::bigint |
  CASE kind WHEN 'name' THEN 0 WHEN 'email' THEN 1 WHEN 'name email' THEN 2 WHEN 'name phone' THEN 3 ELSE 4 END;
CREATE INDEX earlier_likenesses_record ON earlier_likenesses (account, connection, source_id, hash);
UPDATE payers SET payer_id = n.payer_id, likeness = CASE likeness WHEN '' THEN '' ELSE (SELECT '[' || coalesce(string_agg(h.hash::text, ',' ORDER BY h.hash), '') || ']' FROM (
  SELECT DISTINCT o.hash FROM earlier_likenesses o WHERE o.account = payers.account AND o.connection = payers.connection AND o.source_id = payers.source_id) h) END
  FROM (SELECT account, connection, source_id, row_number() OVER (PARTITION BY account ORDER BY connection, source_id) AS payer_id FROM payers) n
  WHERE n.account = payers.account AND n.connection = payers.connection AND n.source_id = payers.source_id;
CREATE UNIQUE INDEX payers_id ON payers (account, payer_id);
-- The payer's likenesses, see above; '' before they are known.
CREATE INDEX payers_unlearnt ON payers (account, connection, source_id) WHERE likeness = '' AND billing_id IS NOT NULL AND applied IS NOT NULL;
CREATE TABLE likenesses (
  account  account_id NOT NULL,
  hash     BIGINT NOT NULL,
  payer_id BIGINT NOT NULL,
  PRIMARY KEY (account, hash, payer_id)
);
INSERT INTO likenesses (account, hash, payer_id) SELECT DISTINCT o.account, o.hash, p.payer_id
  FROM earlier_likenesses o JOIN payers p ON p.account = o.account AND p.connection = o.connection AND p.source_id = o.source_id WHERE p.likeness <> '';
DROP TABLE earlier_likenesses;
UPDATE ledger SET indexed_to = (SELECT coalesce(max(p.payer_id), 0) FROM payers p WHERE p.account = ledger.account);
ALTER TABLE ledger FORCE ROW LEVEL SECURITY;
ALTER TABLE payers FORCE ROW LEVEL SECURITY;
ALTER TABLE likenesses ENABLE ROW LEVEL SECURITY;
ALTER TABLE likenesses FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON likenesses USING (account = (SELECT current_setting('payersync.account')::bigint));
-- A program that reads likenesses.kind does not start on these tables any more.
CREATE OR REPLACE FUNCTION oldest_schema() RETURNS bigint IMMUTABLE PARALLEL SAFE LANGUAGE sql AS 'SELECT 97::bigint';
