package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"payersync/connector"
	"payersync/connector/accounting/sqltable/sqltabletest"
	"payersync/connector/sandbox"
	"payersync/internal/longtest"
)

// handmade are homemade tables. Customer 10 of 12 is inactive, 7 is a supplier.
func handmade() []string {
	statements := []string{
		`CREATE TABLE customers (id INTEGER NOT NULL PRIMARY KEY, customer_no VARCHAR(20) NOT NULL UNIQUE, company VARCHAR(80), contact VARCHAR(80), street VARCHAR(80), postcode VARCHAR(10), city VARCHAR(40),
			country VARCHAR(2), phone VARCHAR(30), email VARCHAR(80), active BOOLEAN NOT NULL, is_supplier BOOLEAN NOT NULL, iban VARCHAR(34), updated_at TIMESTAMP NULL)`,
		`CREATE TABLE invoices (id INTEGER NOT NULL PRIMARY KEY, customer_id INTEGER, amount DECIMAL(8,2))`,
		`CREATE TABLE empty_customers (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(80), email VARCHAR(80), street VARCHAR(80), city VARCHAR(80))`,
		`INSERT INTO invoices VALUES (1, 1, 10.00)`,
	}
	for i := 1; i <= 12; i++ {
		flag := map[bool]string{true: "TRUE", false: "FALSE"}
		statements = append(statements,
			fmt.Sprintf(`INSERT INTO customers VALUES (%[1]d, 'K-%[1]d', 'Baker %[1]d Ltd', 'Ann Oak %[1]d', '%[1]d Quay Street', 'LS1 4AP', 'Leeds', 'GB', '0113 496 01%02[1]d', 'b%[1]d@baker%[1]d.example', %[2]s, %[3]s,
			'DE89370400440532013000', '2026-11-01 10:00:00')`, i, flag[i != 10], flag[i == 7]))
	}
	return statements
}

// german are another person's tables: a composite key, words for a status, and no unique column.
var german = []string{
	`CREATE TABLE kunden (mandant INTEGER NOT NULL, nummer INTEGER NOT NULL, firma VARCHAR(80), anschrift VARCHAR(80), plz VARCHAR(10), ort VARCHAR(40), mail VARCHAR(80), status VARCHAR(20), PRIMARY KEY (mandant, nummer))`,
	`CREATE TABLE kunden_notizen (id INTEGER NOT NULL PRIMARY KEY, kunde INTEGER, name VARCHAR(80))`,
	`INSERT INTO kunden VALUES (1, 100, 'Bäckerei Grün', 'Am Markt 1', '50667', 'Köln', 'a@gruen.example', 'aktiv'), (1, 101, 'Gasthof Weiß', 'Am Markt 2', '50667', 'Köln', 'b@weiss.example', 'gesperrt'),
		(2, 100, 'Elektro Müller', 'Am Markt 3', '01067', 'Dresden', 'c@mueller.example', 'aktiv'), (2, 101, 'Garage Süd', 'Am Markt 4', '01067', 'Dresden', NULL, 'aktiv')`,
}

