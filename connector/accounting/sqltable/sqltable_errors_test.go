package sqltable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/accounting/sqltable"
	"payersync/connector/accounting/sqltable/sqltabletest"
)

func TestColumnsThatAreNotThereAreNamed(t *testing.T) {
	db, c := postgres.database(t)
	execute(t, db, "CREATE TABLE customers (id INTEGER, name TEXT)")
	c.Table = "customers"
	tests := []struct {
		want   string
		change func(c *sqltable.Config)
	}{
		{`cannot use id: there is no column "number"; there are id, name`,
			func(c *sqltable.Config) { c.ID = []string{"number"} }},
		{`cannot use active: there is no column "live"`, func(c *sqltable.Config) { c.Active = "live" }},
		{`cannot use updated_at: there is no column "when"`, func(c *sqltable.Config) { c.UpdatedAt = "when" }},
		{`updated_at names "name", which is no column of times`,
			func(c *sqltable.Config) { c.UpdatedAt, c.Incremental = "name", true }},
		{`column 2 is called "id", which is blank or taken`,
			func(c *sqltable.Config) { c.Table, c.Query = "", "SELECT id, id FROM customers" }},
		{`relation "clients" does not exist`, func(c *sqltable.Config) { c.Table = "clients" }},
		{`column "nmae" does not exist`,
			func(c *sqltable.Config) { c.Table, c.Query = "", "SELECT id, nmae FROM customers" }},
		{`cannot read query_file: open nowhere.sql`, func(c *sqltable.Config) { c.Table, c.QueryFile = "", "nowhere.sql" }},
	}
	for _, tt := range tests {
		c := c
		c.ID = []string{"id"}
		tt.change(&c)
		if _, err := source(t, c).Describe(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v\nwant %s", err, tt.want)
		}
	}
}

// covers F29
func TestRefusedUserIsDisconnected(t *testing.T) {
	for name, d := range map[string]*daemon{"postgres": &postgres, "mysql": &maria} {
		t.Run(name, func(t *testing.T) {
			db, c := d.database(t)
			execute(t, db, "CREATE TABLE customers (id INTEGER)")
			c.Table, c.ID = "customers", []string{"id"}
			for what, change := range map[string]func(c *sqltable.Config){
				"password": func(c *sqltable.Config) { c.Password = connector.NewSecret("a wrong password") },
				"database": func(c *sqltable.Config) { c.Database = "nowhere" },
			} {
				c := c
				change(&c)
				_, err := source(t, c).Describe(t.Context())
				var gone *accounting.Disconnected
				if !errors.As(err, &gone) || strings.Contains(err.Error(), "a wrong password") {
					t.Errorf("wrong %s: error %v", what, err)
				}
			}
		})
	}
}

func TestServerThatIsNotThereIsUnavailable(t *testing.T) {
	t.Parallel()
	port, err := sqltabletest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	for _, driver := range []string{"postgres", "mysql"} {
		s := source(t, sqltable.Config{Driver: driver, Port: port, Database: "books", User: "u", Table: "customers",
			ID: []string{"id"}})
		_, err := s.Describe(t.Context())
		if connector.FaultOf(err) != connector.FaultUnavailable ||
			!strings.Contains(err.Error(), fmt.Sprintf("127.0.0.1 port %d", port)) {
			t.Errorf("%s: error %v", driver, err)
		}
	}
}

// covers F29
func TestLockedAccountIsDisconnected(t *testing.T) {
	db, c := maria.database(t)
	execute(t, db, "CREATE USER locked@127.0.0.1 IDENTIFIED BY 'x' ACCOUNT LOCK")
	c.User, c.Password, c.Table, c.ID = "locked", connector.NewSecret("x"), "customers", []string{"id"}
	_, err := source(t, c).Describe(t.Context())
	var gone *accounting.Disconnected
	if !errors.As(err, &gone) || !strings.Contains(err.Error(), "account is locked") {
		t.Errorf("error %v", err)
	}
}

