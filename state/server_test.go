package state

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"payersync/state/internal/dbtest"
)

// aServer is a database for ledgers of several accounts, with so many connections at most.
func aServer(t *testing.T, connections int) (*Server, Options) {
	t.Helper()
	if !dbtest.OnPostgres() {
		t.Skip("on PostgreSQL only: run with -engine postgres")
	}
	opts := newOptions(t, newClock())
	dsn, err := dbtest.DSN(opts.Path)
	if err != nil {
		t.Fatal(err)
	}
	opts.Server, err = OpenServer(t.Context(),
		ServerOptions{Address: dsn, Connections: connections, KeyEncryptionKey: kekOf(1), clock: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opts.Server.Close)
	return opts.Server, opts
}

// ofAccountNamed opens the ledger of an account on opts' server.
func ofAccountNamed(t *testing.T, opts Options, name string) *desk {
	t.Helper()
	clock := newClock()
	opts.Now, opts.Account = clock.now, name
	if _, err := opts.Server.ensure(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	l, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return &desk{Ledger: l, t: t, clock: clock, opts: opts}
}

// tablesOfAccounts are those whose rows are an account's.
func tablesOfAccounts(t *testing.T, d *desk) []string {
	t.Helper()
	tables := rowsOf(t, d.reader,
		"SELECT table_name FROM information_schema.columns WHERE table_schema = 'main' AND column_name = 'account' AND table_name IN (SELECT relname FROM pg_class WHERE relkind = 'r')")
	if len(tables) < 40 {
		t.Fatalf("only %d tables are of accounts", len(tables))
	}
	return tables
}

// Every table has its policy, its account in front of each key, and no row that another account can see or
// reach.
//
// covers F183
func TestAnAccountSeesAndChangesNothingOfAnother(t *testing.T) {
	t.Parallel()
	_, opts := aServer(t, 8)
	acmes, betas := ofAccountNamed(t, opts, "acme"), ofAccountNamed(t, opts, "beta")
	acmes.fill(8)
	betas.do(note("beta's own"))
	total := map[string]string{}
	for _, table := range tablesOfAccounts(t, acmes) {
		total[table] = strings.Join(rowsOf(t, acmes.reader, "SELECT count(*), count(DISTINCT account) FROM "+table), "")
	}
	for table := range total {
		if got := rowsOf(t, betas.reader, "SELECT 1 FROM "+table+" WHERE account <> ?",
			betas.below.(*postgres).account); len(got) > 0 {
			t.Errorf("%s: another account sees %d rows", table, len(got))
		}
		for _, statement := range []string{"UPDATE " + table + " SET account = account WHERE account <> ?", "DELETE FROM " +
			table + " WHERE account <> ?"} {
			got, err := betas.writer.ExecContext(t.Context(), statement, betas.below.(*postgres).account)
			if err != nil {
				t.Errorf("%s: %v", statement, err)
				continue
			}
			if n, _ := got.RowsAffected(); n > 0 {
				t.Errorf("%s reached %d rows of another account", statement, n)
			}
		}
	}
	for _, statement := range []string{
		"INSERT INTO budgets (account, scope) VALUES (?, 'theirs')",
		"UPDATE ledger SET account = ?",
	} {
		var said *pgconn.PgError
		if _, err := betas.writer.ExecContext(t.Context(), statement, acmes.below.(*postgres).account); !errors.As(err,
			&said) || said.Code != "42501" {
			t.Errorf("%s: %v, want that the policy refuses it", statement, err)
		}
	}
	for table, before := range total {
		if after := strings.Join(rowsOf(t, acmes.reader, "SELECT count(*), count(DISTINCT account) FROM "+table),
			""); after != before {
			t.Errorf("%s: %s became %s", table, before, after)
		}
	}
	bare := rowsOf(t, acmes.reader,
		`SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
		JOIN pg_class r ON r.oid = i.indrelid WHERE r.relnamespace = 'main'::regnamespace AND a.attname <> 'account' AND r.relname <> 'accounts' AND r.relname NOT LIKE 'goose%'`)
	if len(bare) > 0 {
		t.Errorf("these indexes do not begin with the account: %v", bare)
	}
	open := rowsOf(t, acmes.reader,
		"SELECT relname FROM pg_class WHERE relnamespace = 'main'::regnamespace AND (relkind = 'r' AND relname <> 'accounts' AND relname NOT LIKE 'goose%' AND NOT (relrowsecurity AND relforcerowsecurity) OR relkind = 'v' AND NOT coalesce(reloptions @> '{security_invoker=true}', false))")
	if len(open) > 0 {
		t.Errorf("these have no policy: %v", open)
	}
}

// covers F183
func TestASessionOfNoAccountSeesNothing(t *testing.T) {
	t.Parallel()
	s, opts := aServer(t, 4)
	d := ofAccountNamed(t, opts, "acme")
	for _, table := range tablesOfAccounts(t, d) {
		conn, err := s.read.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		delete(conn.Conn().PgConn().CustomData(), accountSet)
		if _, err := conn.Exec(t.Context(), "RESET payersync.account"); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "SELECT * FROM "+table); err == nil {
			t.Errorf("%s is shown to a session of no account", table)
		}
		conn.Release()
	}
}

// Ledgers lend each other connections, far fewer than there are of them.
func TestLedgersOfManyAccountsShareFewConnections(t *testing.T) {
	t.Parallel()
	_, opts := aServer(t, 4)
	const accounts, writes = 20, 5
	var all sync.WaitGroup
	for i := range accounts {
		d := ofAccountNamed(t, opts, fmt.Sprintf("account-%d", i))
		for range writes {
			all.Go(func() {
				if err := d.Do(context.Background(), note(d.opts.Account)); err != nil {
					t.Error(err)
				}
				if got := rowsOf(t, d.reader, "SELECT DISTINCT actor FROM audit"); len(got) != 1 {
					t.Errorf("%s sees the notes of %v", d.opts.Account, got)
				}
			})
		}
		t.Cleanup(func() {
			if got := entries(t, d.Ledger); got != writes {
				t.Errorf("%s has %d notes, want %d", d.opts.Account, got, writes)
			}
		})
	}
	all.Wait()
}

// The answer to a commit may be lost when it was made, or before; a server is asked which.
//
// covers F181
func TestACommitWhoseAnswerIsLostIsToldAsItEnded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at   func(d *desk) error // the commit
		want error
		kept int
	}{
		"it was made": {func(d *desk) error {
			_, err := d.conn.ExecContext(context.Background(), "COMMIT")
			return errors.Join(err, &net.OpError{Op: "read", Err: io.ErrUnexpectedEOF})
		}, nil, 3},
		"it never arrived": {func(d *desk) error { d.breakOff(); return &net.OpError{Op: "write", Err: io.ErrUnexpectedEOF} },
			ErrConnectionLost, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := onServer(t)
			d.do(note("before"))
			breaks := true
			d.asked = func(done bool) error {
				if done || !breaks {
					return nil
				}
				breaks = false
				return c.at(d)
			}
			err := d.Do(t.Context(), func(tx *Tx) error { return errors.Join(note("first")(tx), note("second")(tx)) })
			if !errors.Is(err, c.want) || errors.Is(err, ErrOutcomeUnknown) {
				t.Errorf("the write: %v, want %v", err, c.want)
			}
			d.goesOn(c.kept)
		})
	}
}

