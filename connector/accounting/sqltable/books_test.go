package sqltable_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector/accounting/sqltable"
	"payersync/connector/accounting/sqltable/sqltabletest"
)

// The folder of the shipped queries.
const shipped = "../../../configs/sql/"

// gnuCashBook is a book as GnuCash 4.13 makes it, as far as customers go.
func gnuCashBook(t testing.TB) (*sql.DB, sqltable.Config) {
	t.Helper()
	db, c := sqliteBook(t)
	for _, statement := range []string{
		`CREATE TABLE gnclock (Hostname varchar(255), PID int)`,
		`CREATE TABLE versions (table_name text(50) PRIMARY KEY NOT NULL, table_version integer NOT NULL)`,
		`CREATE TABLE books (guid text(32) PRIMARY KEY NOT NULL, root_account_guid text(32) NOT NULL, root_template_guid text(32) NOT NULL)`,
		`CREATE TABLE commodities (guid text(32) PRIMARY KEY NOT NULL, namespace text(2048) NOT NULL, mnemonic text(2048) NOT NULL)`,
		`CREATE TABLE customers (guid text(32) PRIMARY KEY NOT NULL, name text(2048) NOT NULL, id text(2048) NOT NULL, notes text(2048) NOT NULL,
			active integer NOT NULL, discount_num bigint NOT NULL, discount_denom bigint NOT NULL, credit_num bigint NOT NULL, credit_denom bigint NOT NULL,
			currency text(32) NOT NULL, tax_override integer NOT NULL, addr_name text(1024), addr_addr1 text(1024), addr_addr2 text(1024), addr_addr3 text(1024),
			addr_addr4 text(1024), addr_phone text(128), addr_fax text(128), addr_email text(256), shipaddr_name text(1024), shipaddr_addr1 text(1024),
			shipaddr_addr2 text(1024), shipaddr_addr3 text(1024), shipaddr_addr4 text(1024), shipaddr_phone text(128), shipaddr_fax text(128),
			shipaddr_email text(256), terms text(32), tax_included integer, taxtable text(32))`,
		`INSERT INTO versions VALUES ('Gnucash', 4000013), ('Gnucash-Resave', 19920), ('customers', 2)`,
		`INSERT INTO books VALUES ('b00c', 'r', 't')`,
		`INSERT INTO commodities VALUES ('eur', 'CURRENCY', 'EUR')`,
		`INSERT INTO customers VALUES ('c1', 'Saltmarsh Bakery Ltd', '000001', '', 1, 0, 1, 0, 1, 'gbp', 0, 'Maureen Tideswell', '12 Quayside', 'Whitby', 'YO21 3CK', '',
			'01632 960123', '', 'accounts@saltmarsh.example', '', '', '', '', '', '', '', '', NULL, 0, NULL)`,
		`INSERT INTO customers VALUES ('c2', 'Old Mill', '000002', 'moved', 0, 0, 1, 0, 1, 'eur', 0, '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', NULL, 0, NULL)`,
	} {
		execute(t, db, statement)
	}
	c.Preset, c.QueryFile = "gnucash", shipped+"gnucash.sql"
	return db, c
}

