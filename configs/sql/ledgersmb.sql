-- Customers of a LedgerSMB company, one row for each credit account. Make a
-- PostgreSQL role for payersync that may SELECT from the tables below and do
-- nothing else.
--
--   source: {kind: sql, driver: postgres, database: mycompany, user: payersync, password: env:BOOKS_PASSWORD,
--            query_file: ledgersmb.sql, id: [id], active: active}
--
-- A customer may have several contacts of a class: the one that comes first in
-- the alphabet is taken, and an address for billing before any other.
SELECT
    eca.id,
    eca.meta_number                                        AS number,
    COALESCE(company.legal_name, concat_ws(' ', person.first_name, person.last_name), entity.name) AS name,
    person.first_name,
    person.last_name,
    eca.enddate IS NULL OR eca.enddate >= CURRENT_DATE     AS active,
    eca.startdate,
    eca.enddate,
    trim(eca.curr)                                         AS currency,
    company.tax_id,
    company.sales_tax_id,
    contact.billing_email,
    contact.email,
    contact.phone,
    contact.cell_phone,
    place.line_one,
    place.line_two,
    place.line_three,
    place.city,
    place.state,
    place.mail_code,
    place.country
FROM entity_credit_account eca
JOIN entity ON entity.id = eca.entity_id
LEFT JOIN company ON company.entity_id = entity.id
LEFT JOIN person ON person.entity_id = entity.id
LEFT JOIN (
    SELECT
        credit_id,
        min(contact) FILTER (WHERE contact_class_id = 15) AS billing_email,
        min(contact) FILTER (WHERE contact_class_id = 12) AS email,
        min(contact) FILTER (WHERE contact_class_id = 1)  AS phone,
        min(contact) FILTER (WHERE contact_class_id = 3)  AS cell_phone
    FROM eca_to_contact
    GROUP BY credit_id
) AS contact ON contact.credit_id = eca.id
LEFT JOIN (
    SELECT DISTINCT ON (link.credit_id)
        link.credit_id, l.line_one, l.line_two, l.line_three, l.city, l.state, l.mail_code, country.short_name AS country
    FROM eca_to_location link
    JOIN location l ON l.id = link.location_id
    LEFT JOIN country ON country.id = l.country_id
    WHERE l.active
    ORDER BY link.credit_id, link.location_class, l.id
) AS place ON place.credit_id = eca.id
WHERE eca.entity_class = 2
