package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/internal/longtest"
)

var errRefused = errors.New("refused by the caller")

// entries counts the audit log, the table that tests of the writer write to.
func entries(t testing.TB, l *Ledger) int {
	t.Helper()
	return one[int](t, l, "SELECT count(*) FROM audit")
}

func note(subject string) func(*Tx) error {
	return func(tx *Tx) error { return tx.Audit(Entry{Actor: "test", Action: "note", Subject: subject}) }
}

// hold keeps the writer busy until release is called, so that what is handed in
// meanwhile shares the next transaction.
func (d *desk) hold() (release func()) {
	started, gate, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- d.Do(context.Background(), func(*Tx) error {
			close(started)
			<-gate
			return nil
		})
	}()
	<-started
	return func() {
		close(gate)
		if err := <-done; err != nil {
			d.t.Error(err)
		}
	}
}

// together hands writes in so that they share one transaction, and returns
// their errors in order.
func (d *desk) together(writes ...func(*Tx) error) []error {
	release := d.hold()
	errs := make([]error, len(writes))
	var wg sync.WaitGroup
	for i, w := range writes {
		wg.Go(func() { errs[i] = d.Do(context.Background(), w) })
		for len(d.queue) != i+1 {
			time.Sleep(50 * time.Microsecond) // the queue is the only sign of a hand-over
		}
	}
	release()
	wg.Wait()
	return errs
}

func TestAFailedWriteKeepsNothingAndItsNeighboursAreKept(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	errs := d.together(
		note("before"),
		func(tx *Tx) error { return errors.Join(note("half")(tx), errRefused) },
		func(tx *Tx) error {
			if err := note("half")(tx); err != nil {
				return err
			}
			panic("of a test")
		},
		func(tx *Tx) error { return tx.exec("INSERT INTO audit (at) VALUES ('incomplete')") },
		note("after"),
	)
	if errs[0] != nil || errs[4] != nil {
		t.Errorf("the neighbours failed: %v, %v", errs[0], errs[4])
	}
	if !errors.Is(errs[1], errRefused) {
		t.Errorf("got %v, want the caller's own error", errs[1])
	}
	if errs[2] == nil || !strings.Contains(errs[2].Error(), "panicked") {
		t.Errorf("got %v, want the panic as an error", errs[2])
	}
	if errs[3] == nil {
		t.Error("a broken row was accepted")
	}
	if got := one[string](t, d.Ledger, "SELECT group_concat(subject ORDER BY seq) FROM audit"); got != "before,after" {
		t.Errorf("kept %q, want the two neighbours alone", got)
	}
	if err := d.Integrity(t.Context()); err != nil {
		t.Error(err)
	}
}

// covers F80
func TestAPanicDoesNotShowItsValue(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	err := d.Do(t.Context(), func(*Tx) error { panic("ada@example.com") })
	if err == nil || strings.Contains(err.Error(), "ada") {
		t.Errorf("got %v, want an error without the value", err)
	}
}

func TestWritesThatArriveTogetherShareOneInstantAndOneCommit(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it speaks of PRAGMA")
	d := newDesk(t)
	watcher := rawDB(t, d.opts.Path)
	before := dataVersion(t, watcher)
	var first, last time.Time
	for _, err := range d.together(
		func(tx *Tx) error { first = tx.Now(); return note("a")(tx) },
		note("b"),
		func(tx *Tx) error { d.clock.move(time.Hour); last = tx.Now(); return note("c")(tx) },
	) {
		if err != nil {
			t.Error(err)
		}
	}
	if !first.Equal(last) {
		t.Errorf("one transaction has two instants, %v and %v", first, last)
	}
	if got := dataVersion(t, watcher) - before; got != 1 {
		t.Errorf("%d commits for three writes that arrived together, want 1", got)
	}
}

// dataVersion is a number that another connection's commits raise.
func dataVersion(t *testing.T, db *sql.DB) (v int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "PRAGMA data_version").Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestAWriteIsNotBegunAfterItsContextEnded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errRefused)
	for range 50 { // the queue has room all the time
		if err := d.Do(ctx, note("late")); !errors.Is(err, errRefused) {
			t.Fatalf("got %v, want the cause of the context's end", err)
		}
	}
	if got := entries(t, d.Ledger); got != 0 {
		t.Errorf("%d writes were made", got)
	}
}

