package sqltable_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"payersync/connector"
	"payersync/connector/accounting/sqltable"
)

// engines are the databases that the tests of tables run on.
func engines(t *testing.T, test func(t *testing.T, db *sql.DB, c sqltable.Config)) {
	t.Helper()
	for name, open := range map[string]func(testing.TB) (*sql.DB, sqltable.Config){
		"SQLite": sqliteBook, "PostgreSQL": postgres.database, "MariaDB": maria.database,
	} {
		t.Run(name, func(t *testing.T) {
			db, c := open(t)
			test(t, db, c)
		})
	}
}

// tablesOf lists the tables by name, counted.
func tablesOf(t *testing.T, c sqltable.Config) map[string]sqltable.Table {
	t.Helper()
	list, err := sqltable.Tables(t.Context(), c)
	if err == nil {
		err = sqltable.Count(t.Context(), c, list)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]sqltable.Table{}
	for _, table := range list {
		out[table.Name] = table
	}
	return out
}

func TestTablesAreListedWithTheirColumnsKeysAndRows(t *testing.T) {
	engines(t, func(t *testing.T, db *sql.DB, c sqltable.Config) {
		for _, statement := range []string{
			"CREATE TABLE customers (id INTEGER NOT NULL PRIMARY KEY, code VARCHAR(20) NOT NULL UNIQUE, card VARCHAR(20) UNIQUE, name VARCHAR(80))",
			"CREATE TABLE parts (shop INTEGER NOT NULL, no INTEGER NOT NULL, name VARCHAR(80), PRIMARY KEY (shop, no))",
			"CREATE TABLE loose (name VARCHAR(80))",
			"CREATE VIEW everybody AS SELECT id, name FROM customers",
			"INSERT INTO customers VALUES (1, 'K1', NULL, 'Ann'), (2, 'K2', NULL, 'Bob'), (3, 'K3', 'C', 'Cy')",
		} {
			execute(t, db, statement)
		}
		want := map[string]sqltable.Table{
			"customers": {Name: "customers", Columns: []string{"id", "code", "card", "name"}, Keys: [][]string{{"id"}, {"code"}},
				Primary: true, Rows: 3},
			"parts": {Name: "parts", Columns: []string{"shop", "no", "name"}, Keys: [][]string{{"shop", "no"}},
				Primary: true},
			"loose":     {Name: "loose", Columns: []string{"name"}},
			"everybody": {Name: "everybody", View: true, Columns: []string{"id", "name"}, Rows: 3},
		}
		if diff := cmp.Diff(want, tablesOf(t, c), cmpopts.IgnoreUnexported(sqltable.Table{})); diff != "" {
			t.Errorf("tables (-want +got):\n%s", diff)
		}
	})
}

func TestAnEmptyDatabaseHasNoTables(t *testing.T) {
	engines(t, func(t *testing.T, db *sql.DB, c sqltable.Config) {
		execute(t, db, "CREATE TABLE gone (id INTEGER)")
		execute(t, db, "DROP TABLE gone")
		if tables := tablesOf(t, c); len(tables) > 0 {
			t.Errorf("there are %v", tables)
		}
	})
}

// A table without read permission, and a view without its table, stop no other.
func TestTablesThatCannotBeReadSayWhy(t *testing.T) {
	for name, d := range map[string]*daemon{"PostgreSQL": &postgres, "MariaDB": &maria} {
		t.Run(name, func(t *testing.T) {
			db, c := d.database(t)
			reader, at := "reader_of_"+c.Database, ""
			if d == &maria {
				at = "@'127.0.0.1'"
			}
			for _, statement := range []string{
				"CREATE TABLE customers (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(80), iban VARCHAR(40))",
				"INSERT INTO customers VALUES (1, 'Ann', 'x')",
				"CREATE TABLE salaries (id INTEGER NOT NULL PRIMARY KEY, amount INTEGER)",
				map[bool]string{true: fmt.Sprintf("CREATE USER %s%s IDENTIFIED BY '%s'", reader, at, password),
					false: fmt.Sprintf("CREATE USER %s PASSWORD '%s'", reader, password)}[d == &maria],
				fmt.Sprintf("GRANT SELECT (id, name) ON customers TO %s%s", reader, at),
				fmt.Sprintf("GRANT INSERT ON salaries TO %s%s", reader, at),
			} {
				execute(t, db, statement)
			}
			c.User = reader
			got := tablesOf(t, c)
			if got["salaries"].Unreadable != "this user may not read it" {
				t.Errorf("salaries are %+v", got["salaries"])
			}
			if diff := cmp.Diff(sqltable.Table{Name: "customers", Columns: []string{"id", "name"}, Keys: [][]string{{"id"}},
				Primary: true, Rows: 1},
				got["customers"], cmpopts.IgnoreUnexported(sqltable.Table{})); diff != "" {
				t.Errorf("customers (-want +got):\n%s", diff)
			}
			query, err := sqltable.Select(t.Context(), c, got["customers"], nil)
			c.Query = query
			sample, lookErr := sqltable.ReadSample(t.Context(), c)
			if err != nil || lookErr != nil || len(sample.Rows) != 1 || strings.Join(sample.Columns, " ") != "id name" {
				t.Errorf("%s gives %+v, errors %v, %v", query, sample, err, lookErr)
			}
		})
	}
}

