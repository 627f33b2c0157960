package state

import (
	"fmt"
	"strings"
	"testing"

	"payersync/connector"
)

// capPages lets the file grow by so many pages at most, as a full disk would; 0
// gives the space back.
func (d *desk) capPages(more int) {
	d.t.Helper()
	d.do(func(tx *Tx) error {
		var pages int
		if err := tx.row([]any{&pages}, "PRAGMA page_count"); err != nil {
			return err
		}
		limit := pages + more
		if more == 0 {
			limit = 1 << 30
		}
		var now int
		return tx.row([]any{&now}, fmt.Sprintf("PRAGMA max_page_count = %d", limit))
	})
}

// covers F59, L6
func TestAFullDiskFailsClosedAndRecovers(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it limits the pages of the file")
	d := newDesk(t)
	d.capPages(8)
	kept, refused := 0, error(nil)
	for refused == nil {
		refused = d.Do(t.Context(), receiveBig(fmt.Sprint("d", kept)))
		if refused == nil {
			kept++
		}
	}
	if !Unwritable(refused) || Unwritable(ErrNoPayer) || !strings.Contains(refused.Error(), "full") ||
		!strings.Contains(refused.Error(), "make room") {
		t.Errorf("got %q, want it to say that the disk is full and what to do", refused)
	}
	if got := one[int](t, d.Ledger, "SELECT count(*) FROM inbox"); got != kept {
		t.Errorf("%d rows are there, %d were acknowledged", got, kept)
	}
	if err := d.Integrity(t.Context()); err != nil {
		t.Error(err)
	}
	d.capPages(0)
	if err := d.Do(t.Context(), receiveBig("after")); err != nil {
		t.Errorf("space is back: %v", err)
	}
}

// receiveBig stores a delivery that needs new pages, also where migrations left free ones.
func receiveBig(key string) func(*Tx) error {
	return func(tx *Tx) error {
		_, err := tx.Receive(Delivery{Key: key, Body: make([]byte, 100_000), State: connector.InboxReceived})
		return err
	}
}

// SQLite may give up a whole transaction when the disk is full. Whoever shares
// it is told so, and a write that carries on regardless commits nothing.
//
// covers F59
func TestAFullDiskTakesTheWholeCommitAlong(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it limits the pages of the file")
	d := newDesk(t)
	d.capPages(1)
	errs := d.together(
		note("neighbour"),
		func(tx *Tx) error {
			_ = receiveBig("too big")(tx)
			_ = receiveBig("too big as well")(tx) // its error is lost on purpose
			_ = tx.exec("UPDATE ledger SET ticket = 99")
			var n int
			_ = tx.row([]any{&n}, "UPDATE ledger SET ticket = 98 RETURNING ticket")
			return nil
		},
		note("another neighbour"),
	)
	for i, err := range errs {
		if err == nil {
			t.Errorf("write %d was acknowledged", i)
		}
	}
	if n, ticket := entries(t, d.Ledger), one[int](t, d.Ledger, "SELECT ticket FROM ledger"); n != 0 || ticket != 0 {
		t.Errorf("%d entries and ticket %d were kept, want none", n, ticket)
	}
	d.capPages(0)
	d.do(note("later"))
}

// Every write of a fixed story is tried with room for n more pages, n growing
// until it passes: it fails whole or passes whole.
//
// covers F59, F70
func TestEveryWriteFailsWholeWhenSpaceRunsOutInIt(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "it limits the pages of the file")
	d := newDesk(t)
	for n := 1; ; n++ {
		d.capPages(n)
		err := d.Do(t.Context(), func(tx *Tx) error {
			for i := range 12 {
				if err := receiveBig(fmt.Sprint("s", i))(tx); err != nil {
					return err
				}
				if err := note(fmt.Sprint("s", i))(tx); err != nil {
					return err
				}
			}
			return nil
		})
		deliveries, notes := one[int](t, d.Ledger, "SELECT count(*) FROM inbox"), entries(t, d.Ledger)
		if err == nil {
			if deliveries != 12 || notes != 12 {
				t.Errorf("acknowledged, but %d and %d rows of 12 are there", deliveries, notes)
			}
			return
		}
		if deliveries != 0 || notes != 0 {
			t.Fatalf("room for %d pages: refused with %v, but %d and %d rows are there", n, err, deliveries, notes)
		}
	}
}
