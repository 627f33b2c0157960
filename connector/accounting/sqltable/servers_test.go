package sqltable_test

import (
	"database/sql"
	"os"
	"testing"

	"payersync/connector"
	"payersync/connector/accounting/sqltable"
	"payersync/connector/accounting/sqltable/sqltabletest"
)

// daemon is a server of package sqltabletest.
type daemon struct{ *sqltabletest.Server }

var postgres, maria = daemon{sqltabletest.Postgres}, daemon{sqltabletest.MariaDB}

const password = sqltabletest.Password

func TestMain(m *testing.M) {
	code := m.Run()
	sqltabletest.Stop()
	os.Exit(code)
}

// database makes an empty database and returns a way to write to it, and the
// configuration to read it with.
func (d *daemon) database(t testing.TB) (*sql.DB, sqltable.Config) {
	t.Helper()
	of := d.Database(t)
	return of.DB, sqltable.Config{Driver: of.Driver, Port: of.Port, Database: of.Name, User: sqltabletest.Admin,
		Password: connector.NewSecret(password)}
}

// execute executes statements that must succeed.
func execute(t testing.TB, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