// covers F91
func TestErrorsDoNotQuoteValues(t *testing.T) {
	db, c := postgres.database(t)
	execute(t, db, "CREATE TABLE customers (id INTEGER, name TEXT)")
	execute(t, db, "INSERT INTO customers VALUES (1, 'Ann Baker')")
	c.Query, c.ID = "SELECT id, name::integer AS name FROM customers", []string{"id"}
	_, err := tryRead(t.Context(), source(t, c), time.Time{})
	if connector.FaultOf(err) != connector.FaultRejected || strings.Contains(err.Error(), "Ann") {
		t.Errorf("error %v", err)
	}
}

func TestFilesThatAreNoDatabaseAreExplained(t *testing.T) {
	t.Parallel()
	tests := []struct{ content, want string }{
		{"<?xml version=\"1.0\"?><gnc-v2>" + strings.Repeat(" ", 200), "GnuCash's XML format"},
		{"\x1f\x8b\x08\x00" + strings.Repeat("z", 200), "GnuCash's XML format"},
		{strings.Repeat("some other text ", 20), "no SQLite database"},
		{"", "it is empty; give the path of the database"},
		{"SQLite format 3\x00" + strings.Repeat("\x01", 500), "no SQLite database"},
	}
	for _, tt := range tests {
		path := filepath.Join(t.TempDir(), "book.gnucash")
		if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
			t.Fatal(err)
		}
		s := source(t, sqltable.Config{Driver: "sqlite", Path: path, Table: "customers", ID: []string{"guid"}})
		if _, err := s.Describe(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("error %v, want %q", err, tt.want)
		}
	}
	s := source(t, sqltable.Config{Driver: "sqlite", Path: filepath.Join(t.TempDir(), "none"), Table: "c",
		ID: []string{"id"}})
	if _, err := s.Describe(t.Context()); err == nil || !strings.Contains(err.Error(), "there is no such file") {
		t.Errorf("error %v", err)
	}
	if _, err := s.Describe(canceled(t)); err == nil {
		t.Error("no error")
	}
}

