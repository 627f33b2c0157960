package sqltable_test

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/accounting/sqltable"
)

func TestStatementsThatAreNotOneUpdateOfOneColumnAreRefused(t *testing.T) {
	t.Parallel()
	lite := sqltable.Config{Driver: "sqlite", Path: "books.sqlite", Table: "customers", ID: []string{"no"}}
	server := sqltable.Config{Driver: "postgres", Database: "books", User: "reader", Table: "customers",
		ID: []string{"no"}}
	const good = "UPDATE customers SET dd = :status WHERE no = :id"
	for _, tt := range []struct {
		config sqltable.Config
		write  sqltable.ColumnConfig
		key    string
	}{
		{lite, sqltable.ColumnConfig{Statement: good}, ""},
		{lite, sqltable.ColumnConfig{Statement: " update \"my customers\" set \"dd status\" = :status where no = :id and kind = ':status; --' ;"}, "statement"}, // a name with a blank
		{lite, sqltable.ColumnConfig{Statement: "update customers set \"dd status\" = :status where no = :id and kind = ':status; --' ;"}, ""},
		{lite, sqltable.ColumnConfig{Statement: good, Read: "SELECT dd FROM customers WHERE no = :id"}, ""},
		{lite, sqltable.ColumnConfig{Statement: ""}, "statement"},
		{lite, sqltable.ColumnConfig{Statement: "DELETE FROM customers WHERE no = :id"}, "statement"},
		{lite, sqltable.ColumnConfig{Statement: good + "; DROP TABLE customers"}, "statement"},
		{lite, sqltable.ColumnConfig{Statement: good + " -- and all"}, "statement"},
		{lite, sqltable.ColumnConfig{Statement: "UPDATE customers SET dd = :status"}, "statement"},
		{lite, sqltable.ColumnConfig{Statement: "UPDATE customers SET dd = :status WHERE no = 'x'"}, "statement"},
		{lite, sqltable.ColumnConfig{Statement: "UPDATE customers SET dd = :status WHERE no = ':id'"}, "statement"},
		{lite, sqltable.ColumnConfig{Statement: "UPDATE customers SET dd = 'active' WHERE no = :id"}, "statement"},
		{lite, sqltable.ColumnConfig{Statement: "UPDATE customers SET dd = :status, name = '' WHERE no = :id"}, "statement"},
		{lite, sqltable.ColumnConfig{Statement: "UPDATE customers SET dd = :status WHERE no = :id OR dd = :status"},
			"statement"},
		{lite, sqltable.ColumnConfig{Statement: good, Read: "UPDATE customers SET dd = '' WHERE no = :id"}, "read"},
		{lite, sqltable.ColumnConfig{Statement: good, Read: "SELECT dd FROM customers"}, "read"},
		{lite, sqltable.ColumnConfig{Statement: good, User: "writer"}, "user"},
		{server, sqltable.ColumnConfig{Statement: good}, "user"},
		{server, sqltable.ColumnConfig{Statement: good, User: "reader"}, "user"},
		{server, sqltable.ColumnConfig{Statement: good, User: "writer"}, ""},
		{sqltable.Config{Driver: "sqlite", Path: "b", Table: "c", ID: []string{"a", "b"}},
			sqltable.ColumnConfig{Statement: good}, "statement"},
	} {
		_, err := sqltable.NewWriter(tt.config, tt.write)
		if tt.key == "" && err != nil || tt.key != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.key+": ")) {
			t.Errorf("%q, read %q: error %v, want one about %q", tt.write.Statement, tt.write.Read, err, tt.key)
		}
	}
}

// column is a table whose column dd we write, on one kind of database.
type column struct {
	t      testing.TB
	db     *sql.DB
	writer *sqltable.ColumnWriter
}

const rows = "CREATE TABLE customers (no %s PRIMARY KEY, name VARCHAR(40) NOT NULL, dd VARCHAR(20))"

// columns gives the table to a test on every kind of database that is here.
func columns(t *testing.T, test func(*testing.T, *column)) {
	t.Run("sqlite", func(t *testing.T) {
		db, c := sqliteBook(t)
		test(t, newColumn(t, db, c, sqltable.ColumnConfig{}))
	})
	t.Run("postgres", func(t *testing.T) {
		db, c := postgres.database(t)
		execute(t, db, fmt.Sprintf(rows, "INTEGER"))
		execute(t, db, "CREATE ROLE writer_"+c.Database+" LOGIN PASSWORD 'writes-one-column'")
		execute(t, db, "GRANT SELECT (no, dd), UPDATE (dd) ON customers TO writer_"+c.Database)
		test(t, newColumn(t, db, c,
			sqltable.ColumnConfig{User: "writer_" + c.Database, Password: connector.NewSecret("writes-one-column")}))
	})
	t.Run("mysql", func(t *testing.T) {
		db, c := maria.database(t)
		execute(t, db, fmt.Sprintf(rows, "INTEGER"))
		execute(t, db, "CREATE USER 'w"+c.Database+"'@'127.0.0.1' IDENTIFIED BY 'writes-one-column'")
		execute(t, db, "GRANT SELECT (no, dd), UPDATE (dd) ON "+c.Database+".customers TO 'w"+c.Database+"'@'127.0.0.1'")
		test(t, newColumn(t, db, c,
			sqltable.ColumnConfig{User: "w" + c.Database, Password: connector.NewSecret("writes-one-column")}))
	})
}

