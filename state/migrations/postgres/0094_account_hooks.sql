-- +goose Up
-- The token in the address of an account's webhooks, behind the policy of all tables of accounts. accounts has no policy,
-- so it keeps only the token's hash, by which a node finds the account of a delivery.
CREATE TABLE account_hooks (
  account account_id NOT NULL PRIMARY KEY,
  token   TEXT COLLATE "C" NOT NULL CHECK (length(token) >= 26),
  FOREIGN KEY (account) REFERENCES accounts (account_id)
);
INSERT INTO account_hooks (account, token) SELECT account_id, hook_token FROM accounts;
ALTER TABLE account_hooks ENABLE ROW LEVEL SECURITY;
ALTER TABLE account_hooks FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON account_hooks USING (account = (SELECT current_setting('payersync.account')::bigint));
ALTER TABLE accounts ADD COLUMN hook_hash TEXT COLLATE "C" NOT NULL DEFAULT '';
UPDATE accounts SET hook_hash = encode(sha256(convert_to(hook_token, 'UTF8')), 'hex');
ALTER TABLE accounts ALTER COLUMN hook_hash DROP DEFAULT;
ALTER TABLE accounts ADD CONSTRAINT accounts_hook_hash_key UNIQUE (hook_hash);
ALTER TABLE accounts ADD CONSTRAINT accounts_hook_hash_check CHECK (length(hook_hash) = 64);
ALTER TABLE accounts DROP COLUMN hook_token;
-- A program that reads accounts.hook_token does not start on these tables any more.
CREATE OR REPLACE FUNCTION oldest_schema() RETURNS bigint IMMUTABLE PARALLEL SAFE LANGUAGE sql AS 'SELECT 94::bigint';