func TestAWriteThatWasHandedOverIsWaitedFor(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	release := d.hold()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Do(ctx, note("handed over")) }()
	for len(d.queue) == 0 {
		time.Sleep(50 * time.Microsecond) // the queue is the only sign of a hand-over
	}
	cancel()
	release()
	if err := <-done; err != nil {
		t.Errorf("got %v, want to learn that the write happened", err)
	}
	if got := entries(t, d.Ledger); got != 1 {
		t.Errorf("%d entries, want 1", got)
	}
}

// covers F67
func TestCloseWaitsForWhatWasHandedIn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	release := d.hold()
	const writes = 40
	errs := make(chan error, writes)
	for i := range writes {
		go func() { errs <- d.Do(context.Background(), note(fmt.Sprint(i))) }()
	}
	for len(d.queue) < writes {
		time.Sleep(50 * time.Microsecond) // the queue is the only sign of a hand-over
	}
	closed := make(chan error, 1)
	go func() { closed <- d.Close() }()
	<-d.closing
	release()
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	for range writes {
		if err := <-errs; err != nil {
			t.Errorf("a write handed in before Close failed: %v", err)
		}
	}
	if err := d.Do(t.Context(), note("too late")); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want %v", err, ErrClosed)
	}
	if err := d.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	if got := entries(t, d.another()); got != writes {
		t.Errorf("%d entries after a restart, want %d", got, writes)
	}
}

func TestWritesRacingWithCloseAreKeptOrRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	kept := 0
	for range 32 {
		wg.Go(func() {
			for {
				err := d.Do(context.Background(), note("race"))
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				kept++
				mu.Unlock()
			}
		})
	}
	for entries(t, d.Ledger) < 100 {
		time.Sleep(time.Millisecond) // another goroutine's progress, seen in the ledger
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if got := entries(t, d.another()); got != kept {
		t.Errorf("%d writes are there, %d were acknowledged", got, kept)
	}
}

func TestReadsRacingWithCloseFailCleanly(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var wg sync.WaitGroup
	var first sync.WaitGroup
	for i := range 8 {
		first.Add(1)
		wg.Go(func() {
			for at := 0; ; at++ {
				var got int // each query is another one, so each is prepared
				err := d.queryRow(context.Background(), fmt.Sprintf("SELECT %d", i*1_000_000+at)).Scan(&got)
				if at == 0 {
					first.Done()
				}
				if err != nil {
					return
				}
			}
		})
	}
	first.Wait()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	var got int
	if err := d.queryRow(t.Context(), "SELECT 0").Scan(&got); !errors.Is(err, ErrClosed) {
		t.Errorf("a read after Close: %v, want %v", err, ErrClosed)
	}
}

