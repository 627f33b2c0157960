package state

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// decideBooks takes a decision about two connections and returns whether it was news, and why it was
// not taken.
func (d *desk) decideBooks(from, to string, decision BooksDecision) (news bool, err error) {
	d.t.Helper()
	err = d.Do(context.Background(), func(tx *Tx) (err error) {
		news, err = tx.DecideConnections(ConnectionDecision{Old: from, New: to, Decision: decision, Actor: "ann",
			Reason: "new books"})
		return err
	})
	return news, err
}

// takeBooksBack takes a decision about two connections back.
func (d *desk) takeBooksBack(from, to string, decision BooksDecision) error {
	d.t.Helper()
	return d.Do(context.Background(), func(tx *Tx) error {
		return tx.TakeConnectionDecisionBack(ConnectionDecision{Old: from, New: to, Decision: decision, Actor: "ben",
			Reason: "a mistake"})
	})
}

// covers F230
func TestADecisionAboutTwoConnectionsContradictsNoOther(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, name := range []string{acme, "beta", "gamma"} {
		d.pin(name)
	}
	for _, s := range []struct {
		from, to string
		decision BooksDecision
		news     bool
		err      error
	}{
		{acme, acme, BooksMoved, false, ErrSameConnection},
		{"nobody", acme, BooksMoved, false, ErrNoConnection},
		{acme, "beta", BooksMoved, true, nil},
		{acme, "beta", BooksMoved, false, nil},
		{acme, "beta", BooksSeparate, false, ErrConnectionDecided},
		{"beta", acme, BooksMoved, false, ErrConnectionDecided},
		{acme, "gamma", BooksMoved, false, ErrConnectionDecided}, // it moved to beta
		{"gamma", acme, BooksMoved, false, ErrConnectionDecided}, // acme is closed
		{acme, "gamma", BooksSeparate, true, nil},
		{"gamma", acme, BooksSeparate, false, nil}, // the same, in the other direction
		{"beta", "gamma", BooksMoved, true, nil},   // books move on
	} {
		if news, err := d.decideBooks(s.from, s.to, s.decision); news != s.news || !errors.Is(err, s.err) {
			t.Errorf("%s %s, %s: news %t, %v; want %t, %v", s.from, s.to, s.decision, news, err, s.news, s.err)
		}
	}
	got, err := d.ConnectionsDecided(t.Context(), acme)
	if want := map[string]BooksDecision{"beta": BooksMoved, "gamma": BooksSeparate}; err != nil || !cmp.Equal(want, got) {
		t.Errorf("about acme: %v, %v; want %v", got, err, want)
	}
	if err := d.takeBooksBack(acme, "beta", BooksMoved); !errors.Is(err, ErrConnectionDecided) {
		t.Errorf("a move is taken back although the books moved on: %v", err)
	}
}

// covers F230
func TestADecisionAboutTwoConnectionsIsTakenBack(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.save(d.run("beta"), "beta", record("b1", "x"))
	d.pin(acme)
	d.do(func(tx *Tx) error { return tx.exec("UPDATE source_records SET replan = 0") })
	if _, err := d.decideBooks(acme, "beta", BooksMoved); err != nil {
		t.Fatal(err)
	}
	moved, err := d.MovedTo(t.Context(), acme)
	want := &ConnectionDecision{acme, "beta", BooksMoved, "ann", "new books", d.clock.now()}
	if diff := cmp.Diff(want, moved, cmpopts.EquateApproxTime(time.Second)); err != nil || diff != "" {
		t.Errorf("where the books are (-want +got, %v):\n%s", err, diff)
	}
	if n := one[int](t, d.Ledger, "SELECT count(*) FROM source_records WHERE replan = 1"); n != 1 {
		t.Errorf("the next plan looks at %d records of the new connection", n)
	}
	for _, want := range []error{nil, ErrNotDecided} {
		if err := d.takeBooksBack(acme, "beta", BooksMoved); !errors.Is(err, want) {
			t.Errorf("it is taken back: %v; want %v", err, want)
		}
	}
	if moved, err := d.MovedTo(t.Context(), acme); err != nil || moved != nil {
		t.Errorf("the books are at %+v, %v", moved, err)
	}
	if n := one[int](t, d.Ledger,
		"SELECT count(*) FROM audit WHERE action IN ('move connection', 'take connection move back') AND subject = 'acme beta'"); n != 2 {
		t.Errorf("the audit log has %d entries", n)
	}
	if news, err := d.decideBooks(acme, "beta", BooksSeparate); err != nil || !news {
		t.Errorf("another decision after it: news %t, %v", news, err)
	}
	if err := d.takeBooksBack("beta", acme, BooksSeparate); err != nil {
		t.Errorf("in the other direction: %v", err)
	}
}

// ConnectionsDecided returns the other connections with a decision about this one, as the old or as
// the new one.
func (l *Ledger) ConnectionsDecided(ctx context.Context, connection string) (map[string]BooksDecision, error) {
	all, err := l.ConnectionDecisions(ctx)
	out := map[string]BooksDecision{}
	for _, d := range all {
		switch connection {
		case d.New:
			out[d.Old] = d.Decision
		case d.Old:
			out[d.New] = d.Decision
		}
	}
	return out, err
}