func TestFileThatIsNotWholeIsExplained(t *testing.T) {
	db, c := sqliteBook(t)
	c.Table, c.ID = "customers", []string{"id"}
	execute(t, db, "PRAGMA cache_size = 1")
	execute(t, db, "CREATE TABLE customers (id INTEGER, name TEXT)")
	execute(t, db, "INSERT INTO customers VALUES (1, 'Ann')")
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	for range 500 {
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO customers VALUES (2, hex(randomblob(500)))"); err != nil {
			t.Fatal(err)
		}
	}
	saving, cut := filepath.Join(t.TempDir(), "saving"), filepath.Join(t.TempDir(), "cut")
	for to, from := range map[string]string{saving: c.Path, saving + "-journal": c.Path + "-journal", cut: c.Path} {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if to == cut {
			data = data[:4096] // its first page
		}
		if err := os.WriteFile(to, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{saving: "in the middle of saving it; open it once in its own program",
		cut: "it is damaged or was copied in part"} {
		c.Path = path
		if _, err := source(t, c).Describe(t.Context()); err == nil || !strings.Contains(err.Error(), path+": ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestWriteAheadLogInAFolderThatIsClosedIsExplained(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write into every folder; run the test as another user")
	}
	db, c := sqliteBook(t)
	for _, statement := range []string{"PRAGMA journal_mode = WAL", "CREATE TABLE customers (id INTEGER)",
		"INSERT INTO customers VALUES (1)"} {
		execute(t, db, statement)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Dir(c.Path)
	if err := os.Chmod(folder, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(folder, 0o700) })
	c.Table, c.ID = "customers", []string{"id"}
	if _, err := source(t, c).Describe(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "let this user write into its folder") {
		t.Errorf("error %v", err)
	}
}

func canceled(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestProbeReportsConnectionAndRows(t *testing.T) {
	db, c := postgres.database(t)
	execute(t, db, "CREATE TABLE customers (id TEXT, credit FLOAT8)")
	execute(t, db, "INSERT INTO customers VALUES ('a', 1), ('b', 'NaN')")
	c.Table, c.ID = "customers", []string{"id"}
	got, err := json.Marshal(source(t, c).Probe(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"Name":"connection and query","OK":true,"Detail":"postgres, 2 columns, read only"},{"Name":"one page","OK":true,"Detail":"2 rows, 1 of them with a problem: The credit is no number."}]`
	if string(got) != want {
		t.Errorf("probes %s\nwant %s", got, want)
	}
	c.Table = "clients"
	if got := source(t, c).Probe(t.Context()); len(got) != 1 || got[0].OK {
		t.Errorf("probes of a missing table: %v", got)
	}
}

// covers F16
func TestEncryptionIsVerified(t *testing.T) {
	tests := map[string]struct {
		server *daemon
		query  string
	}{
		"postgres": {&postgres, "SELECT 'me' AS id, ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"},
		"mysql":    {&maria, "SELECT 'me' AS id, variable_value <> '' AS encrypted FROM information_schema.session_status WHERE variable_name = 'SSL_CIPHER'"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, c := tt.server.database(t)
			c.Query, c.ID, c.TLS = tt.query, []string{"id"}, "verify"
			if _, err := source(t, c).Describe(t.Context()); connector.FaultOf(err) != connector.FaultUnavailable ||
				!strings.Contains(err.Error(), "unknown authority") {
				t.Errorf("a certificate of an unknown authority: error %v", err)
			}
			c.CAFile = tt.server.File("server.key")
			if _, err := source(t, c).Describe(t.Context()); err == nil ||
				!strings.Contains(err.Error(), "holds no certificate") {
				t.Errorf("a file without certificate: error %v", err)
			}
			c.CAFile = tt.server.File("server.pem")
			records := read(t, source(t, c), time.Time{})
			if len(records) != 1 || !strings.Contains(string(records[0].Data), "true") &&
				!strings.Contains(string(records[0].Data), ":1") {
				t.Errorf("the connection is not encrypted: %q", summary(records))
			}
			c.Host = "localhost" // which the certificate is not for
			if _, err := source(t, c).Describe(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot be verified") {
				t.Errorf("a certificate for another host: error %v", err)
			}
		})
	}
}

func TestEnvironmentOfTheDriverChangesNothing(t *testing.T) {
	db, c := postgres.database(t)
	execute(t, db, "CREATE TABLE customers (id TEXT)")
	for name, value := range map[string]string{"PGHOST": "203.0.113.1", "PGPORT": "1", "PGDATABASE": "nowhere",
		"PGUSER": "nobody", "PGPASSWORD": "wrong",
		"PGSSLMODE": "verify-full", "PGOPTIONS": "-c search_path=nowhere", "PGTARGETSESSIONATTRS": "standby",
		"PGSSLROOTCERT": "nowhere.pem", "PGSSLNEGOTIATION": "direct", "PGCONNECT_TIMEOUT": "soon",
		"PGCHANNELBINDING": "require", "PGREQUIREAUTH": "gss", "PGMINPROTOCOLVERSION": "3.2"} {
		t.Setenv(name, value)
	}
	c.Table, c.ID = "customers", []string{"id"}
	if _, err := source(t, c).Describe(t.Context()); err != nil {
		t.Error(err)
	}
}

// One list of words says what yes and no are, in a source's active column and in a mapping.
func TestAnActiveColumnMayHoldAnyWordForYesAndNo(t *testing.T) {
	db, c := sqliteBook(t)
	execute(t, db, `CREATE TABLE customers (id TEXT, active)`)
	execute(t, db, `INSERT INTO customers VALUES ('a', 1), ('b', '0'), ('c', 't'), ('d', 'F'), ('e', 'Ja'), ('f', 'n'), ('g', 'perhaps'), ('h', NULL)`)
	c.Table, c.ID, c.Active = "customers", []string{"id"}, "active"
	want := map[string]connector.RecordState{
		"a": connector.RecordActive, "b": connector.RecordArchived, "c": connector.RecordActive,
		"d": connector.RecordArchived,
		"e": connector.RecordActive, "f": connector.RecordArchived, "g": connector.RecordUnknown,
		"h": connector.RecordUnknown,
	}
	for _, r := range read(t, source(t, c), time.Time{}) {
		if r.State != want[r.SourceID] {
			t.Errorf("%s is %s, want %s", r.SourceID, r.State, want[r.SourceID])
		}
	}
}
