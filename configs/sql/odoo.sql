-- Customers of an Odoo database (PostgreSQL), one row for each partner that belongs to no other
-- partner. Make a role for payersync that may SELECT from res_partner and res_country and do
-- nothing else.
--
--   source: {kind: sql, driver: postgres, database: mycompany, user: payersync, password: env:BOOKS_PASSWORD,
--            query_file: odoo.sql, id: [id], active: active, updated_at: write_date}
--
-- The invoice address is the oldest active one of the partner. mobile is read in a way that gives
-- nothing where Odoo has no such column any more. The companies of one database share this list:
-- add a WHERE on p.company_id if only one of them is meant.
SELECT
    p.id,
    p.ref,
    p.name,
    p.active,
    p.is_company,
    p.customer_rank,
    p.supplier_rank,
    p.lang,
    invoice.name            AS invoice_name,
    COALESCE(NULLIF(TRIM(invoice.email), ''), p.email) AS email,
    COALESCE(NULLIF(TRIM(invoice.phone), ''), p.phone) AS phone,
    to_jsonb(p) ->> 'mobile' AS mobile,
    billed.street,
    billed.street2,
    billed.zip,
    billed.city,
    country.code            AS country,
    p.write_date
FROM res_partner p
LEFT JOIN res_partner invoice ON invoice.id = (
    SELECT child.id FROM res_partner child
    WHERE child.parent_id = p.id AND child.type = 'invoice' AND child.active
    ORDER BY child.id LIMIT 1
)
JOIN res_partner billed ON billed.id = CASE WHEN TRIM(invoice.street) <> '' THEN invoice.id ELSE p.id END
LEFT JOIN res_country country ON country.id = billed.country_id
WHERE p.parent_id IS NULL
ORDER BY p.id
