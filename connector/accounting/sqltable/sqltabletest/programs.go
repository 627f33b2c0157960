package sqltabletest

// The tables of programs, as far as customers go, with invented rows.

// Odoo are tables of Odoo 17 in PostgreSQL. Partner 8 is a supplier, 9 is archived, 10 a lead, 11
// and 12 belong to partner 7, and 13 was never invoiced.
var Odoo = []string{
	`CREATE TABLE ir_module_module (id serial PRIMARY KEY, name varchar NOT NULL, state varchar)`,
	`CREATE TABLE res_country (id serial PRIMARY KEY, code varchar(2), name jsonb NOT NULL)`,
	`CREATE TABLE res_company (id serial PRIMARY KEY, name varchar NOT NULL, partner_id integer NOT NULL)`,
	`CREATE TABLE res_partner (id serial PRIMARY KEY, company_id integer, create_date timestamp, name varchar, parent_id integer, ref varchar, lang varchar, tz varchar, user_id integer, vat varchar,
		website varchar, comment text, active boolean, type varchar, street varchar, street2 varchar, zip varchar, city varchar, state_id integer, country_id integer, email varchar, phone varchar,
		mobile varchar, is_company boolean, color integer, partner_share boolean, commercial_partner_id integer, write_date timestamp, customer_rank integer NOT NULL DEFAULT 0, supplier_rank integer NOT NULL DEFAULT 0)`,
	`INSERT INTO ir_module_module (name, state) VALUES ('account', 'installed')`,
	`INSERT INTO res_country VALUES (231, 'GB', '{"en_US": "United Kingdom"}'), (57, 'DE', '{"en_US": "Germany"}')`,
	`INSERT INTO res_partner (id, name, parent_id, ref, lang, active, type, street, street2, zip, city, country_id, email, phone, mobile, is_company, write_date, customer_rank, supplier_rank) VALUES
		(7, 'Northwind Bakery Ltd', NULL, 'C0001', 'en_GB', TRUE, 'contact', '1 Quay Street', 'Unit 4', 'LS1 4AP', 'Leeds', 231, 'sales@northwind.example', '0113 496 0123', NULL, TRUE, '2026-11-19 17:05:44.123', 3, 0),
		(8, 'Flour and Sons', NULL, NULL, 'en_GB', TRUE, 'contact', '2 Mill Lane', NULL, 'LS2', 'Leeds', 231, 'a@flour.example', NULL, NULL, TRUE, '2026-11-19', 0, 4),
		(9, 'Old Mill', NULL, 'C0002', 'en_GB', FALSE, 'contact', '3 High Street', NULL, 'YO1', 'York', 231, 'old@mill.example', NULL, NULL, TRUE, '2026-11-19', 1, 0),
		(10, 'A lead', NULL, NULL, NULL, TRUE, 'contact', NULL, NULL, NULL, NULL, NULL, 'lead@lead.example', NULL, NULL, FALSE, '2026-11-19', 0, 0),
		(11, 'Accounts', 7, NULL, 'en_GB', TRUE, 'invoice', '9 Ledger Road', NULL, 'LS9 9AA', 'Leeds', 231, 'Accounts@Northwind.example', NULL, NULL, FALSE, '2026-11-19', 0, 0),
		(12, 'Bob Baker', 7, NULL, 'en_GB', TRUE, 'contact', NULL, NULL, NULL, NULL, 231, 'bob@northwind.example', NULL, NULL, FALSE, '2026-11-19', 1, 0),
		(13, 'Never invoiced', NULL, NULL, 'de_DE', TRUE, 'contact', 'Am Markt 1', NULL, '50667', 'Köln', 57, 'n@never.example', NULL, '0221 4710123', TRUE, '2026-11-19', 0, 0),
		(14, 'Bäckerei Grün', NULL, 'C0003', 'de_DE', TRUE, 'contact', 'Hauptstraße 2', NULL, '50667', 'Köln', 57, 'info@gruen.example', NULL, '0171 1234567', TRUE, '2026-11-19', 1, 1)`,
}

