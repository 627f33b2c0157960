package sqltable_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/accounting/sqltable"
)

func source(t testing.TB, c sqltable.Config) *sqltable.Source {
	t.Helper()
	s, err := sqltable.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func tryRead(ctx context.Context, s *sqltable.Source, since time.Time) (out []connector.Record, err error) {
	for page, err := range s.Customers(ctx, since) {
		if err != nil {
			return out, err
		}
		out = append(out, page.Records...)
	}
	return out, nil
}

func read(t testing.TB, s *sqltable.Source, since time.Time) []connector.Record {
	t.Helper()
	out, err := tryRead(t.Context(), s, since)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// summary returns the records as lines: id, state, data or problem.
func summary(records []connector.Record) []string {
	out := []string{}
	for _, r := range records {
		what := string(r.Data)
		if r.Problem != "" {
			what = r.Problem
		}
		out = append(out, fmt.Sprintf("%s %s %s", r.SourceID, r.State, what))
	}
	return out
}

func TestConfigurationErrorsNameTheKey(t *testing.T) {
	t.Parallel()
	file := sqltable.Config{Driver: "sqlite", Path: "book.sqlite", Table: "customers", ID: []string{"id"}}
	server := sqltable.Config{Driver: "postgres", Database: "books", User: "u", Table: "customers", ID: []string{"id"}}
	tests := []struct {
		want   string
		base   sqltable.Config
		change func(c *sqltable.Config)
	}{
		{"driver", file, func(c *sqltable.Config) { c.Driver = "oracle" }},
		{"preset", file, func(c *sqltable.Config) { c.Preset = "sage" }},
		{"path is missing", file, func(c *sqltable.Config) { c.Path = "" }},
		{"host", file, func(c *sqltable.Config) { c.Host = "books.example" }},
		{"time_zone", file, func(c *sqltable.Config) { c.TimeZone = "Europe/London" }},
		{"path is for", server, func(c *sqltable.Config) { c.Path = "book.sqlite" }},
		{"database", server, func(c *sqltable.Config) { c.Database = "" }},
		{"user", server, func(c *sqltable.Config) { c.User = "" }},
		{"tls", server, func(c *sqltable.Config) { c.TLS = "maybe" }},
		{"ca_file", server, func(c *sqltable.Config) { c.TLS, c.CAFile = "off", "ca.pem" }},
		{"time_zone", server, func(c *sqltable.Config) { c.TimeZone = "Mars" }},
		{"one of table, query and query_file; 0", server, func(c *sqltable.Config) { c.Table = "" }},
		{"one of table, query and query_file; 2", server, func(c *sqltable.Config) { c.Query = "SELECT 1" }},
		{"id is missing", server, func(c *sqltable.Config) { c.ID = nil }},
		{"entry of id", server, func(c *sqltable.Config) { c.ID = []string{""} }},
		{"incremental needs updated_at", server, func(c *sqltable.Config) { c.Incremental = true }},
	}
	for _, tt := range tests {
		c := tt.base
		tt.change(&c)
		if _, err := sqltable.New(c); err == nil || !strings.HasPrefix(err.Error(), "sql source: ") ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v", tt.want, err)
		}
	}
}

// covers F48, F54
func TestRowsWithoutAnIDOfTheirOwnStopNobodyElse(t *testing.T) {
	for name, open := range everyDatabase() {
		t.Run(name, func(t *testing.T) {
			db, c := open(t)
			execute(t, db, "CREATE TABLE customers (code VARCHAR(20), name VARCHAR(20))")
			execute(t, db, "INSERT INTO customers VALUES ('A1', 'Ann'), ('B2', 'Bob'), ('B2', 'Ben'), ('b2', 'Bea'), (NULL, 'Cy'), (' ', 'Di'), ('row 7', 'Eve')")
			c.Table, c.ID = "customers", []string{"CODE"}
			if name == "postgres" {
				c.Table = "public.customers"
			}
			got := summary(read(t, source(t, c), time.Time{}))
			want := []string{
				`A1 active {"code":"A1","name":"Ann"}`,
				"B2 active 2 rows have the same code; each customer needs a row of its own, so join what is several in the query.",
				`b2 active {"code":"b2","name":"Bea"}`,
				"row 5 unknown The row has no code; every customer needs one.",
				"row 6 unknown The row has no code; every customer needs one.",
				"row 7 unknown The code reads like the number of a row and cannot be used as an id.",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
		})
	}
}

// What a database takes for equal, and what a record writes alike, are not the same.
//
// covers F48
func TestRowsShareAnIDWhenTheirRecordsWouldHaveTheSame(t *testing.T) {
	shared := " active 2 rows have the same %s; each customer needs a row of its own, so join what is several in the query."
	tests := []struct {
		database, columns, rows string
		id                      []string
		want                    []string
	}{
		{"sqlite", "id TEXT COLLATE NOCASE", "('A'), ('a')", []string{"id"},
			[]string{`A active {"id":"A"}`, `a active {"id":"a"}`}},
		{"sqlite", "id", "(1), ('1')", []string{"id"}, []string{"1" + fmt.Sprintf(shared, "id")}},
		{"sqlite", "id DATETIME", "('2026-01-01 00:00:00'), ('2026-01-01T00:00:00Z')", []string{"id"},
			[]string{"2026-01-01T00:00:00Z" + fmt.Sprintf(shared, "id")}},
		{"mysql", "id CHAR(1), since DATETIME", "('A', '2026-01-01 10:00:00'), ('A', '2026-01-01 10:00:00')",
			[]string{"id", "since"},
			[]string{"A|2026-01-01T10:00:00" + fmt.Sprintf(shared, "id and since")}},
		{"postgres", "id NUMERIC", "(1.0), (1.00)", []string{"id"},
			[]string{`1.0 active {"id":"1.0"}`, `1.00 active {"id":"1.00"}`}},
	}
	for _, tt := range tests {
		t.Run(tt.database+" "+tt.columns, func(t *testing.T) {
			db, c := everyDatabase()[tt.database](t)
			execute(t, db, "CREATE TABLE customers ("+tt.columns+")")
			execute(t, db, "INSERT INTO customers VALUES "+tt.rows)
			c.Table, c.ID = "customers", tt.id
			if diff := cmp.Diff(tt.want, summary(read(t, source(t, c), time.Time{}))); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
		})
	}
}

// everyDatabase returns ways to open an empty database of each kind.
func everyDatabase() map[string]func(testing.TB) (*sql.DB, sqltable.Config) {
	return map[string]func(testing.TB) (*sql.DB, sqltable.Config){
		"sqlite": sqliteBook, "postgres": postgres.database, "mysql": maria.database,
	}
}

func TestSeveralIDColumnsNeverGiveOneIDForTwoRows(t *testing.T) {
	db, c := sqliteBook(t)
	execute(t, db, `CREATE TABLE customers (a TEXT, b TEXT)`)
	execute(t, db, `INSERT INTO customers VALUES ('x|y', 'z'), ('x', 'y|z'), ('x\', '|y')`)
	c.Table, c.ID = "customers", []string{"a", "b"}
	var ids []string
	for _, r := range read(t, source(t, c), time.Time{}) {
		ids = append(ids, r.SourceID)
	}
	if diff := cmp.Diff([]string{`x\|y|z`, `x|y\|z`, `x\\|\|y`}, ids); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
}

func TestColumnsKeepTheirTypes(t *testing.T) {
	tests := map[string]struct{ query, fields, data string }{
		"sqlite": {
			`SELECT i AS id, f, n, b, d, dt, t, x, NULL AS empty, 7 AS seven FROM (SELECT * FROM k)`,
			"id text, f number, n number, b flag, d text, dt text, t text, empty text, seven text",
			`{"id":"9007199254740993","f":0.5,"n":12.5,"b":true,"d":"2026-02-03","dt":"2026-02-03T04:05:06Z","t":"Zoë <z>","empty":null,"seven":"7"}`,
		},
		"postgres": {
			`SELECT i AS id, f, n, b, d, dt, tz, t, x, u, j, c, NULL AS empty FROM k`,
			"id text, f number, n number, b flag, d text, dt text, tz text, t text, u text, j text, c text, empty text",
			`{"id":"9007199254740993","f":0.5,"n":12.50,"b":true,"d":"2026-02-03","dt":"2026-02-03T04:05:06","tz":"2026-02-03T03:05:06Z","t":"Zoë <z>",` +
				`"u":"0b6f1c2e-6d0f-4b53-9f6b-1d2f7e8a9c10","j":"{\"a\": 1}","c":"ab ","empty":null}`,
		},
		"mysql": {
			`SELECT i AS id, f, n, b, d, dt, t, x, u, z, NULL AS empty FROM k`,
			"id text, f number, n number, b number, d text, dt text, t text, u number, z text, empty text",
			`{"id":"9007199254740993","f":0.5,"n":12.50,"b":1,"d":"2026-02-03","dt":"2026-02-03T04:05:06","t":"Zoë <z>","u":18446744073709551615,"z":null,"empty":null}`,
		},
	}
	tables := map[string][]string{
		"sqlite": {`CREATE TABLE k (i BIGINT, f REAL, n NUMERIC(9,2), b BOOLEAN, d DATE, dt DATETIME, t TEXT, x BLOB)`,
			`INSERT INTO k VALUES (9007199254740993, 0.5, 12.50, TRUE, '2026-02-03', '2026-02-03 04:05:06', 'Zoë <z>', x'00ff')`},
		"postgres": {`CREATE TABLE k (i BIGINT, f FLOAT8, n NUMERIC(9,2), b BOOLEAN, d DATE, dt TIMESTAMP, tz TIMESTAMPTZ, t TEXT, x BYTEA, u UUID, j JSONB, c CHAR(3))`,
			`INSERT INTO k VALUES (9007199254740993, 0.5, 12.50, TRUE, '2026-02-03', '2026-02-03 04:05:06', '2026-02-03 04:05:06+01', 'Zoë <z>', '\x00ff',
				'0b6f1c2e-6d0f-4b53-9f6b-1d2f7e8a9c10', '{"a":1}', 'ab')`},
		"mysql": {`CREATE TABLE k (i BIGINT, f DOUBLE, n DECIMAL(9,2), b BOOLEAN, d DATE, dt DATETIME, t TEXT CHARACTER SET utf8mb4, x BLOB, u BIGINT UNSIGNED, z DATE)`,
			`SET SESSION sql_mode = ''; INSERT INTO k VALUES (9007199254740993, 0.5, 12.50, TRUE, '2026-02-03', '2026-02-03 04:05:06', 'Zoë <z>', x'00ff', 18446744073709551615, '0000-00-00')`},
	}
	for name, open := range everyDatabase() {
		t.Run(name, func(t *testing.T) {
			db, c := open(t)
			for _, statement := range tables[name] {
				execute(t, db, statement)
			}
			c.Query, c.ID = tests[name].query, []string{"id"}
			s := source(t, c)
			info, err := s.Describe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var fields []string
			for _, f := range info.Fields {
				fields = append(fields, f.Name+" "+string(f.Type))
			}
			if diff := cmp.Diff(tests[name].fields, strings.Join(fields, ", ")); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"9007199254740993 active " + tests[name].data},
				summary(read(t, s, time.Time{}))); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

func TestActiveColumnThatSaysNeitherIsUnknown(t *testing.T) {
	db, c := sqliteBook(t)
	execute(t, db, `CREATE TABLE customers (id TEXT, live)`)
	execute(t, db, `INSERT INTO customers VALUES ('a', 1), ('b', 'no'), ('c', NULL), ('d', 2), ('e', 'T')`)
	c.Table, c.ID, c.Active = "customers", []string{"id"}, "live"
	got := ""
	for _, r := range read(t, source(t, c), time.Time{}) {
		got += r.SourceID + " " + string(r.State) + ", "
	}
	if want := "a active, b archived, c unknown, d unknown, e active, "; got != want {
		t.Errorf("states %s\nwant %s", got, want)
	}
}

func TestActiveColumnMayBeABit(t *testing.T) {
	db, c := maria.database(t)
	execute(t, db, "CREATE TABLE customers (id CHAR(1), live BIT(1))")
	execute(t, db, "INSERT INTO customers VALUES ('a', b'1'), ('b', b'0'), ('c', NULL)")
	c.Table, c.ID, c.Active = "customers", []string{"id"}, "live"
	want := []string{`a active {"id":"a"}`, `b archived {"id":"b"}`, `c unknown {"id":"c"}`}
	if diff := cmp.Diff(want, summary(read(t, source(t, c), time.Time{}))); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestNumberMayBeFilledWithZeros(t *testing.T) {
	db, c := maria.database(t)
	execute(t, db, "CREATE TABLE customers (id INT(6) ZEROFILL, credit DECIMAL(8,2) ZEROFILL)")
	execute(t, db, "INSERT INTO customers VALUES (1, 7.50), (2, 0), (3, 0.25)")
	c.Table, c.ID = "customers", []string{"id"}
	want := []string{`1 active {"id":"1","credit":7.50}`, `2 active {"id":"2","credit":0.00}`,
		`3 active {"id":"3","credit":0.25}`}
	if diff := cmp.Diff(want, summary(read(t, source(t, c), time.Time{}))); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// An incremental read brings what changed since its bound, what says nothing of
// its time, and nothing else; a snapshot brings everything.
func TestIncrementalReadBringsWhatChanged(t *testing.T) {
	bound := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct{ name, database, column, zone, old, edge, null string }{
		{"text", "sqlite", "TEXT", "", "2026-07-01 11:59:59", "2026-07-01 12:00:00", "someday"},
		{"text with a zone", "sqlite", "TEXT", "", "2026-07-01T12:59:59+01:00", "2026-07-01T13:00:00+01:00", ""},
		{"instant", "postgres", "TIMESTAMPTZ", "", "2026-07-01 12:59:59+01", "2026-07-01 13:00:00+01", ""},
		{"local time", "postgres", "TIMESTAMP", "Europe/London", "2026-07-01 11:59:59", "2026-07-01 13:00:00", ""},
		{"day", "postgres", "DATE", "", "2026-06-30", "2026-07-01", ""},
		{"local time", "mysql", "DATETIME", "Europe/London", "2026-07-01 11:59:59", "2026-07-01 13:00:00", ""},
		{"instant", "mysql", "TIMESTAMP NULL", "", "2026-07-01 11:59:59", "2026-07-01 12:00:00", ""},
	}
	for _, tt := range tests {
		t.Run(tt.database+" "+tt.name, func(t *testing.T) {
			db, c := everyDatabase()[tt.database](t)
			if tt.database == "mysql" {
				execute(t, db, "SET GLOBAL time_zone = '+00:00'")
				db, _ = sql.Open("mysql", maria.DSN(c.Database))
				t.Cleanup(func() { _ = db.Close() })
			}
			execute(t, db, "CREATE TABLE customers (id INTEGER, changed "+tt.column+")")
			null := "NULL"
			if tt.null != "" {
				null = "'" + tt.null + "'"
			}
			execute(t, db, fmt.Sprintf("INSERT INTO customers VALUES (1, '%s'), (2, '%s'), (3, %s)", tt.old, tt.edge, null))
			c.Table, c.ID, c.UpdatedAt, c.TimeZone = "customers", []string{"id"}, "changed", tt.zone
			if n := len(read(t, source(t, c), bound)); n != 3 {
				t.Errorf("a snapshot gave %d of 3 rows", n)
			}
			c.Incremental = true
			s := source(t, c)
			got := ""
			for _, r := range read(t, s, bound) {
				got += r.SourceID + " "
				if r.SourceID == "2" && tt.column != "DATE" && !r.UpdatedAt.Equal(bound) {
					t.Errorf("row 2 was edited at %v, want %v", r.UpdatedAt, bound)
				}
			}
			if got != "2 3 " {
				t.Errorf("the incremental read gave rows %s", got)
			}
			if n := len(read(t, s, time.Time{})); n != 3 {
				t.Errorf("a full read gave %d of 3 rows", n)
			}
			if info, err := s.Describe(t.Context()); err != nil || info.Snapshot {
				t.Errorf("described as snapshot %t, error %v", info.Snapshot, err)
			}
		})
	}
}

// covers F87
func TestQueriesCannotWrite(t *testing.T) {
	grab := map[string][]string{
		"postgres": {"CREATE FUNCTION grab() RETURNS INTEGER LANGUAGE sql AS 'INSERT INTO customers VALUES (2) RETURNING id'"},
		"mysql":    {"CREATE FUNCTION grab() RETURNS INTEGER BEGIN INSERT INTO customers VALUES (2); RETURN 2; END"},
	}
	for name, open := range everyDatabase() {
		t.Run(name, func(t *testing.T) {
			db, c := open(t)
			execute(t, db, "CREATE TABLE customers (id INTEGER)")
			execute(t, db, "INSERT INTO customers VALUES (1)")
			for _, statement := range grab[name] {
				execute(t, db, statement)
			}
			queries := []string{"SELECT id FROM customers) AS x; DELETE FROM customers; SELECT * FROM (SELECT id FROM customers"}
			other := filepath.Join(t.TempDir(), "other.sqlite")
			if name == "sqlite" {
				queries = append(queries,
					"SELECT id FROM customers) AS x; ATTACH '"+other+"' AS other; SELECT * FROM (SELECT id FROM customers",
					"SELECT id FROM customers) AS x; COMMIT; PRAGMA query_only = 0; ATTACH '"+other+"' AS other; CREATE TABLE other.t (a); SELECT * FROM (SELECT id FROM customers",
					"SELECT id FROM customers) AS x; COMMIT; PRAGMA query_only = 0; DELETE FROM customers; SELECT * FROM (SELECT id FROM customers")
			} else {
				queries = append(queries, "SELECT grab() AS id FROM customers")
			}
			for _, query := range queries {
				c.Query, c.ID = query, []string{"id"}
				if _, err := tryRead(t.Context(), source(t, c), time.Time{}); err == nil {
					t.Errorf("%s: no error", query)
				}
			}
			var n int
			if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM customers").Scan(&n); err != nil || n != 1 {
				t.Errorf("the table has %d rows, want 1 (%v)", n, err)
			}
			if _, err := os.Stat(other); err == nil {
				t.Error("a query made another file")
			}
		})
	}
}

// covers F46
func TestReadIsOneSnapshotWhileOthersWrite(t *testing.T) {
	for name, open := range everyDatabase() {
		t.Run(name, func(t *testing.T) {
			db, c := open(t)
			execute(t, db, "CREATE TABLE customers (id INTEGER PRIMARY KEY, name VARCHAR(20))")
			var rows []string
			for i := range 1200 {
				rows = append(rows, fmt.Sprintf("(%d, 'old')", i))
			}
			execute(t, db, "INSERT INTO customers VALUES "+strings.Join(rows, ", "))
			c.Table, c.ID = "customers", []string{"id"}
			old, pages := 0, 0
			for page, err := range source(t, c).Customers(t.Context(), time.Time{}) {
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range page.Records {
					if strings.Contains(string(r.Data), `"old"`) {
						old++
					}
				}
				pages++ // the books' own program is not kept waiting:
				execute(t, db, fmt.Sprintf("UPDATE customers SET name = 'new %d'", pages))
				execute(t, db, fmt.Sprintf("DELETE FROM customers WHERE id = %d", 1200-pages))
			}
			if old != 1200 || pages != 3 {
				t.Errorf("%d of 1200 rows as they were when the read began, in %d pages", old, pages)
			}
		})
	}
}

func TestLongRowIsAProblemOfItsOwn(t *testing.T) {
	db, c := sqliteBook(t)
	execute(t, db, "CREATE TABLE customers (id TEXT, notes TEXT)")
	execute(t, db, "INSERT INTO customers VALUES ('a', ?), ('b', 'short')", strings.Repeat("x", sqltable.MaxRowBytes))
	c.Table, c.ID = "customers", []string{"id"}
	got := summary(read(t, source(t, c), time.Time{}))
	if want := []string{"a active The row is longer than 262144 bytes.",
		`b active {"id":"b","notes":"short"}`}; !cmp.Equal(want, got) {
		t.Errorf("records %q", got)
	}
}