func TestAViewWithoutItsTableStopsNoOther(t *testing.T) {
	for name, open := range map[string]func(testing.TB) (*sql.DB, sqltable.Config){"SQLite": sqliteBook,
		"MariaDB": maria.database} { // PostgreSQL lets no table go that a view needs
		t.Run(name, func(t *testing.T) {
			db, c := open(t)
			for _, statement := range []string{"CREATE TABLE gone (id INTEGER)", "CREATE VIEW broken AS SELECT id FROM gone",
				"DROP TABLE gone", "CREATE TABLE customers (id INTEGER)"} {
				execute(t, db, statement)
			}
			if got := tablesOf(t, c); got["broken"].Name != "" && got["broken"].Unreadable == "" ||
				got["customers"].Name == "" || got["customers"].Unreadable != "" { // MariaDB lists no such view
				t.Errorf("there are %+v", got)
			}
		})
	}
}

func TestALargeTableIsNotCountedToItsEnd(t *testing.T) {
	db, c := postgres.database(t)
	execute(t, db, "CREATE TABLE customers (id INTEGER PRIMARY KEY)")
	execute(t, db, "INSERT INTO customers SELECT generate_series(1, 150000)")
	if got := tablesOf(t, c)["customers"]; got.Rows != 100_000 || !got.Estimated {
		t.Errorf("without an estimate it is %+v", got)
	}
	execute(t, db, "ANALYZE customers")
	if got := tablesOf(t, c)["customers"]; got.Rows != 150_000 || !got.Estimated {
		t.Errorf("with an estimate it is %+v", got)
	}
}

// The query reads as texts what a mapping's functions take for texts only.
func TestSelectReadsNumbersAndFlagsAsTexts(t *testing.T) {
	engines(t, func(t *testing.T, db *sql.DB, c sqltable.Config) {
		bytes, bit := map[string]string{"sqlite": "BLOB", "postgres": "BYTEA", "mysql": "BLOB"}[c.Driver], "BIT(1)"
		execute(t, db, "CREATE TABLE customers (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(80), active BOOLEAN, marked "+bit+", credit DECIMAL(8,2), since DATE, photo "+bytes+")")
		one := map[string]string{"sqlite": "1", "postgres": "B'1'", "mysql": "b'1'"}[c.Driver]
		execute(t, db, "INSERT INTO customers VALUES (2, 'Bob', FALSE, NULL, NULL, NULL, NULL), (1, 'Ann', TRUE, "+one+", 12.5, '2026-01-02', NULL)")
		table := tablesOf(t, c)["customers"]
		query, err := sqltable.Select(t.Context(), c, table, func(column string) bool { return column != "credit" })
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(query, "ORDER BY") || strings.Contains(query, "photo") || strings.Contains(query, "credit") {
			t.Errorf("the query is %s", query)
		}
		c.Query = query
		got, err := sqltable.ReadSample(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		yes, no := "1", "0"
		if c.Driver == "postgres" {
			yes, no = "true", "false"
		}
		want := &sqltable.Sample{Columns: []string{"id", "name", "active", "marked", "since"},
			Rows: [][]string{{"1", "Ann", yes, "1", "2026-01-02"}, {"2", "Bob", no, "", ""}}}
		if diff := cmp.Diff(want, got, cmpopts.SortSlices(func(a, b []string) bool { return a[0] < b[0] })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
		c.ID = []string{"id"}
		info, err := source(t, c).Describe(t.Context())
		for _, f := range info.Fields {
			if f.Type != connector.TypeText {
				t.Errorf("%s is declared as %s", f.Name, f.Type)
			}
		}
		if err != nil || len(info.Fields) != 5 {
			t.Errorf("described as %+v, error %v", info, err)
		}
	})
}

func TestADatabaseThatIsNotThereIsNamed(t *testing.T) {
	for _, c := range []sqltable.Config{
		{Driver: "postgres", Port: 1, Database: "d", User: "u", Password: connector.NewSecret("canary")},
		{Driver: "mysql", Port: 1, Database: "d", User: "u", Password: connector.NewSecret("canary")},
	} {
		_, err := sqltable.Tables(t.Context(), c)
		if err == nil || !strings.Contains(err.Error(), "there was no answer from 127.0.0.1 port 1") ||
			strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: error %v", c.Driver, err)
		}
	}
}