func newColumn(t *testing.T, db *sql.DB, c sqltable.Config, w sqltable.ColumnConfig) *column {
	t.Helper()
	if c.Driver == "sqlite" {
		execute(t, db, fmt.Sprintf(rows, "INTEGER"))
	}
	execute(t, db, "INSERT INTO customers VALUES (1, 'Saltmarsh', NULL), (2, 'Old Mill', 'cash'), (3, 'Quay', '')")
	c.Table, c.ID = "customers", []string{"no"}
	w.Statement = "UPDATE customers SET dd = :status WHERE no = :id"
	writer, err := sqltable.NewWriter(c, w)
	if err != nil {
		t.Fatal(err)
	}
	return &column{t, db, writer}
}

func (c *column) held(ids ...string) map[string]connector.WrittenField {
	c.t.Helper()
	held, err := c.writer.Read(c.t.Context(), ids)
	if err != nil {
		c.t.Fatal(err)
	}
	return held
}

func (c *column) send(id, before, status string) error {
	c.t.Helper()
	body, err := c.writer.Freeze(connector.Write{SourceID: id, Value: status,
		Field: connector.WrittenField{Value: before}})
	if err != nil {
		c.t.Fatal(err)
	}
	return c.writer.Send(c.t.Context(), "w1", body)
}

func TestOneColumnOfOneRowIsWritten(t *testing.T) {
	columns(t, func(t *testing.T, c *column) {
		if p := c.writer.Probe(t.Context()); !p.OK {
			t.Errorf("the probe: %+v", p)
		}
		want := map[string]connector.WrittenField{"1": {}, "2": {Value: "cash"}, "3": {}}
		if diff := cmp.Diff(want, c.held("1", "2", "3", "4")); diff != "" {
			t.Errorf("read (-want +got):\n%s", diff)
		}
		for range 2 { // the same once more, as after a lost answer, is found to be written
			if err := c.send("1", c.held("1")["1"].Value, "active"); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.send("2", "cash", "signed"); err != nil {
			t.Fatal(err)
		}
		if err := c.send("3", "cheque", "active"); !errors.Is(err, connector.ErrStale) {
			t.Errorf("a row that was edited since: %v", err)
		}
		if err := c.send("4", "", "active"); !errors.Is(err, connector.ErrStale) {
			t.Errorf("a row that is gone: %v", err)
		}
		got := map[string]string{}
		found, err := c.db.Query("SELECT no, name, coalesce(dd, 'NULL') FROM customers")
		if err != nil {
			t.Fatal(err)
		}
		defer found.Close()
		for found.Next() {
			var no, name, dd string
			if err := found.Scan(&no, &name, &dd); err != nil {
				t.Fatal(err)
			}
			got[no] = name + " " + dd
		}
		if err := found.Err(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"1": "Saltmarsh active", "2": "Old Mill signed", "3": "Quay "},
			got); diff != "" {
			t.Errorf("the table (-want +got):\n%s", diff)
		}
	})
}

func TestAWriteThatTouchesMoreThanOneRowIsRolledBack(t *testing.T) {
	t.Parallel()
	db, c := sqliteBook(t)
	execute(t, db, "CREATE TABLE customers (no TEXT, dd TEXT)")
	execute(t, db, "INSERT INTO customers VALUES ('1', ''), ('2', '')")
	c.Table, c.ID = "customers", []string{"no"}
	writer, err := sqltable.NewWriter(c, sqltable.ColumnConfig{
		Statement: "UPDATE customers SET dd = :status WHERE no >= :id", Read: "SELECT dd FROM customers WHERE no = :id",
	})
	if err != nil {
		t.Fatal(err)
	}
	err = (&column{t, db, writer}).send("1", "", "active")
	var refused *connector.WriteRefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Why, "2 rows") {
		t.Errorf("got %v", err)
	}
	var n int
	if err := db.QueryRow("SELECT count(*) FROM customers WHERE dd <> ''").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows were written, %v", n, err)
	}
}

func TestADatabaseThatIsDownOrRefusesSaysThatNothingWasWritten(t *testing.T) {
	t.Parallel()
	db, c := postgres.database(t)
	execute(t, db, "CREATE TABLE customers (no TEXT PRIMARY KEY, dd VARCHAR(4))")
	execute(t, db, "INSERT INTO customers VALUES ('1', '')")
	c.Table, c.ID = "customers", []string{"no"}
	w := sqltable.ColumnConfig{User: "nobody_at_all", Password: connector.NewSecret("x"),
		Statement: "UPDATE customers SET dd = :status WHERE no = :id"}
	send := func(c sqltable.Config) error {
		writer, err := sqltable.NewWriter(c, w)
		if err != nil {
			t.Fatal(err)
		}
		return (&column{t, db, writer}).send("1", "", "cancelled")
	}
	if err := send(c); !errors.Is(err, connector.ErrNotWritten) {
		t.Errorf("a user who is not let in: %v", err)
	}
	execute(t, db, "CREATE ROLE narrow_"+c.Database+" LOGIN PASSWORD 'x'")
	w.User = "narrow_" + c.Database
	if err := send(c); !errors.Is(err, connector.ErrNotWritten) {
		t.Errorf("a user without the right: %v", err)
	}
	execute(t, db, "GRANT SELECT, UPDATE ON customers TO narrow_"+c.Database)
	var refused *connector.WriteRefusedError
	if err := send(c); !errors.As(err, &refused) || strings.Contains(err.Error(), "cancelled") {
		t.Errorf("a value that does not fit: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.Port = l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	if err := send(c); !errors.Is(err, connector.ErrNotWritten) {
		t.Errorf("a server that is down: %v", err)
	}
}