// Two ledgers on one file, as two processes have them, lose nothing to each
// other and keep one chain.
func TestTwoLedgersOnOneFileTakeTurns(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const writers, each = 8, 25
	var wg sync.WaitGroup
	for i, l := range []*Ledger{d.Ledger, d.another()} {
		for w := range writers {
			wg.Go(func() {
				for n := range each {
					if err := l.Do(context.Background(), note(fmt.Sprintf("%d-%d-%d", i, w, n))); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	if got := one[int](t, d.Ledger, "SELECT count(DISTINCT subject) FROM audit"); got != 2*writers*each {
		t.Errorf("%d entries, want %d", got, 2*writers*each)
	}
	if err := d.Integrity(t.Context()); err != nil {
		t.Error(err)
	}
}

// A process that writes without a pause has the lock nearly always.
//
// covers F62
func TestOneThatWritesWithoutAPauseLeavesAnotherItsTurn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	other := d.another()
	var busy sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	started := make(chan struct{}, 1<<16)
	for range 8 {
		busy.Go(func() {
			for ctx.Err() == nil {
				if err := d.Do(context.Background(), func(tx *Tx) error {
					for range 200 {
						if err := tx.exec("UPDATE ledger SET ticket = ticket"); err != nil {
							return err
						}
					}
					return nil
				}); err != nil {
					t.Error(err)
					return
				}
				select {
				case started <- struct{}{}:
				default:
				}
			}
		})
	}
	for range 8 {
		<-started
	}
	for n := range 20 {
		if err := other.Do(t.Context(), note(fmt.Sprint(n))); err != nil {
			t.Errorf("write %d: %v", n, err)
		}
	}
	stop()
	busy.Wait()
	if got := entries(t, d.Ledger); got != 20 {
		t.Errorf("%d entries of the other process, want 20", got)
	}
}

// covers F60, L6
func TestALockHeldByAnotherProgramIsWaitedForWithinBounds(t *testing.T) {
	longtest.Story(t, longtest.Waiting)
	t.Parallel()
	onlyOnSQLite(t, "it takes the lock of the file")
	d := newDesk(t)
	other, err := rawDB(t, d.opts.Path).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lock := func(statement string) {
		t.Helper()
		if _, err := other.ExecContext(context.Background(), statement); err != nil {
			t.Fatal(err)
		}
	}

	lock("BEGIN IMMEDIATE")
	done := make(chan error, 1)
	go func() { done <- d.Do(context.Background(), note("waits")) }()
	if got := entries(t, d.Ledger); got != 0 {
		t.Errorf("a reader sees %d entries, want none, and no wait", got)
	}
	lock("COMMIT")
	if err := <-done; err != nil {
		t.Errorf("the lock is gone: %v", err)
	}

	d.do(func(tx *Tx) error { return tx.exec("PRAGMA busy_timeout = 30") })
	lock("BEGIN IMMEDIATE")
	if err := d.Do(t.Context(), note("gives up")); !Unwritable(err) || !strings.Contains(err.Error(), "locked") {
		t.Errorf("got %v, want it to say that the ledger is locked", err)
	}
	lock("ROLLBACK")
	d.do(note("works again"))
	if got := one[string](t, d.Ledger,
		"SELECT group_concat(subject ORDER BY seq) FROM audit"); got != "waits,works again" {
		t.Errorf("kept %q", got)
	}
}

func TestPingNeedsTheWriter(t *testing.T) {
	longtest.Story(t, longtest.Waiting)
	t.Parallel()
	onlyOnSQLite(t, "it speaks of PRAGMA")
	d := newDesk(t)
	if err := d.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	d.do(func(tx *Tx) error { return tx.exec("PRAGMA busy_timeout = 30") })
	other, err := rawDB(t, d.opts.Path).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	if err := d.Ping(t.Context()); err == nil {
		t.Error("a ledger that cannot be written to answers a ping")
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// A write is discarded completely when one of its statements fails, even a statement whose answer it did not
// wait for. Other writes in the same transaction are kept.
func TestAStatementThatNobodyWaitedForFailsItsOwnWriteAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	missing := errors.New("it is not there")
	broken := func(tx *Tx) error { // a law of the table forbids it
		return tx.exec("INSERT INTO attention (connection, source_id, topic, reason, detail, since) VALUES ('acme', 'nobody', 'none', '', '', '')")
	}
	steps := func(all ...func(*Tx) error) func(*Tx) error {
		return func(tx *Tx) error {
			for _, step := range all {
				if err := step(tx); err != nil {
					return err
				}
			}
			return nil
		}
	}
	read := func(tx *Tx) error { _, err := tx.Ticket(); return err }
	noRow := func(missing error) func(*Tx) error {
		return func(tx *Tx) error { return tx.must(missing, "UPDATE runs SET error = '' WHERE run_id = -1") }
	}
	tests := []struct {
		name  string
		write func(*Tx) error
		fails bool
	}{
		{"a broken one at the end", steps(note("lost 1"), broken), true},
		{"one that a read follows", steps(broken, read, note("lost 2")), true},
		{"one that changes no row", steps(noRow(missing), note("lost 3"), read), true},
		{"one whose write gives up", steps(note("lost 4"), func(*Tx) error { return missing }), true},
		{"one that may change none", steps(noRow(nil), note("kept 1")), false},
		{"one at the end that changes no row", steps(note("lost 5"), noRow(missing)), true},
		{"one that is in order", steps(note("kept 2"), read), false},
		{"one whose write gives up before anything was sent", func(*Tx) error { return missing }, true},
		{"the last", note("kept 3"), false},
	}
	var writes []func(*Tx) error
	for _, tt := range tests {
		writes = append(writes, tt.write)
	}
	for i, err := range d.together(writes...) {
		if (err != nil) != tests[i].fails {
			t.Errorf("%s: %v", tests[i].name, err)
		}
	}
	kept, err := d.ids(t.Context(),
		"SELECT subject FROM audit WHERE subject LIKE 'kept%' OR subject LIKE 'lost%' ORDER BY subject")
	if diff := cmp.Diff([]string{"kept 1", "kept 2", "kept 3"}, kept); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
