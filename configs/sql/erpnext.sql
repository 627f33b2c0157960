-- Customers of an ERPNext site (MariaDB), one row each. Make a database user for payersync who may
-- SELECT from the tables below and do nothing else.
--
--   source: {kind: sql, driver: mysql, database: _site, user: payersync, password: env:BOOKS_PASSWORD,
--            query_file: erpnext.sql, id: [id], active: active, updated_at: modified}
--
-- The address is the customer's primary one. Without it, the customer's linked addresses are tried:
-- an address for billing first, then a preferred one. Contacts are tried in the same way.
SELECT
    c.name            AS id,
    c.customer_name,
    c.customer_type,
    CASE c.disabled WHEN 0 THEN 1 WHEN 1 THEN 0 END AS active,
    c.language,
    p.first_name,
    p.last_name,
    COALESCE(NULLIF(p.email_id, ''), NULLIF(c.email_id, ''), a.email_id) AS email,
    COALESCE(NULLIF(p.phone, ''), NULLIF(p.mobile_no, ''), NULLIF(c.mobile_no, ''), a.phone) AS phone,
    a.address_line1,
    a.address_line2,
    a.city,
    a.pincode,
    a.country,
    c.modified
FROM `tabCustomer` c
LEFT JOIN `tabAddress` a ON a.name = COALESCE(NULLIF(c.customer_primary_address, ''), (
    SELECT near.name FROM `tabDynamic Link` l JOIN `tabAddress` near ON near.name = l.parent
    WHERE l.parenttype = 'Address' AND l.link_doctype = 'Customer' AND l.link_name = c.name AND near.disabled = 0
    ORDER BY CASE near.address_type WHEN 'Billing' THEN 0 ELSE 1 END, near.is_primary_address DESC, near.name LIMIT 1
))
LEFT JOIN `tabContact` p ON p.name = COALESCE(NULLIF(c.customer_primary_contact, ''), (
    SELECT near.name FROM `tabDynamic Link` l JOIN `tabContact` near ON near.name = l.parent
    WHERE l.parenttype = 'Contact' AND l.link_doctype = 'Customer' AND l.link_name = c.name
    ORDER BY near.is_primary_contact DESC, near.name LIMIT 1
))
ORDER BY c.name