// addressOf writes the address of a database into a private file.
func (w *world) addressOf(d sqltabletest.Database) string {
	w.t.Helper()
	text := "sqlite:" + d.Name
	if d.Driver != "sqlite" {
		text = fmt.Sprintf("%s://%s:%s@127.0.0.1:%d/%s", d.Driver, sqltabletest.Admin, sqltabletest.Password, d.Port, d.Name)
	}
	w.write("books.dsn", text+"\n")
	if err := os.Chmod(w.path("books.dsn"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return w.path("books.dsn")
}

// with runs a command with another configuration than the world's.
func (w *world) with(config string, args ...string) result {
	w.t.Helper()
	p := w.process(args...)
	p.configure(config)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errOut
	if err := p.begin(); err != nil {
		w.t.Fatal(err)
	}
	return p.wait()
}

// engine is a kind of database for accounting systems.
type engine struct {
	driver string // as the configuration of a source names it
	open   func(testing.TB) sqltabletest.Database
}

var (
	sqlite   = engine{"sqlite", sqltabletest.SQLite}
	postgres = engine{"postgres", sqltabletest.Postgres.Database}
	mysql    = engine{"mysql", sqltabletest.MariaDB.Database}
)

// From a database to its customers nobody opens an editor, and nobody sees a password.
func TestADatabaseGoesFromInitToCustomers(t *testing.T) {
	for _, tt := range []struct {
		name       string
		statements []string
		on         []engine
		creates    int
		says       []string // what init says
		holds      []string // what the mapping, the query and the configuration hold
		customers  []string // what the service has in the end
	}{
		{"made at home", handmade(), []engine{sqlite, postgres, mysql}, 10,
			[]string{"customers", "empty_customers", "iban 100% [not shown]",
				"The customers are in customers, by its name and columns.", `"id" identifies a customer: it is the primary key`,
				"updated_at holds the time of the last edit"},
			[]string{"include: active && not is_supplier", "number: trim(customer_no)", `query_file: "customers.sql"`,
				`id: ["id"]`, `updated_at: "updated_at"`, "-- Not read: iban."},
			[]string{"Baker 1 Ltd", "+441134960101", `"number":"K-12"`}},
		{"made in German", german, []engine{sqlite, postgres, mysql}, 3,
			[]string{`"mandant" and "nummer" identify a customer together: it is the primary key`},
			[]string{`include: lower(trim(status)) == "aktiv"`, `id: ["mandant", "nummer"]`},
			[]string{"Elektro Müller", "2|100"}},
		{"of Odoo", sqltabletest.Odoo, []engine{postgres}, 2,
			[]string{"These are the tables of Odoo", "The mapping for --source sql-odoo fits this database."},
			[]string{"include: customer_rank > 0 && active", `query_file: "odoo.sql"`, `active: "active"`},
			[]string{"Northwind Bakery Ltd", "accounts@northwind.example", "9 Ledger Road", "Bäckerei Grün", "+491711234567"}},
		{"of Dolibarr", sqltabletest.Dolibarr, []engine{mysql, postgres}, 2,
			[]string{"These are the tables of Dolibarr"},
			[]string{"include: client in [1, 3] && active", "FROM llx_societe s", "region: FR "},
			[]string{"Boulangerie Petit", "+33320000012", "Garage Noel", "CU2601-00004"}},
		{"of Dolibarr with its own prefix", renamed(sqltabletest.Dolibarr, "llx_", "erp_"), []engine{mysql}, 2,
			[]string{"These are the tables of Dolibarr"}, []string{"FROM erp_societe s"}, []string{"Garage Noel"}},
		{"of ERPNext", sqltabletest.ERPNext, []engine{mysql}, 3,
			[]string{"These are the tables of ERPNext"}, []string{"include: active", "`tabDynamic Link`"},
			[]string{"Saltmarsh Bakery Ltd", "Maureen Tideswell", "2 Loom Street", "ann@oak.example"}},
	} {
		for _, on := range tt.on {
			t.Run(tt.name+" in "+on.driver, func(t *testing.T) {
				d := on.open(t)
				w := newWorld(t, nil, func(o *sandbox.Options) { o.ClientSecret = connector.NewSecret("sandbox-secret") })
				d.Execute(t, tt.statements...)
				dir := w.path("books")
				r := w.run("init", "--source", "sql", "--dsn-file", w.addressOf(d), "--name", "Harbour Books", "--ask", "everybody",
					dir)
				said := strings.Join(strings.Fields(r.out+r.errOut), " ")
				if r.code != exitDone || w.box.Writes() != 0 || strings.Contains(said, sqltabletest.Password) {
					t.Fatalf("init ended with %d and %d writes:\n%s%s", r.code, w.box.Writes(), r.out, r.errOut)
				}
				for _, want := range append(tt.says, "Taken for granted", fmt.Sprintf("%d customers would be created", tt.creates),
					"0 on hold") {
					if !strings.Contains(said, want) {
						t.Errorf("it does not say %q:\n%s%s", want, r.out, r.errOut)
					}
				}
				w.expectFiles(dir, d.Driver, tt.holds)
				config := w.pointed(dir)
				if r := w.with(config, "mapping", "check"); r.code != exitDone {
					t.Errorf("mapping check ended with %d:\n%s%s", r.code, r.out, r.errOut)
				}
				if r := w.with(config, "plan"); r.code != exitDone || !strings.Contains(r.out, fmt.Sprint(tt.creates)) ||
					w.box.Writes() != 0 {
					t.Errorf("plan ended with %d:\n%s%s", r.code, r.out, r.errOut)
				}
				if r := w.with(config, "backfill", "--yes"); r.code != exitDone {
					t.Fatalf("backfill ended with %d:\n%s%s", r.code, r.out, r.errOut)
				}
				found := ""
				for _, c := range w.box.Customers() {
					found += string(c.Raw) + "\n"
				}
				if n := len(w.box.Customers()); n != tt.creates {
					t.Errorf("the service has %d customers, want %d:\n%s", n, tt.creates, found)
				}
				for _, want := range tt.customers {
					if !strings.Contains(found, want) {
						t.Errorf("no customer has %q:\n%s", want, found)
					}
				}
			})
		}
	}
}

// renamed replaces a text in statements.
func renamed(statements []string, old, new string) (out []string) {
	for _, s := range statements {
		out = append(out, strings.ReplaceAll(s, old, new))
	}
	return out
}

// expectFiles checks init's files for texts, and for a misplaced password.
func (w *world) expectFiles(dir, driver string, want []string) {
	w.t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	whole := ""
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			w.t.Fatal(err)
		}
		info, err := e.Info()
		if err != nil {
			w.t.Fatal(err)
		}
		if e.Name() == passwordFile {
			if driver == "sqlite" || strings.TrimSpace(string(data)) != sqltabletest.Password || info.Mode().Perm() != 0o600 {
				w.t.Errorf("%s of %s has mode %v", e.Name(), driver, info.Mode())
			}
			continue
		}
		if strings.Contains(string(data), sqltabletest.Password) {
			w.t.Errorf("%s holds the password", e.Name())
		}
		whole += string(data)
	}
	if driver != "sqlite" {
		want = append(want, `password: "file:books.password"`)
	}
	for _, text := range want {
		if !strings.Contains(whole, text) {
			w.t.Errorf("no file holds %q:\n%s", text, whole)
		}
	}
}

