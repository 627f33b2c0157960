package state

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"payersync/state/internal/dbtest"
)

// onServer is a ledger on PostgreSQL.
func onServer(t *testing.T) *desk {
	t.Helper()
	if !dbtest.OnPostgres() {
		t.Skip("on PostgreSQL only: run with -engine postgres")
	}
	return newDesk(t)
}

func TestAServersErrorsAreToldByWhatTheyMean(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]trouble{
		"57P01": cutOff, "08006": cutOff, "25P03": cutOff, "53100": diskFull, "58030": diskFull, "55P03": inUse,
		"53300": inUse, "40P01": inUse,
		"25006": readOnly, "XX001": corrupt, "23505": none, "22021": none, "42601": none, "57014": tooSlow,
	} {
		if got := troubleOf(fmt.Errorf("write: %w", &pgconn.PgError{Code: code})); got != want {
			t.Errorf("%s: got %d, want %d", code, got, want)
		}
	}
	for _, err := range []error{io.ErrUnexpectedEOF, net.ErrClosed, &net.OpError{Op: "read", Err: errors.New("reset")}} {
		if got := troubleOf(err); got != cutOff {
			t.Errorf("%v: got %d, want that it is cut off", err, got)
		}
	}
	if got := troubleOf(errOfOurs); got != none {
		t.Errorf("an error of ours: got %d", got)
	}
}

// errOfOurs is no engine's error.
var errOfOurs = errors.New("another run is open")

func TestAnAddressThatCannotBeReadIsNotShown(t *testing.T) {
	t.Parallel()
	_, err := OpenServer(t.Context(), ServerOptions{Address: "postgres://ledger:open-sesame@host:port/db"})
	if !errors.Is(err, ErrServer) || strings.Contains(err.Error(), "sesame") ||
		!strings.Contains(err.Error(), "postgres://USER") {
		t.Errorf("got %v", err)
	}
}

func TestASessionThatTheServerEndsTakesItsBatchAlongAndTheNextWriteWorks(t *testing.T) {
	t.Parallel()
	d := onServer(t)
	server := rawDB(t, d.opts.Path)
	d.do(note("before"))
	err := d.Do(t.Context(), func(tx *Tx) error {
		var pid int64
		if err := errors.Join(note("lost")(tx), tx.row([]any{&pid}, "SELECT pg_backend_pid()")); err != nil {
			return err
		}
		var ended bool
		if err := server.QueryRowContext(t.Context(), "SELECT pg_terminate_backend(?, 5000)", pid).Scan(&ended); err != nil ||
			!ended {
			t.Errorf("end the session: %t, %v", ended, err)
		}
		return note("lost, too")(tx)
	})
	if !errors.Is(err, ErrConnectionLost) || !Unwritable(err) {
		t.Errorf("got %v, want that the connection was lost", err)
	}
	d.do(note("after"))
	if got := entries(t, d.Ledger); got != 2 {
		t.Errorf("the log has %d lines, want 2", got)
	}
}

func TestASessionThatEndsBetweenTwoWritesIsNotNoticed(t *testing.T) {
	t.Parallel()
	d := onServer(t)
	var pid int64
	d.do(func(tx *Tx) error { return tx.row([]any{&pid}, "SELECT pg_backend_pid()") })
	if _, err := rawDB(t, d.opts.Path).ExecContext(t.Context(), "SELECT pg_terminate_backend(?, 5000)", pid); err != nil {
		t.Fatal(err)
	}
	d.do(note("after"))
}

func TestWritersOfOneLedgerTakeTurns(t *testing.T) {
	t.Parallel()
	d := onServer(t)
	other := rawDB(t, d.opts.Path)
	free := func() (free bool) {
		if err := other.QueryRowContext(t.Context(), "SELECT pg_try_advisory_xact_lock(?)",
			d.below.(*postgres).lock(writersLock)).Scan(&free); err != nil {
			t.Error(err)
		}
		return free
	}
	d.do(func(*Tx) error {
		if free() {
			t.Error("another writer could begin in the middle of a write")
		}
		return nil
	})
	if !free() {
		t.Error("the lock is held after the write")
	}
}

func TestTheTimeOfAWriteIsTheServers(t *testing.T) {
	t.Parallel()
	d := onServer(t)
	opts := d.opts
	opts.Now = nil
	l, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.now = func() time.Time { return time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC) } // this machine's
	before := one[time.Time](t, l, "SELECT clock_timestamp()")
	var at time.Time
	if err := l.Do(t.Context(), func(tx *Tx) error { at = tx.Now(); return nil }); err != nil {
		t.Fatal(err)
	}
	after := one[time.Time](t, l, "SELECT clock_timestamp()")
	if at.Before(before.Truncate(time.Millisecond)) || at.After(after) {
		t.Errorf("the write was at %v, between %v and %v of the server", at, before, after)
	}
}

// A long wait for another writer, or for a statement, ends with an explanation of ours.
func TestWhoWaitsForTooLongIsToldInWords(t *testing.T) {
	t.Parallel()
	d := onServer(t)
	d.do(note("before"))
	for name, c := range map[string]struct{ setting, statement, says string }{
		"another keeps it": {"lock_timeout", "SELECT 1 FROM pg_advisory_xact_lock(77)",
			"somebody else keeps this account's ledger"},
		"a slow statement": {"statement_timeout", "SELECT 1 FROM pg_sleep(60)", "gave up a statement"},
	} {
		other, err := rawDB(t, d.opts.Path).BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.ExecContext(t.Context(), "SELECT pg_advisory_xact_lock(77)"); err != nil {
			t.Fatal(err)
		}
		err = d.Do(t.Context(), func(tx *Tx) error {
			if err := tx.exec("SET LOCAL " + c.setting + " = '50ms'"); err != nil {
				return err
			}
			var one int
			return tx.row([]any{&one}, c.statement)
		})
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "SQLSTATE") ||
			!Unwritable(err) {
			t.Errorf("%s: %v", name, err)
		}
		if err := other.Rollback(); err != nil {
			t.Error(err)
		}
	}
	d.do(note("after"))
	if got := entries(t, d.Ledger); got != 2 {
		t.Errorf("the log has %d lines, want 2", got)
	}
}