// Dolibarr are tables of Dolibarr 19. Third party 2 is a supplier, 3 a prospect, 4 customer and
// prospect, and 5 is closed.
var Dolibarr = []string{
	`CREATE TABLE llx_const (rowid integer PRIMARY KEY, name varchar(180) NOT NULL, value text NOT NULL)`,
	`CREATE TABLE llx_c_country (rowid integer NOT NULL PRIMARY KEY, code varchar(2) NOT NULL, label varchar(128) NOT NULL)`,
	`CREATE TABLE llx_societe (rowid integer NOT NULL PRIMARY KEY, nom varchar(128), name_alias varchar(128), entity integer DEFAULT 1 NOT NULL, ref_ext varchar(255), parent integer,
		status smallint DEFAULT 1, code_client varchar(24), code_fournisseur varchar(24), address varchar(255), zip varchar(25), town varchar(50), fk_pays integer DEFAULT 0, phone varchar(30), fax varchar(30),
		url varchar(255), email varchar(128), tva_intra varchar(20), client smallint DEFAULT 0, fournisseur smallint DEFAULT 0, mode_reglement smallint, default_lang varchar(6), tms timestamp NULL, datec timestamp NULL)`,
	`INSERT INTO llx_c_country VALUES (1, 'FR', 'France'), (2, 'BE', 'Belgique')`,
	`INSERT INTO llx_societe (rowid, nom, name_alias, status, code_client, address, zip, town, fk_pays, phone, email, client, fournisseur, default_lang, tms) VALUES
		(1, 'Boulangerie Petit', 'Chez Petit', 1, 'CU2601-00001', '12 rue Haute', '59000', 'Lille', 1, '03 20 00 00 12', 'compta@petit.example', 1, 0, 'fr_FR', '2026-11-19 10:00:00'),
		(2, 'Farine SARL', '', 1, NULL, '1 rue Basse', '59000', 'Lille', 1, NULL, 'a@farine.example', 0, 1, 'fr_FR', '2026-11-19 10:00:00'),
		(3, 'Un prospect', NULL, 1, NULL, NULL, NULL, NULL, 0, NULL, 'p@prospect.example', 2, 0, NULL, '2026-11-19 10:00:00'),
		(4, 'Garage Noel', NULL, 1, 'CU2601-00004', '3 place Verte', '1000', 'Bruxelles', 2, '+32 2 555 12 12', 'g@noel.example', 3, 1, 'fr_BE', '2026-11-19 10:00:00'),
		(5, 'Café fermé', NULL, 0, 'CU2601-00005', '4 rue', '59000', 'Lille', 1, NULL, 'c@ferme.example', 1, 0, 'fr_FR', '2026-11-19 10:00:00')`,
}