// A person names the database, types its password unseen, and chooses among the tables.
func TestAPersonAnswersTheQuestionsOfInitForADatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	d := sqltabletest.Postgres.Database(t)
	d.Execute(t, handmade()...)
	d.Execute(t, "CREATE VIEW v_customers AS SELECT id, customer_no, company, email FROM customers WHERE active")
	p := w.at(nil, "init", "--source", "sql", w.path("books"))
	p.askedOf("Which database?")
	p.types(fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s\r", sqltabletest.Admin, d.Port, d.Name))
	eventually(t, "a terminal that does not show what is typed", func() bool {
		modes, err := unix.IoctlGetTermios(int(p.keys.Fd()), unix.TCGETS)
		return err == nil && modes.Lflag&unix.ECHO == 0 &&
			strings.Contains(p.out.String(), "Password of bookkeeper (it is not shown)") || p.over()
	})
	p.types(sqltabletest.Password + "\r")
	p.askedOf("Which table contains the customers?")
	p.types("2\r")
	p.askedOf("Which column is the customer's number")
	p.types("\r")
	p.askedOf("Which company's customers are these?")
	p.types("Harbour Books\r")
	p.askedOf("Which payers do you ask to sign a direct debit mandate?")
	p.types("\r")
	if r := p.wait(); r.code != exitDone || strings.Contains(r.out, sqltabletest.Password) {
		t.Fatalf("it ended with %d:\n%s", r.code, r.out)
	}
	p.sees("  1  customers (table, rows: 12)", "  2  v_customers (view, rows: 11)", "Proposed for harbour-books",
		"  11 customers would be created")
	if said := strings.Join(strings.Fields(p.out.String()), " "); !strings.Contains(said,
		"id: nothing in the database keeps customer_no unique. Rows with the same value wait for a person.") {
		t.Errorf("it does not say that a view has no key:\n%s", said)
	}
	query, err := os.ReadFile(w.path("books/customers.sql"))
	if err != nil || !strings.Contains(string(query), `FROM "v_customers"`) ||
		!strings.HasPrefix(string(query), "-- The customers in v_customers.") {
		t.Errorf("the query is, %v:\n%s", err, query)
	}
}

