-- Third parties of a Dolibarr database, one row each. Make a database user for payersync who may
-- SELECT from llx_societe and llx_c_country and do nothing else.
--
--   source: {kind: sql, driver: mysql, database: dolibarr, user: payersync, password: env:BOOKS_PASSWORD,
--            query_file: dolibarr.sql, id: [id], active: active, updated_at: updated_at}
--
-- client is 1 for a customer, 2 for a prospect and 3 for both. entity is the company of a
-- database with several: add a WHERE on s.entity if only one of them is meant.
SELECT
    s.rowid       AS id,
    s.code_client,
    s.nom         AS name,
    s.name_alias,
    s.status      AS active,
    s.client,
    s.fournisseur AS supplier,
    s.email,
    s.phone,
    s.address,
    s.zip,
    s.town,
    c.code        AS country,
    s.default_lang,
    s.tms         AS updated_at
FROM llx_societe s
LEFT JOIN llx_c_country c ON c.rowid = s.fk_pays
ORDER BY s.rowid
