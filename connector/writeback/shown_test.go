package writeback_test

import (
	"errors"
	"testing"

	"payersync/connector"
	"payersync/connector/outbox"
	"payersync/connector/writeback"
)

// A person approves the writes of one field. Nobody has written to either field, so only the hash tells the two apart.
func TestAnApprovalIsForTheShownFieldAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 2)
	d.observed(connector.MandateActive, 0, 1)
	shown := d.plan().Batch
	d.books.setup = "field another"
	if _, err := writeback.Approve(t.Context(), d.ledger, d.connection(), shown, "ada",
		""); !errors.Is(err, outbox.ErrChanged) {
		t.Errorf("with another field: %v", err)
	}
	d.books.setup = "field dd_status"
	other := newDesk(t, 2)
	other.observed(connector.MandateActive, 0, 1)
	other.name = "other"
	other.fill("other", 2)
	other.observed(connector.MandateActive, 0, 1)
	if _, err := writeback.Approve(t.Context(), other.ledger, other.connection(), shown, "ada",
		""); !errors.Is(err, outbox.ErrChanged) {
		t.Errorf("with another connection: %v", err)
	}
	if n, err := writeback.Approve(t.Context(), d.ledger, d.connection(), shown, "ada", ""); n != 2 || err != nil {
		t.Errorf("as shown: %d, %v", n, err)
	}
}

// The plan shows for each field what the run then makes of it.
func TestAPlanShowsWhatTheRunWrites(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 5)
	d.settled(connector.MandateCreated, 0, 1, 2, 3)
	d.books.edit("C0001", "cheque")
	d.books.closed["C0002"] = "it is archived"
	delete(d.books.field, "C0003")
	d.observed(connector.MandateActive, 0, 1, 2, 3, 4)
	var items []writeback.Item
	p, err := writeback.MakePlan(t.Context(), d.ledger, d.connection(),
		func(i writeback.Item) { items = append(items, i) })
	if err != nil || p.Count(writeback.Due) != 5 {
		t.Fatalf("%d are due, %v", p.Count(writeback.Due), err)
	}
	shown, err := d.connection().Show(t.Context(), d.ledger, items)
	if err != nil || d.books.writes != 4 {
		t.Fatalf("%v, %d writes", err, d.books.writes)
	}
	r := d.run()
	if r.Written != 2 || r.Theirs != 1 || r.Refused != 2 {
		t.Errorf("the run: %+v", r)
	}
	for n, want := range []string{"dd active", "", "", "", "dd active"} {
		s, becomes := shown[n], ""
		if s.Becomes != nil {
			becomes = *s.Becomes
		}
		if becomes != want || (want == "") != (s.Why != "") || want != "" && d.books.field[s.SourceID] != want {
			t.Errorf("%s was shown to become %q (%s), and holds %q", s.SourceID, becomes, s.Why, d.books.field[s.SourceID])
		}
	}
}

// After an approval the list of what needs somebody does not ask again before the next run.
func TestApprovedWritesNoLongerWait(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 2)
	d.observed(connector.MandateActive, 0, 1)
	waiting := func() (int, bool) {
		runs, err := d.ledger.WritebackRuns(t.Context())
		if err != nil || len(runs) != 1 {
			t.Fatalf("%+v, %v", runs, err)
		}
		return runs[0].Waiting, runs[0].WaitsAt.IsZero()
	}
	d.run()
	if n, never := waiting(); n != 2 || never {
		t.Errorf("%d wait after the first run", n)
	}
	d.approve()
	if n, never := waiting(); n != 0 || !never {
		t.Errorf("%d wait after the approval", n)
	}
}