// An address file readable by others, and any problem of a database, is refused with the next step, and
// writes nothing.
func TestInitSaysWhyADatabaseCannotBeSetUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const canary = "canary-of-a-password"
	written := 0
	dsn := func(text string) string {
		written++
		name := fmt.Sprintf("dsn%d", written)
		w.write(name, text)
		if err := os.Chmod(w.path(name), 0o600); err != nil {
			t.Fatal(err)
		}
		return w.path(name)
	}
	tables := func(statements ...string) string {
		d := sqltabletest.SQLite(t)
		d.Execute(t, append([]string{"CREATE TABLE misc (id INTEGER)"}, statements...)...)
		return d.Name
	}
	empty := sqltabletest.SQLite(t)
	empty.Execute(t, "CREATE TABLE gone (id INTEGER)", "DROP TABLE gone")
	twins := tables("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, email TEXT)",
		"CREATE TABLE kunden (id INTEGER PRIMARY KEY, name TEXT, email TEXT)",
		"INSERT INTO customers VALUES (1, 'Ann', 'a@a.example')", "INSERT INTO kunden VALUES (1, 'Ann', 'a@a.example')")
	keyless := tables("CREATE TABLE customers (name TEXT, city TEXT, email TEXT)",
		"INSERT INTO customers VALUES ('Ann', 'Leeds', 'a@a.example'), ('Ann', 'York', 'a@a.example')",
		"CREATE TABLE kunden (id INTEGER PRIMARY KEY, name TEXT)")
	broken := tables("CREATE TABLE gone (id INTEGER, name TEXT)", "CREATE VIEW customers AS SELECT id, name FROM gone",
		"DROP TABLE gone")
	w.write("open.dsn", "postgres://u:"+canary+"@127.0.0.1:1/d")
	if err := os.Chmod(w.path("open.dsn"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "--source sql needs to know the database, and standard input is no terminal", nil},
		{exitUsage, "there is no such file", []string{"--dsn-file", w.path("absent")}},
		{exitUsage, "other users of this machine may read it (mode 0644). Run: chmod 600",
			[]string{"--dsn-file", w.path("open.dsn")}},
		{exitUsage, "it begins with no kind of database that is known; write postgres://",
			[]string{"--dsn-file", dsn("oracle://u:" + canary + "@h/d")}},
		{exitUsage, "it cannot be read as an address",
			[]string{"--dsn-file", dsn("postgres://u:" + canary + "%zz@h/database")}},
		{exitUsage, "it names no database", []string{"--dsn-file", dsn("postgres://u:" + canary + "@host")}},
		{exitUsage, "it names no user", []string{"--dsn-file", dsn("mysql://127.0.0.1/database")}},
		{exitUsage, "its sslmode is none that payersync has",
			[]string{"--dsn-file", dsn("postgres://u:" + canary + "@host/d?sslmode=prefer")}},
		{exitUsage, `it sets "options", which payersync does not know`,
			[]string{"--dsn-file", dsn("postgres://u:" + canary + "@host/d?options=-c")}},
		{exitFailed, "cannot read d: there was no answer from 127.0.0.1 port 1; check host, port and tls, and that it runs",
			[]string{"--dsn-file", dsn("postgres://u:" + canary + "@127.0.0.1:1/d")}},
		{exitFailed, "there is no such file; put the database there",
			[]string{"--dsn-file", dsn("sqlite:" + w.path("absent.sqlite"))}},
		{exitUsage, "shows no table to this user", []string{"--dsn-file", empty.Name}},
		{exitUsage, "no table of books.sqlite looks like customers: none with rows has a column for names. It has misc (0). Add --table NAME", []string{"--dsn-file", tables()}},
		{exitUsage, "several tables of books.sqlite may contain the customers: customers (1), kunden (1). Add --table NAME",
			[]string{"--dsn-file", twins}},
		{exitUsage, `shows no table "clients" to this user; it has customers (1), kunden (1)`,
			[]string{"--dsn-file", twins, "--table", "clients"}},
		{exitUsage, "customers has no key, and no column of it identifies a customer for ever:",
			[]string{"--dsn-file", keyless, "--table", "Customers"}},
		{exitUsage, "kunden holds no row; choose another table", []string{"--dsn-file", keyless, "--table", "kunden"}},
		{exitUsage, "--id number: customers has no such column; its columns are name, city, email",
			[]string{"--dsn-file", keyless, "--table", "customers", "--id", "number"}},
		{exitUsage, "cannot read customers: ", []string{"--dsn-file", broken, "--table", "customers"}},
		{exitUsage, `there is no --preset "sage"; it is one of odoo, dolibarr, erpnext, gnucash, ledgersmb`,
			[]string{"--dsn-file", twins, "--preset", "sage"}},
		{exitUsage, "is no database of Odoo, or this user may not see its tables: res_partner is not there",
			[]string{"--dsn-file", twins, "--preset", "odoo"}},
		{exitUsage, "does not name the company of its customers",
			[]string{"--dsn-file", twins, "--table", "kunden", "--yes"}},
	} {
		r := w.run(append(append([]string{"init", "--source", "sql"}, tt.args...), w.path("new"))...)
		if r.code != tt.code || !strings.Contains(r.errOut, tt.want) || strings.Contains(r.out+r.errOut, canary) ||
			exists(w.path("new")) {
			t.Errorf("%v ended with %d, want %d and %q:\n%s", tt.args, r.code, tt.code, tt.want, r.errOut)
		}
	}
	for _, args := range [][]string{{"--table", "customers"}, {"--preset", "odoo", "--source", "xero"},
		{"--dsn-file", twins, "--csv", w.path("a.csv")}} {
		if r := w.run(append([]string{"init", w.path("new")}, args...)...); r.code != exitUsage ||
			!strings.Contains(r.errOut, "are for a database; add --source sql") {
			t.Errorf("%v ended with %d:\n%s", args, r.code, r.errOut)
		}
	}
}