// A server that took the place of another may have lost the commit, and given its number to another.
//
// covers F181
func TestNobodyKnowsWhatBecameOfACommitOnAServerThatIsGone(t *testing.T) {
	t.Parallel()
	d := onServer(t)
	var of Tx
	d.do(func(tx *Tx) error { of = *tx; return note("made")(tx) })
	if err := d.below.findOutcome(t.Context(), &of, nil); err != nil {
		t.Errorf("a commit that was made: %v", err)
	}
	of.timeline = "0000002A"
	if err := d.below.findOutcome(t.Context(), &of, nil); !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("after a failover: %v, want that it is not known", err)
	}
}

// A pooler that lends a session for a transaction would show one account the rows of another.
//
// covers F182
func TestAPoolerBeforeTheServerIsRefused(t *testing.T) {
	t.Parallel()
	_, opts := aServer(t, 4)
	dsn, err := dbtest.DSN(opts.Path)
	if err != nil {
		t.Fatal(err)
	}
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	port := pooler(t, fmt.Sprintf("127.0.0.1:%d", config.Port))
	s, err := OpenServer(t.Context(),
		ServerOptions{Address: strings.Replace(dsn, fmt.Sprintf("port=%d", config.Port), "port="+port, 1)})
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, ErrServer) || !strings.Contains(fmt.Sprint(err), "a pooler stands before it") {
		t.Errorf("got %v", err)
	}
}