func TestGnuCashBookIsReadWhileItIsOpenInGnuCash(t *testing.T) {
	db, c := gnuCashBook(t)
	execute(t, db, `INSERT INTO gnclock VALUES ('desk', 4711)`)
	execute(t, db, `UPDATE customers SET notes = 'edited before it was saved' WHERE guid = 'c1'`)
	s := source(t, c)
	info, err := s.Describe(t.Context())
	if err != nil || info.Tenant != "b00c" || !info.Snapshot {
		t.Errorf("described as %+v, error %v", info, err)
	}
	want := []string{
		`c1 active {"guid":"c1","number":"000001","name":"Saltmarsh Bakery Ltd","notes":"edited before it was saved","active":1,"currency":null,"addr_name":"Maureen Tideswell",` +
			`"addr_addr1":"12 Quayside","addr_addr2":"Whitby","addr_addr3":"YO21 3CK","addr_addr4":"","addr_phone":"01632 960123","addr_email":"accounts@saltmarsh.example"}`,
		`c2 archived {"guid":"c2","number":"000002","name":"Old Mill","notes":"moved","active":0,"currency":"EUR","addr_name":"",` +
			`"addr_addr1":"","addr_addr2":"","addr_addr3":"","addr_addr4":"","addr_phone":"","addr_email":""}`,
	}
	if diff := cmp.Diff(want, summary(read(t, s, time.Time{}))); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestGnuCashBookOfAnUnknownVersionIsRefused(t *testing.T) {
	tests := []struct{ change, want string }{
		{`UPDATE versions SET table_version = 3 WHERE table_name = 'customers'`, "layout 3, and 2 is known"},
		{`UPDATE versions SET table_version = 6000001 WHERE table_name = 'Gnucash'`, "version 6 of GnuCash"},
		{`UPDATE versions SET table_version = 2006001 WHERE table_name = 'Gnucash'`, "version 2 of GnuCash"},
		{`DELETE FROM versions`, "version 0 of GnuCash"},
		{`DROP TABLE versions`, "it is none of GnuCash (SQL logic error: no such table: versions (1)); name the book"},
	}
	for _, tt := range tests {
		db, c := gnuCashBook(t)
		execute(t, db, tt.change)
		if _, err := tryRead(t.Context(), source(t, c), time.Time{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v", tt.change, err)
		}
	}
}

// ledgerSMBTables are the tables of LedgerSMB 1.6 that the query reads.
const ledgerSMBTables = `
CREATE TABLE country (id serial PRIMARY KEY, name text NOT NULL, short_name text NOT NULL, itu text);
CREATE TABLE entity (id serial UNIQUE, name text, entity_class integer NOT NULL, created date NOT NULL DEFAULT current_date, control_code text, country_id int NOT NULL);
CREATE TABLE company (id serial UNIQUE, entity_id integer NOT NULL, legal_name text, tax_id text, sales_tax_id text, license_number text, sic_code varchar, created date DEFAULT current_date NOT NULL);
CREATE TABLE person (id serial PRIMARY KEY, entity_id integer NOT NULL, salutation_id integer, first_name text NOT NULL, middle_name text, last_name text NOT NULL, created date NOT NULL DEFAULT current_date);
CREATE TABLE entity_credit_account (id serial NOT NULL UNIQUE, entity_id int NOT NULL, entity_class int NOT NULL, pay_to_name text, creditlimit numeric DEFAULT 0,
	meta_number varchar(32), language_code varchar(6), curr char(3), startdate date DEFAULT CURRENT_DATE, enddate date, bank_account int);
CREATE TABLE eca_to_contact (credit_id integer NOT NULL, contact_class_id integer NOT NULL, contact text NOT NULL, description text, PRIMARY KEY (credit_id, contact_class_id, contact));
CREATE TABLE location (id serial PRIMARY KEY, line_one text NOT NULL, line_two text, line_three text, city text NOT NULL, state text, country_id integer NOT NULL, mail_code text,
	created date NOT NULL DEFAULT now(), inactive_date timestamp, active boolean NOT NULL DEFAULT TRUE);
CREATE TABLE eca_to_location (location_id integer NOT NULL, location_class integer NOT NULL, credit_id integer NOT NULL, PRIMARY KEY (location_id, credit_id, location_class));
INSERT INTO country VALUES (1, 'United Kingdom', 'GB', '44');
INSERT INTO entity VALUES (10, 'Saltmarsh', 2, '2026-01-01', 'A-1', 1), (11, 'Ann Weaver', 2, '2026-01-01', 'A-2', 1), (12, 'A vendor', 1, '2026-01-01', 'A-3', 1);
INSERT INTO company VALUES (1, 10, 'Saltmarsh Bakery Ltd', 'GB000000000', 'S1');
INSERT INTO person VALUES (1, 11, NULL, 'Ann', NULL, 'Weaver');
INSERT INTO entity_credit_account (id, entity_id, entity_class, meta_number, curr, startdate, enddate) VALUES
	(100, 10, 2, 'SALT01', 'GBP', '2026-01-01', NULL), (101, 10, 2, 'SALT02', 'EUR', '2026-01-01', '2026-02-01'), (102, 11, 2, 'WEAV01', 'GBP', '2026-01-01', '2999-01-01'),
	(103, 12, 1, 'VEND01', 'GBP', '2026-01-01', NULL);
INSERT INTO eca_to_contact VALUES (100, 12, 'sales@saltmarsh.example'), (100, 12, 'accounts@saltmarsh.example'), (100, 15, 'bills@saltmarsh.example'), (100, 1, '01632 960123'), (102, 3, '07700 900123');
INSERT INTO location VALUES (1, 'Ship to here', NULL, NULL, 'Hull', NULL, 1, 'HU1'), (2, '12 Quayside', 'Unit 4', NULL, 'Whitby', 'North Yorkshire', 1, 'YO21 3CK'), (3, 'Closed', NULL, NULL, 'York', NULL, 1, 'YO1');
UPDATE location SET active = FALSE WHERE id = 3;
INSERT INTO eca_to_location VALUES (1, 3, 100), (2, 1, 100), (3, 1, 102);`

func TestLedgerSMBCustomersAreRead(t *testing.T) {
	db, c := postgres.database(t)
	execute(t, db, ledgerSMBTables)
	c.QueryFile, c.ID, c.Active = shipped+"ledgersmb.sql", []string{"id"}, "active"
	got := map[string]string{}
	for _, r := range read(t, source(t, c), time.Time{}) {
		got[r.SourceID] = string(r.State) + " " + string(r.Data)
	}
	want := map[string]string{
		"100": `active {"id":"100","number":"SALT01","name":"Saltmarsh Bakery Ltd","first_name":null,"last_name":null,"active":true,"startdate":"2026-01-01","enddate":null,` +
			`"currency":"GBP","tax_id":"GB000000000","sales_tax_id":"S1","billing_email":"bills@saltmarsh.example","email":"accounts@saltmarsh.example","phone":"01632 960123","cell_phone":null,` +
			`"line_one":"12 Quayside","line_two":"Unit 4","line_three":null,"city":"Whitby","state":"North Yorkshire","mail_code":"YO21 3CK","country":"GB"}`,
		"101": `archived {"id":"101","number":"SALT02","name":"Saltmarsh Bakery Ltd","first_name":null,"last_name":null,"active":false,"startdate":"2026-01-01","enddate":"2026-02-01",` +
			`"currency":"EUR","tax_id":"GB000000000","sales_tax_id":"S1","billing_email":null,"email":null,"phone":null,"cell_phone":null,` +
			`"line_one":null,"line_two":null,"line_three":null,"city":null,"state":null,"mail_code":null,"country":null}`,
		"102": `active {"id":"102","number":"WEAV01","name":"Ann Weaver","first_name":"Ann","last_name":"Weaver","active":true,"startdate":"2026-01-01","enddate":"2999-01-01",` +
			`"currency":"GBP","tax_id":null,"sales_tax_id":null,"billing_email":null,"email":null,"phone":null,"cell_phone":"07700 900123",` +
			`"line_one":null,"line_two":null,"line_three":null,"city":null,"state":null,"mail_code":null,"country":null}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// recordsOf reads what a shipped query gives of a program's tables.
func recordsOf(t *testing.T, db *sql.DB, c sqltable.Config, query, updated string,
	statements []string) map[string]string {
	t.Helper()
	for _, statement := range statements {
		execute(t, db, statement)
	}
	c.QueryFile, c.ID, c.Active, c.UpdatedAt = shipped+query, []string{"id"}, "active", updated
	got := map[string]string{}
	for _, r := range read(t, source(t, c), time.Time{}) {
		if r.UpdatedAt.IsZero() {
			t.Errorf("%s has no time of its last edit", r.SourceID)
		}
		got[r.SourceID] = string(r.State) + " " + string(r.Data)
	}
	return got
}

func TestOdooPartnersAreRead(t *testing.T) {
	for name, change := range map[string]string{"with mobile numbers": "SELECT 1",
		"without, as newer versions": "ALTER TABLE res_partner DROP COLUMN mobile"} {
		t.Run(name, func(t *testing.T) {
			db, c := postgres.database(t)
			got := recordsOf(t, db, c, "odoo.sql", "write_date", append(sqltabletest.Odoo, change))
			mobile := `"0171 1234567"`
			if strings.HasPrefix(change, "ALTER") {
				mobile = "null"
			}
			want := map[string]string{
				"7": `active {"id":"7","ref":"C0001","name":"Northwind Bakery Ltd","active":true,"is_company":true,"customer_rank":3,"supplier_rank":0,"lang":"en_GB","invoice_name":"Accounts",` +
					`"email":"Accounts@Northwind.example","phone":"0113 496 0123","mobile":null,"street":"9 Ledger Road","street2":null,"zip":"LS9 9AA","city":"Leeds","country":"GB","write_date":"2026-11-19T17:05:44.123"}`,
				"14": `active {"id":"14","ref":"C0003","name":"Bäckerei Grün","active":true,"is_company":true,"customer_rank":1,"supplier_rank":1,"lang":"de_DE","invoice_name":null,` +
					`"email":"info@gruen.example","phone":null,"mobile":` + mobile +
					`,"street":"Hauptstraße 2","street2":null,"zip":"50667","city":"Köln","country":"DE","write_date":"2026-11-19T00:00:00"}`,
			}
			for id, record := range want {
				if diff := cmp.Diff(record, got[id]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", id, diff)
				}
			}
			if len(got) != 6 || !strings.HasPrefix(got["9"], "archived ") || got["11"] != "" {
				t.Errorf("there are %v", got)
			}
		})
	}
}

func TestDolibarrThirdPartiesAreRead(t *testing.T) {
	for name, d := range map[string]*daemon{"MariaDB": &maria, "PostgreSQL": &postgres} {
		t.Run(name, func(t *testing.T) {
			db, c := d.database(t)
			got := recordsOf(t, db, c, "dolibarr.sql", "updated_at", sqltabletest.Dolibarr)
			zone := map[bool]string{true: "Z"}[d == &maria]
			want := `active {"id":"1","code_client":"CU2601-00001","name":"Boulangerie Petit","name_alias":"Chez Petit","active":1,"client":1,"supplier":0,"email":"compta@petit.example","phone":"03 20 00 00 12",` +
				`"address":"12 rue Haute","zip":"59000","town":"Lille","country":"FR","default_lang":"fr_FR","updated_at":"2026-11-19T10:00:00` + zone + `"}`
			if diff := cmp.Diff(want, got["1"]); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			if len(got) != 5 || !strings.HasPrefix(got["5"], "archived ") || !strings.Contains(got["3"], `"client":2`) {
				t.Errorf("there are %v", got)
			}
		})
	}
}

func TestERPNextCustomersAreRead(t *testing.T) {
	db, c := maria.database(t)
	got := recordsOf(t, db, c, "erpnext.sql", "modified", sqltabletest.ERPNext)
	want := map[string]string{
		"CUST-1": `active {"id":"CUST-1","customer_name":"Saltmarsh Bakery Ltd","customer_type":"Company","active":1,"language":"en","first_name":"Maureen","last_name":"Tideswell","email":"accounts@saltmarsh.example",` +
			`"phone":"07700 900456","address_line1":"12 Quayside","address_line2":"Unit 4","city":"Whitby","pincode":"YO21 3CK","country":"United Kingdom","modified":"2026-11-19T10:00:00.123456"}`,
		"CUST-2": `active {"id":"CUST-2","customer_name":"Weaver & Co","customer_type":"Company","active":1,"language":"en","first_name":"Will","last_name":"Weaver","email":"will@weaver.example",` +
			`"phone":"0113 496 0123","address_line1":"2 Loom Street","address_line2":null,"city":"Leeds","pincode":"LS1 4AP","country":"United Kingdom","modified":"2026-11-19T00:00:00"}`,
		"CUST-3": `archived {"id":"CUST-3","customer_name":"Old Mill","customer_type":"Company","active":0,"language":"en","first_name":null,"last_name":null,"email":"old@mill.example",` +
			`"phone":null,"address_line1":null,"address_line2":null,"city":null,"pincode":null,"country":null,"modified":"2026-11-19T00:00:00"}`,
		"CUST-4": `active {"id":"CUST-4","customer_name":"Ann Oak","customer_type":"Individual","active":1,"language":null,"first_name":null,"last_name":null,"email":"ann@oak.example",` +
			`"phone":"07700 900123","address_line1":null,"address_line2":null,"city":null,"pincode":null,"country":null,"modified":"2026-11-19T00:00:00"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}
