-- Customers of a GnuCash book, one row each. The book must be saved as SQLite or
-- in PostgreSQL (File, Save As); the default format is XML and no database.
--
--   source: {kind: sql, driver: sqlite, path: book.gnucash, preset: gnucash, query_file: gnucash.sql}
--
-- GnuCash keeps an address in four free lines. Its currency is often written
-- nowhere else in the book, so that its row may be missing.
SELECT
    c.guid,
    c.id          AS number,
    c.name,
    c.notes,
    c.active,
    k.mnemonic    AS currency,
    c.addr_name,
    c.addr_addr1,
    c.addr_addr2,
    c.addr_addr3,
    c.addr_addr4,
    c.addr_phone,
    c.addr_email
FROM customers c
LEFT JOIN commodities k ON k.guid = c.currency
