package writeback_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/writeback"
	"payersync/state"
)

// A process may die at each commit. The next one leaves every field as it should be, and no
// record is written to twice without a read in between.
//
// covers F149
func TestKilledAtEveryCommitEachFieldEndsAsItShould(t *testing.T) {
	t.Parallel()
	const n = 4
	errKilled := errors.New("killed")
	for at := 1; ; at++ {
		d := newDesk(t, n)
		d.observed(connector.MandateActive, upTo(n)...)
		d.approve()
		commits, dead := 0, false
		d.commit = func(done bool) error {
			if !done {
				if dead {
					return errKilled
				}
				if commits++; commits == at {
					dead = true
					return errKilled
				}
			}
			return nil
		}
		d.books.before = func(string) {
			if dead {
				t.Errorf("commit %d failed, and something was sent", at)
			}
		}
		_, err := (&writeback.Run{Target: d.connection(), Ledger: d.ledger}).Do(context.Background())
		d.commit, d.books.before = nil, nil
		if err == nil && !dead {
			t.Logf("%d commits", commits)
			if commits < 3*n {
				t.Errorf("only %d commits for %d writes", commits, n)
			}
			return
		}
		d.start()
		for range 2 {
			d.now = d.now.Add(time.Hour)
			d.run()
		}
		for id, value := range d.books.field {
			if value != "dd active" {
				t.Errorf("killed at commit %d: %s holds %q", at, id, value)
			}
		}
		if d.books.writes != n || len(d.doing()) != 0 {
			t.Errorf("killed at commit %d: %d writes, to do %v", at, d.books.writes, d.doing())
		}
	}
}

// The answer is lost, whether or not the write was made; what a colleague does until then
// counts.
//
// covers F149
func TestALostAnswerIsReadBack(t *testing.T) {
	t.Parallel()
	lost := errors.New("the answer is lost")
	for name, c := range map[string]struct {
		made  bool
		then  string // what a colleague writes
		want  string
		total int
	}{
		"made":                  {made: true, want: "dd active", total: 1},
		"not made":              {want: "dd active", total: 1},
		"made, and then edited": {made: true, then: "cheque", want: "cheque", total: 1},
		"not made, then edited": {then: "cheque", want: "cheque", total: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, 1)
			d.observed(connector.MandateActive, 0)
			d.approve()
			d.books.answer = func(string) error { return lost }
			if !c.made {
				d.books.refuse = func(string) error { return lost }
			}
			if r := d.run(); r.Err == nil || r.Later != 1 {
				t.Errorf("the run: %+v", r)
			}
			d.expect("unclear", map[string]writeback.Doing{"C0000": writeback.Unclear})
			if c.then != "" {
				d.books.edit("C0000", c.then)
			}
			d.books.answer, d.books.refuse = nil, nil
			d.start()
			for range 3 {
				d.now = d.now.Add(time.Hour)
				d.run()
			}
			if d.books.field["C0000"] != c.want || d.books.writes != c.total {
				t.Errorf("it holds %q after %d writes, want %q after %d", d.books.field["C0000"], d.books.writes, c.want, c.total)
			}
		})
	}
}

func TestTwoConnectionsDoNotTouchEachOther(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 3)
	d.fill("globex", 3)
	d.settled(connector.MandateActive, 0, 1, 2)
	other := *d
	other.name, other.books = "globex", newBooks(3)
	other.observed(connector.MandateCreated, 1)
	if r := other.run(); r.Waiting != 1 || r.Written != 0 {
		t.Errorf("what was approved for one connection lets the other go: %+v", r)
	}
	other.approve()
	if r := other.run(); r.Written != 1 || other.books.field["C0001"] != "dd asked" ||
		d.books.field["C0001"] != "dd active" {
		t.Errorf("the other: %+v, %v and %v", r, other.books.field, d.books.field)
	}
	if r := d.run(); r.Written != 0 {
		t.Errorf("the first: %+v", r)
	}
}

// blind is a system in which the field cannot be read.
type blind struct {
	sent map[string][]string // the ids under which a body came
	fail error
}

func (b *blind) Setup() string                                   { return "blind" }
func (b *blind) Says() []connector.FieldStatus                   { return connector.FieldStatuses }
func (b *blind) Value(to connector.FieldStatus, _ string) string { return string(to) }
func (b *blind) Freeze(w connector.Write) ([]byte, error)        { return json.Marshal(w) }
func (b *blind) Send(_ context.Context, id string, frozen []byte) error {
	b.sent[id] = append(b.sent[id], string(frozen))
	return b.fail
}

func TestASystemThatCannotBeReadIsToldTheSameAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1)
	d.observed(connector.MandateCreated, 0)
	to := &blind{sent: map[string][]string{}, fail: errors.New("no answer")}
	c := writeback.Target{Name: "acme", Writer: to}
	run := func() {
		t.Helper()
		if _, err := (&writeback.Run{Target: c, Ledger: d.ledger}).Do(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	p, err := writeback.MakePlan(t.Context(), d.ledger, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writeback.Approve(t.Context(), d.ledger, c, p.Batch, "ada", ""); err != nil {
		t.Fatal(err)
	}
	run()
	d.observed(connector.MandateActive, 0) // news wait until that was taken
	for range 24 * 6 {
		d.now = d.now.Add(10 * time.Minute)
		run()
	}
	ids := slices.Collect(maps.Keys(to.sent))
	if len(ids) != 1 || len(to.sent[ids[0]]) > 12 || len(slices.Compact(to.sent[ids[0]])) != 1 {
		t.Fatalf("in a day of silence it was told %v", to.sent)
	}
	to.fail = nil
	for range 24 * 6 {
		d.now = d.now.Add(10 * time.Minute)
		run()
	}
	if len(to.sent) != 2 {
		t.Errorf("when it is back it was told %v", to.sent)
	}
}

// A ledger that was put back knows what mandates were once. Nothing of that is written before a
// sweep has read what they are; what was written meanwhile is found in the field.
//
// covers F149
func TestARestoredLedgerWritesNothingBeforeASweep(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 3)
	d.settled(connector.MandateCreated, 0, 1, 2)
	d.do((*state.Tx).MarkRestored)
	d.books.edit("C0000", "dd active") // which the lost part of the ledger knew
	d.observed(connector.MandatePending, 0, 1)
	if r := d.run(); r.Written != 0 || r.Later != 3 || !strings.Contains(r.Problem, "A sweep reads it") ||
		d.books.field["C0001"] != "dd asked" {
		t.Errorf("before a sweep: %+v, %v", r, d.books.field)
	}
	d.now = d.now.Add(time.Minute)
	d.observed(connector.MandateActive, 0)
	d.do(func(tx *state.Tx) error {
		list, err := tx.BeginPass()
		return errors.Join(err, tx.FinishPass(list))
	})
	if r := d.run(); r.Written != 1 || r.Already != 1 || r.Theirs != 0 || d.books.field["C0001"] != "dd signed" {
		t.Errorf("behind the sweep: %+v, %v", r, d.books.field)
	}
}
