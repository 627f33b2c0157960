package state

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"payersync/internal/longtest"
	"payersync/state/internal/dbtest"
)

// twoRoles returns the addresses of a new database for the role that owns it and for one of nodes.
func twoRoles(t *testing.T) (owner, node string) {
	t.Helper()
	if !dbtest.OnPostgres() {
		longtest.Story(t, longtest.Postgres)
	}
	owner, err := dbtest.New()
	if errors.Is(err, dbtest.ErrMissing) {
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
	if err := dbtest.ExecuteAt(strings.Replace(owner, "user=ledger", "user=postgres", 1),
		"CREATE ROLE "+role+" LOGIN"); err != nil {
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
		"INSERT INTO main.accounts (name, made_at, changed_at, author, hook_hash) VALUES ('acme', '', '', '', repeat('a', 64))",
		"UPDATE main.accounts SET author = 'x'",
		"SELECT main.analyze_table('main.accounts')",
		"DELETE FROM main.accounts",
	} {
		if _, err := s.write.Exec(t.Context(), statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
	for _, statement := range []string{
		"ALTER TABLE main.payers DISABLE ROW LEVEL SECURITY", "ALTER TABLE main.payers NO FORCE ROW LEVEL SECURITY",
		"ALTER TABLE main.audit DISABLE TRIGGER audit_keeps",
		"DROP POLICY own ON main.payers", "ALTER POLICY own ON main.payers USING (true)", "DROP TABLE main.payers",
		"TRUNCATE main.audit", "DROP SCHEMA main CASCADE",
		"CREATE TABLE main.other (a INT)", "CREATE TABLE public.other (a INT)", "CREATE SCHEMA other",
		"CREATE FUNCTION main.other() RETURNS INT LANGUAGE sql AS 'SELECT 1'",
		"CREATE POLICY other ON main.payers USING (true)",
		"ALTER FUNCTION main.analyze_table(regclass) OWNER TO CURRENT_USER", "GRANT SELECT ON main.payers TO PUBLIC",
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

// The list of accounts has no policy, so it shows no token of webhooks: a session reads the token of its own account alone.
func TestASessionReadsTheWebhookTokenOfItsOwnAccountAlone(t *testing.T) {
	t.Parallel()
	owner, node := twoRoles(t)
	s := openRoles(t, ServerOptions{Address: node, Owner: owner, KeyEncryptionKey: make([]byte, 32)})
	tokens := map[string]string{}
	for _, name := range []string{"acme", "beta"} {
		made := applied(t, s, AccountChange{Name: name, Files: bundle(name)})
		token, err := s.HookToken(t.Context(), made)
		if err != nil || len(token) < 26 || HookHash(token) != made.HookHash {
			t.Fatalf("the token of %s is %q, its hash %s: %v", name, token, made.HookHash, err)
		}
		tokens[name] = token
	}
	acme, err := s.Account(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	session := ofAccount(s.read, acme.ID, 1)
	if got := rowsOf(t, session, "SELECT token FROM main.account_hooks"); !slices.Equal(got, []string{tokens["acme"]}) {
		t.Errorf("a session of acme reads the tokens %q", got)
	}
	if seen := strings.Join(rowsOf(t, session, "SELECT to_jsonb(a)::text FROM main.accounts a"),
		"\n"); strings.Contains(seen, tokens["acme"]) || strings.Contains(seen, tokens["beta"]) {
		t.Errorf("the list of accounts shows a token:\n%s", seen)
	}
}

// makeTables makes the tables of an older version with the role of an address.
func makeTables(t *testing.T, address string, version int64) {
	t.Helper()
	config, err := sessionsAt(address)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := poolOf(t.Context(), config, ownerConnections, toWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), "CREATE SCHEMA "+postgresSchema); err != nil {
		t.Fatal(err)
	}
	p, err := postgresSteps(db)
	if err == nil {
		_, err = p.UpTo(t.Context(), version)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// An older database has one role, the owner of its tables and accounts.
func TestADatabaseWithOneRoleMovesToTwo(t *testing.T) {
	t.Parallel()
	owner, node := twoRoles(t)
	makeTables(t, owner, 88)
	if err := dbtest.ExecuteAt(owner,
		"INSERT INTO main.accounts (name, made_at, changed_at, author, hook_token) VALUES ('acme', '', '', '', 'abcdefghijklmnopqrstuvwxyz')"); err != nil {
		t.Fatal(err)
	}
	refuse := func(when string, o ServerOptions, says string) {
		t.Helper()
		if s, err := OpenServer(t.Context(), o); err == nil {
			s.Close()
			t.Errorf("%s: opened", when)
		} else if !errors.Is(err, ErrServer) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", when, err)
		}
	}
	refuse("before the owner granted anything", ServerOptions{Address: node}, "ledger.owner")
	s := openRoles(t, ServerOptions{Address: node, Owner: owner})
	var name string
	if err := s.read.QueryRow(t.Context(), "SELECT name FROM main.accounts").Scan(&name); err != nil || name != "acme" ||
		s.OwnsTables() {
		t.Errorf("the account after the move: %q, %v; the role owns the tables: %t", name, err, s.OwnsTables())
	}
	openRoles(t, ServerOptions{Address: node})
	if s := openRoles(t, ServerOptions{Address: owner}); !s.OwnsTables() {
		t.Error("one role for both does not say so")
	}
	if err := dbtest.ExecuteAt(owner, "DELETE FROM main.goose_db_version WHERE version_id > 88"); err != nil {
		t.Fatal(err)
	}
	refuse("tables that are too old", ServerOptions{Address: node}, "ledger.owner")
	other, _ := twoRoles(t)
	refuse("an owner of another database", ServerOptions{Address: node, Owner: other}, "another database")
}

// A statement of a migration may take minutes for a million payers.
func TestMigrationsHaveNoTimeLimit(t *testing.T) {
	t.Parallel()
	owner, node := twoRoles(t)
	s := openRoles(t, ServerOptions{Address: node, Owner: owner})
	patient, err := withoutLimits(t.Context(), s.write)
	if err != nil {
		t.Fatal(err)
	}
	defer patient.Close()
	for pool, want := range map[*pgxpool.Pool]string{patient: "0 0", s.write: "1min 10s"} {
		var got string
		if err := pool.QueryRow(t.Context(),
			"SELECT current_setting('statement_timeout') || ' ' || current_setting('idle_in_transaction_session_timeout')").Scan(&got); err != nil || got != want {
			t.Errorf("the limits are %q, %v, want %q", got, err, want)
		}
	}
}