// pooler passes on what it gets, under session numbers of its own, and returns its port.
func pooler(t *testing.T, server string) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			behind, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() { _, _ = io.Copy(behind, client); _ = behind.Close() }()
			go func() {
				defer client.Close()
				for head := make([]byte, 5); ; {
					if _, err := io.ReadFull(behind, head); err != nil {
						return
					}
					body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
					if _, err := io.ReadFull(behind, body); err != nil {
						return
					}
					if head[0] == 'K' {
						binary.BigEndian.PutUint32(body, 4711)
					}
					if _, err := client.Write(append(head[:5:5], body...)); err != nil {
						return
					}
				}
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// Nodes are replaced one by one: the older ones work with tables that a newer one has made, until a later step
// takes away what they need.
//
// covers F191
func TestAnOlderNodeWorksWithNewerTablesWhileTheyBearIt(t *testing.T) {
	t.Parallel()
	s, opts := aServer(t, 8)
	ofAccountNamed(t, opts, "acme").do(note("before"))
	for _, statement := range []string{
		"INSERT INTO main.goose_db_version (version_id, is_applied) VALUES (9999, true)",
		"ALTER TABLE main.audit ADD COLUMN of_the_newer text NOT NULL DEFAULT ''",
	} {
		if _, err := s.write.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	again := func() error {
		older, err := OpenServer(t.Context(),
			ServerOptions{Address: s.write.Config().ConnString(), KeyEncryptionKey: kekOf(1), clock: true})
		if err != nil {
			return err
		}
		t.Cleanup(older.Close)
		opts.Server = older
		d := ofAccountNamed(t, opts, "acme")
		d.do(note("by the older"))
		return d.Close()
	}
	if err := again(); err != nil {
		t.Errorf("with tables that only have more: %v", err)
	}
	if _, err := s.write.Exec(t.Context(),
		"CREATE OR REPLACE FUNCTION main.oldest_schema() RETURNS bigint IMMUTABLE PARALLEL SAFE LANGUAGE sql AS 'SELECT 9999::bigint'"); err != nil {
		t.Fatal(err)
	}
	if err := again(); !errors.Is(err, ErrServer) || !strings.Contains(err.Error(), "version 9999") {
		t.Errorf("with tables that have less, it said %v", err)
	}
}

// A first backfill comes to its plans before the server has looked at the tables by itself.
func TestALedgerThatGrowsHasItsTablesCounted(t *testing.T) {
	t.Parallel()
	_, opts := aServer(t, 8)
	d := ofAccountNamed(t, opts, "acme")
	const uncounted = "SELECT relname FROM pg_class WHERE relnamespace = 'main'::regnamespace AND relkind = 'r' AND reltuples < 0 AND relname IN ('source_records', 'labels')"
	if got := rowsOf(t, d.reader, uncounted); len(got) != 2 {
		t.Fatalf("before anything was written, of these there were no statistics: %v", got)
	}
	d.fillMany(1500)
	d.do(note("the next write, which comes after that"))
	if got := rowsOf(t, d.reader, uncounted); len(got) > 0 {
		t.Errorf("1,500 records later there are no statistics of %v", got)
	}
}

// A page is written by few statements: their rows count, as many as each of them changes.
func TestRowsThatOneStatementWritesCountForTheStatistics(t *testing.T) {
	t.Parallel()
	_, opts := aServer(t, 8)
	d := ofAccountNamed(t, opts, "acme")
	hashes := make([]string, 1500)
	for i := range hashes {
		hashes[i] = fmt.Sprint("h", i)
	}
	d.do(func(tx *Tx) error {
		return tx.execOf("INSERT INTO mapping_versions (hash, body, author, saved_at) SELECT value, ?2, 'tester', ?3 FROM json_each(?1)", hashes, []byte("text"), stamp(tx.now))
	})
	d.do(note("the next write, which comes after that"))
	if got := rowsOf(t, d.reader,
		"SELECT relname FROM pg_class WHERE relnamespace = 'main'::regnamespace AND relname = 'mapping_versions' AND reltuples < 0"); len(got) > 0 {
		t.Errorf("1,500 rows later there are no statistics of %v", got)
	}
}
