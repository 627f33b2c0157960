package state

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"payersync/state/internal/testdb"
)

// twoRoles returns the addresses of a new database for the role that owns it and for one of nodes.
func twoRoles(t *testing.T) (owner, node string) {
	t.Helper()
	owner, err := testdb.New()
	if errors.Is(err, testdb.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	config, err := pgx.ParseConfig(owner)
	if err != nil {
		t.Fatal(err)
	}
	role := "node_of_" + config.Database
	if err := testdb.ExecuteAt(strings.Replace(owner, "user=ledger", "user=postgres", 1), "CREATE ROLE "+role+" LOGIN"); err != nil {
		t.Fatal(err)
	}
	return owner, strings.Replace(owner, "user=ledger", "user="+role, 1)
}

// openRoles opens a server until the test ends.
func openRoles(t *testing.T, o ServerOptions) *Server {
	t.Helper()
	s, err := OpenServer(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestTheRoleOfNodesReadsAndWritesRowsAndChangesNoTables(t *testing.T) {
	t.Parallel()
	owner, node := twoRoles(t)
	if _, err := OpenServer(t.Context(), ServerOptions{Address: node}); !errors.Is(err, ErrServer) {
		t.Errorf("the role of nodes made tables: %v", err)
	}
	if s := openRoles(t, ServerOptions{Address: node, Owner: owner}); s.OwnsTables() {
		t.Error("the role of nodes owns the tables")
	}
	s := openRoles(t, ServerOptions{Address: node})
	for _, statement := range []string{
		"INSERT INTO main.accounts (name, made_at, changed_at, author, hook_token) VALUES ('acme', '', '', '', 'abcdefghijklmnopqrstuvwxyz')",
		"UPDATE main.accounts SET author = 'x'",
		"SELECT main.analyze_table('main.accounts')",
		"DELETE FROM main.accounts",
	} {
		if _, err := s.write.Exec(t.Context(), statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
	for _, statement := range []string{
		"ALTER TABLE main.payers DISABLE ROW LEVEL SECURITY", "ALTER TABLE main.payers NO FORCE ROW LEVEL SECURITY", "ALTER TABLE main.audit DISABLE TRIGGER audit_keeps",
		"DROP POLICY own ON main.payers", "ALTER POLICY own ON main.payers USING (true)", "DROP TABLE main.payers", "TRUNCATE main.audit", "DROP SCHEMA main CASCADE",
		"CREATE TABLE main.other (a INT)", "CREATE TABLE public.other (a INT)", "CREATE SCHEMA other", "CREATE FUNCTION main.other() RETURNS INT LANGUAGE sql AS 'SELECT 1'",
		"CREATE POLICY other ON main.payers USING (true)", "ALTER FUNCTION main.analyze_table(regclass) OWNER TO CURRENT_USER", "GRANT SELECT ON main.payers TO PUBLIC",
	} {
		_, err := s.write.Exec(t.Context(), statement)
		var said *pgconn.PgError
		if strings.HasPrefix(statement, "GRANT") && err == nil {
			continue // it is warned that it granted nothing
		}
		if !errors.As(err, &said) || said.Code != "42501" {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

// A database that is older has one role, which made its tables.
func TestADatabaseWithOneRoleMovesToTwo(t *testing.T) {
	t.Parallel()
	owner, node := twoRoles(t)
	if s := openRoles(t, ServerOptions{Address: owner}); !s.OwnsTables() {
		t.Error("one role for both does not say so")
	}
	openRoles(t, ServerOptions{Address: node, Owner: owner})
	openRoles(t, ServerOptions{Address: node})
	if err := testdb.ExecuteAt(owner, "DELETE FROM main.goose_db_version WHERE version_id >= 82"); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenServer(t.Context(), ServerOptions{Address: node}); err == nil || !strings.Contains(err.Error(), "ledger.owner") {
		t.Errorf("tables that are too old: %v", err)
	}
}
