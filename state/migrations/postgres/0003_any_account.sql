-- +goose Up
-- Which account a session is of is asked by a query of its own, once. The planner knew the account before: of one that came
-- after the last count of a table it took for granted that it has no row there, for which one index is as good as
-- another, and read all that the account has for each record of a page. Now each account is to it as large as all are.
-- +goose StatementBegin
DO $$
DECLARE t regclass;
BEGIN
  FOR t IN SELECT polrelid FROM pg_policy JOIN pg_class c ON c.oid = polrelid WHERE polname = 'own' AND relnamespace = 'main'::regnamespace LOOP
    EXECUTE format('ALTER POLICY own ON %s USING (account = (SELECT current_setting(''payersync.account'')::bigint))', t);
  END LOOP;
END $$;
-- +goose StatementEnd
