package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

// earlierBooks makes a ledger of schema 96 with payers and their traits. Some share a trait, and one has none.
func earlierBooks(t *testing.T) *desk {
	t.Helper()
	d := ofVersion(t, 96)
	var statements []string
	for i := range 9 {
		id := fmt.Sprint("p", i)
		statements = append(statements,
			"INSERT INTO source_records (connection, source_id, content_hash, record, state, updated_at) VALUES ('acme', '"+id+"', '', x'', 'active', '')",
			"INSERT INTO payers (connection, source_id, key_name, key_value, updated_at, likeness) VALUES ('acme', '"+id+"', 'no', '"+id+"', '', iif("+fmt.Sprint(i)+" = 4, '', 'digest'))")
		for kind := likeName; kind <= likeNamePostcode && i != 4; kind++ {
			for _, n := range []int{i, i / 3} {
				statements = append(statements,
					fmt.Sprintf("INSERT OR IGNORE INTO likenesses (kind, value, connection, source_id) VALUES ('%s', '%016x%016x', 'acme', '%s')", kind, uint64(n)*0x1234567890abcdef, n, id))
			}
		}
	}
	raw(t, d.opts.Path, statements...)
	return d
}

// content returns the rows that a migration of likenesses writes.
func (d *desk) content() (out []string) {
	d.t.Helper()
	db := rawDB(d.t, d.opts.Path)
	for _, query := range []string{
		"SELECT 'payer', source_id, payer_id, likeness FROM payers ORDER BY source_id",
		"SELECT 'trait', hash, payer_id FROM likenesses ORDER BY hash, payer_id",
		"SELECT 'indexed to', indexed_to FROM ledger",
		"SELECT 'version', group_concat(version_id, ' ' ORDER BY version_id) FROM goose_db_version",
		"SELECT type, name FROM sqlite_master ORDER BY type, name",
	} {
		out = append(out, rowsOf(d.t, db, query)...)
	}
	return out
}

// interrupt makes some steps of a long migration of the ledger's file, and half a step. more is false if the
// migration ended before.
func (d *desk) interrupt(m *longMigration, steps int) (more bool) {
	d.t.Helper()
	db := rawDB(d.t, d.opts.Path)
	db.SetMaxOpenConns(1)
	for range steps {
		done := false
		if err := inTransaction(d.t.Context(), db,
			func(tx *sql.Tx) (err error) { _, done, err = m.next(d.t.Context(), tx); return err }); err != nil {
			d.t.Fatal(err)
		}
		if done {
			return false
		}
	}
	killed := errors.New("killed")
	if err := inTransaction(d.t.Context(), db, func(tx *sql.Tx) error {
		_, _, err := m.next(d.t.Context(), tx)
		return errors.Join(err, killed)
	}); !errors.Is(err, killed) {
		d.t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		d.t.Fatal(err)
	}
	return true
}

// covers F70
func TestAnInterruptedLongMigrationContinuesAtEveryPosition(t *testing.T) {
	t.Parallel()
	whole := earlierBooks(t)
	if err := whole.opens(FoundInStep).Close(); err != nil {
		t.Fatal(err)
	}
	want := whole.content()
	newest, err := newestSchema()
	if err != nil {
		t.Fatal(err)
	}
	m, more := likenessMigration(2, 3), true
	for steps := 0; more; steps++ {
		d := earlierBooks(t)
		more = d.interrupt(m, steps)
		version := rowsOf(t, rawDB(t, d.opts.Path), "SELECT max(version_id) FROM goose_db_version")[0]
		if wanted := map[bool]string{true: fmt.Sprint(newest + 1), false: "97"}[more]; steps > 0 && version != wanted {
			t.Errorf("after %d steps, the version is %s, want %s", steps, version, wanted)
		}
		if steps == 0 && version > "96" {
			t.Errorf("before the first step, the version is %s", version)
		}
		var told []int
		d.opts.Migrating = func(percent int) { told = append(told, percent) }
		l := d.opens(FoundInStep)
		if found, err := l.Verify(t.Context(), nil); err != nil || len(found) > 0 {
			t.Errorf("after %d steps, it is damaged: %v, %v", steps, found, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, d.content()); diff != "" {
			t.Errorf("interrupted after %d steps (-uninterrupted +continued):\n%s", steps, diff)
		}
		if more && (!slices.IsSorted(told) || told[len(told)-1] != 100) {
			t.Errorf("after %d steps, told were %d %%", steps, told)
		}
		if steps > 50 {
			t.Fatal("the migration does not end")
		}
	}
}

// The stop comes from a person who waits, or from the system.
//
// covers F70
func TestAMigrationThatIsStoppedSaysThatTheNextStartContinues(t *testing.T) {
	t.Parallel()
	d := earlierBooks(t)
	ctx, stop := context.WithCancel(t.Context())
	d.opts.Migrating = func(int) { stop() }
	l, err := Open(ctx, d.opts)
	if err == nil {
		t.Fatal(l.Close())
	}
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "next start continues") {
		t.Errorf("got %v", err)
	}
	d.opts.Migrating = nil
	if err := d.opens(FoundInStep).Close(); err != nil {
		t.Fatal(err)
	}
}

// A payersync that knows the migration refuses a file whose schema is neither the one before it nor the one after it.
//
// covers F63
func TestAHalfMigratedFileWithAForeignObjectIsRefused(t *testing.T) {
	t.Parallel()
	d := earlierBooks(t)
	d.interrupt(likenessMigration(2, 3), 3)
	raw(t, d.opts.Path, "CREATE TRIGGER spy AFTER UPDATE ON payers BEGIN DELETE FROM alarms; END")
	refused(t, d.opts, `did not make the trigger "spy"`)
}

// covers F69
func TestAFileWithALongMigrationOfANewerVersionIsRefused(t *testing.T) {
	t.Parallel()
	newest, err := newestSchema()
	if err != nil {
		t.Fatal(err)
	}
	d := earlierBooks(t)
	d.interrupt(likenessMigration(2, 3), 3)
	raw(t, d.opts.Path, fmt.Sprintf("UPDATE unfinished_migration SET version = %d", newest+5),
		fmt.Sprintf("UPDATE goose_db_version SET version_id = %d WHERE version_id > 97", newest+6))
	refused(t, d.opts, fmt.Sprintf("its schema is version %d", newest+6), "a newer one")
}

// covers F70
func TestTwoProcessesMigrateALedgerSideBySide(t *testing.T) {
	t.Parallel()
	d := earlierBooks(t)
	d.interrupt(likenessMigration(2, 3), 2)
	var both errgroup.Group
	for range 2 {
		both.Go(func() error {
			l, err := Open(t.Context(), d.opts)
			if err != nil {
				return err
			}
			return l.Close()
		})
	}
	if err := both.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := rowsOf(t, rawDB(t, d.opts.Path), "SELECT count(*) FROM payers WHERE payer_id = 0"); got[0] != "0" {
		t.Errorf("%s payers have no id", got[0])
	}
}

// covers F70
func TestTemporaryDataIsInMemoryAgainAfterAMigration(t *testing.T) {
	t.Parallel()
	d := earlierBooks(t)
	during := 0
	d.opts.Migrating = func(int) { during++ }
	d.Ledger = d.opens(FoundInStep)
	d.do(func(tx *Tx) (err error) {
		var kept int
		if err = tx.row([]any{&kept}, "PRAGMA temp_store"); kept != 2 || during == 0 {
			t.Errorf("after %d steps, temporary data is kept as %d says, want 2", during, kept)
		}
		return err
	})
}
