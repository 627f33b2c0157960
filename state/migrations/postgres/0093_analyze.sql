-- +goose Up
-- The role of nodes need not own the tables, and only their owner may count their rows.
-- +goose StatementBegin
CREATE FUNCTION analyze_table(t regclass) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (SELECT relnamespace FROM pg_class WHERE oid = t) = 'main'::regnamespace THEN
    EXECUTE format('ANALYZE (SKIP_LOCKED) %s', t);
  END IF;
END $$;
-- +goose StatementEnd