// ERPNext are tables of ERPNext 15 in MariaDB. CUST-1 has a primary address and contact, CUST-2
// linked ones, CUST-3 is disabled, and CUST-4 has none.
var ERPNext = []string{
	"CREATE TABLE `tabCustomer` (name varchar(140) NOT NULL PRIMARY KEY, creation datetime(6), modified datetime(6), docstatus int NOT NULL DEFAULT 0, customer_name varchar(140), customer_type varchar(140), customer_group varchar(140), territory varchar(140), " +
		"lead_name varchar(140), disabled int NOT NULL DEFAULT 0, language varchar(140), tax_id varchar(140), default_currency varchar(140), customer_primary_address varchar(140), customer_primary_contact varchar(140), primary_address text, mobile_no varchar(140), email_id varchar(140))",
	"CREATE TABLE `tabAddress` (name varchar(140) NOT NULL PRIMARY KEY, address_title varchar(140), address_type varchar(140), address_line1 varchar(240), address_line2 varchar(240), city varchar(140), county varchar(140), state varchar(140), country varchar(140), " +
		"pincode varchar(140), email_id varchar(140), phone varchar(140), is_primary_address int NOT NULL DEFAULT 0, is_shipping_address int NOT NULL DEFAULT 0, disabled int NOT NULL DEFAULT 0)",
	"CREATE TABLE `tabContact` (name varchar(140) NOT NULL PRIMARY KEY, first_name varchar(140), last_name varchar(140), email_id varchar(140), phone varchar(140), mobile_no varchar(140), is_primary_contact int NOT NULL DEFAULT 0)",
	"CREATE TABLE `tabDynamic Link` (name varchar(140) NOT NULL PRIMARY KEY, parent varchar(140), parenttype varchar(140), parentfield varchar(140), idx int, link_doctype varchar(140), link_name varchar(140), link_title varchar(140))",
	"CREATE TABLE `tabLead` (name varchar(140) NOT NULL PRIMARY KEY, lead_name varchar(140), email_id varchar(140), status varchar(140))",
	"INSERT INTO `tabCustomer` (name, modified, customer_name, customer_type, disabled, language, customer_primary_address, customer_primary_contact, mobile_no, email_id) VALUES " +
		"('CUST-1', '2026-11-19 10:00:00.123456', 'Saltmarsh Bakery Ltd', 'Company', 0, 'en', 'Saltmarsh-Billing', 'Maureen-Saltmarsh', '', ''), ('CUST-2', '2026-11-19', 'Weaver & Co', 'Company', 0, 'en', NULL, NULL, NULL, NULL), " +
		"('CUST-3', '2026-11-19', 'Old Mill', 'Company', 1, 'en', NULL, NULL, NULL, 'old@mill.example'), ('CUST-4', '2026-11-19', 'Ann Oak', 'Individual', 0, NULL, NULL, NULL, '07700 900123', 'ann@oak.example')",
	"INSERT INTO `tabAddress` VALUES ('Saltmarsh-Billing', 'Saltmarsh', 'Office', '12 Quayside', 'Unit 4', 'Whitby', NULL, NULL, 'United Kingdom', 'YO21 3CK', NULL, '01947 600123', 0, 0, 0), " +
		"('Weaver-Shipping', 'Weaver', 'Shipping', '1 Dock Road', NULL, 'Hull', NULL, NULL, 'United Kingdom', 'HU1 1AA', NULL, NULL, 0, 1, 0), ('Weaver-Billing', 'Weaver', 'Billing', '2 Loom Street', NULL, 'Leeds', NULL, NULL, 'United Kingdom', 'LS1 4AP', 'bills@weaver.example', '0113 496 0123', 0, 0, 0), " +
		"('Weaver-Closed', 'Weaver', 'Billing', '3 Closed Street', NULL, 'Leeds', NULL, NULL, 'United Kingdom', 'LS1', NULL, NULL, 1, 0, 1)",
	"INSERT INTO `tabContact` VALUES ('Maureen-Saltmarsh', 'Maureen', 'Tideswell', 'accounts@saltmarsh.example', '', '07700 900456', 1), ('Will-Weaver', 'Will', 'Weaver', 'will@weaver.example', NULL, NULL, 0)",
	"INSERT INTO `tabDynamic Link` (name, parent, parenttype, link_doctype, link_name) VALUES ('l1', 'Weaver-Shipping', 'Address', 'Customer', 'CUST-2'), ('l2', 'Weaver-Billing', 'Address', 'Customer', 'CUST-2'), ('l3', 'Weaver-Closed', 'Address', 'Customer', 'CUST-2'), " +
		"('l4', 'Will-Weaver', 'Contact', 'Customer', 'CUST-2'), ('l5', 'Saltmarsh-Billing', 'Address', 'Customer', 'CUST-1'), ('l6', 'Will-Weaver', 'Contact', 'Supplier', 'CUST-4')",
}