// An unreadable table is shown, and stops no other.
func TestInitSkipsATableThatTheUserMayNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	d := sqltabletest.Postgres.Database(t)
	reader := "reader_of_init_" + d.Name
	d.Execute(t, handmade()...)
	d.Execute(t, "CREATE TABLE kunden (id INTEGER PRIMARY KEY, name VARCHAR(80), email VARCHAR(80))",
		"CREATE USER "+reader+" PASSWORD '"+sqltabletest.Password+"'", "GRANT SELECT ON customers TO "+reader)
	file := w.addressOf(d)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), sqltabletest.Admin, reader, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := w.run("init", "--source", "sql", "--dsn-file", file, "--name", "Harbour", "--output", "json", w.path("books"))
	var got dataReport
	if err := json.Unmarshal([]byte(r.out), &got); r.code != exitDone || err != nil {
		t.Fatalf("it ended with %d, %v:\n%s%s", r.code, err, r.out, r.errOut)
	}
	unread := map[string]string{}
	for _, table := range got.Database.Tables {
		unread[table.Name] = table.Unreadable
	}
	if got.Database.Table != "customers" || got.Plan.Creates != 10 || unread["kunden"] != "this user may not read it" ||
		unread["customers"] != "" || got.File != nil {
		t.Errorf("it says %+v", got)
	}
	if r := w.run("init", "--source", "sql", "--dsn-file", file, "--name", "Harbour", "--table", "kunden",
		w.path("other")); r.code != exitUsage ||
		!strings.Contains(r.errOut, "cannot read kunden: this user may not read it; let the user of the database read it") {
		t.Errorf("it ended with %d:\n%s", r.code, r.errOut)
	}
}

// Odd rows are named by their id.
func TestInitNamesOddRowsOfATableByTheirID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	d := sqltabletest.SQLite(t)
	d.Execute(t, handmade()...)
	d.Execute(t, "UPDATE customers SET company = 'Nordbank Sparkasse' WHERE id = 3",
		"UPDATE customers SET email = 'B1@baker1.example' WHERE id = 5")
	r := w.expect(exitDone, "init", "--source", "sql", "--dsn-file", d.Name, "--name", "Harbour", w.path("books"))
	for _, want := range []string{"id 3: its name is that of a bank", "id 5: it has the same e-mail address as id 1"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("it does not say %q:\n%s", want, r.out)
		}
	}
}

// A large table is counted whole, and only its first rows are planned.
func TestInitPlansAPartOfALargeTableAndCountsAll(t *testing.T) {
	longtest.Story(t, longtest.LargeFile)
	t.Parallel()
	w := newWorld(t, nil)
	d := sqltabletest.SQLite(t)
	d.Execute(t, "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, email TEXT, active INTEGER)",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000) INSERT INTO customers SELECT i, 'Baker ' || i, 'b' || i || '@baker.example', i % 10 > 0 FROM n")
	r := w.expect(exitDone, "init", "--source", "sql", "--dsn-file", d.Name, "--name", "Harbour", "--ask", "everybody",
		w.path("books"))
	said := strings.Join(strings.Fields(r.out), " ")
	for _, want := range []string{"A plan of its first 5000 rows", "4500 customers would be created",
		"All 6000 rows, without a plan: 5400 customers, 5400 of them to be asked for a mandate; 600 excluded, 0 on hold"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, r.out)
		}
	}
	if query, err := os.ReadFile(w.path("books/customers.sql")); err != nil || strings.Contains(string(query), "LIMIT") {
		t.Errorf("the query is of a part, %v:\n%s", err, query)
	}
}
