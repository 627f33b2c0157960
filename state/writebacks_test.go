package state

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

var field = RecordID{acme, "c1"}

// written returns what is known of c1's field, as setup s.
func (d *desk) written(setup string) (p WritebackPayer) {
	d.t.Helper()
	err := d.EachWriteback(d.t.Context(), acme, setup, func(found WritebackPayer) error { p = found; return nil })
	if err != nil {
		d.t.Fatal(err)
	}
	return p
}

func (d *desk) freezeWrite(id string, to connector.FieldStatus) {
	d.t.Helper()
	d.do(func(tx *Tx) error {
		return tx.FreezeWrite(FrozenWrite{RecordID: field, Setup: "s", ID: id, Wanted: to,
			Field: WritebackField{Earlier: text("cash")}, Body: []byte("set " + to)})
	})
}

func text(s string) *string { return &s }

func TestAWriteIsFrozenSentAndNoted(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	if p := d.written("s"); p.Applied != connector.FieldNone || !p.AppliedAt.IsZero() || !p.Open ||
		p.BillingID != "b1" {
		t.Errorf("before anything was written: %+v", p)
	}
	d.freezeWrite("w1", connector.FieldActive)
	if p := d.written("s"); p.Wanted != connector.FieldActive || p.WriteID != "w1" || !p.SentAt.IsZero() ||
		p.DayWrites != 1 {
		t.Errorf("frozen: %+v", p)
	}
	if body, err := d.WritebackRequest(t.Context(), field); string(body) != "set active" || err != nil {
		t.Errorf("the frozen bytes are %q, %v", body, err)
	}
	d.do(func(tx *Tx) error { return tx.SendWrite(field, "w1") })
	d.do(func(tx *Tx) error { return tx.WriteUnclear(field, "w1", "no answer") })
	if p := d.written("s"); p.Attempts != 1 || !p.SentAt.Equal(d.Now()) || p.Problem != "no answer" {
		t.Errorf("sent: %+v", p)
	}
	// of a request that is not open
	d.do(func(tx *Tx) error { return tx.WriteApplied(field, "another", WritebackField{}) })
	if p := d.written("s"); p.Applied != connector.FieldNone {
		t.Errorf("a stranger's answer counts: %+v", p)
	}
	d.do(func(tx *Tx) error {
		return tx.WriteApplied(field, "w1", WritebackField{Earlier: text("cash"), Holds: text("debit")})
	})
	p := d.written("s")
	if p.Applied != connector.FieldActive || p.Wanted != "" || p.Problem != "" || !p.AppliedAt.Equal(d.Now()) {
		t.Errorf("applied: %+v", p)
	}
	got, err := d.WritebackField(t.Context(), field, "s")
	if diff := cmp.Diff(WritebackField{Earlier: text("cash"), Holds: text("debit")}, got); diff != "" || err != nil {
		t.Errorf("the field (-want +got):\n%s%v", diff, err)
	}
	held, err := d.SubjectData(t.Context(), field)
	if err != nil || held.WrittenBack == nil || held.WrittenBack.Says != connector.FieldActive ||
		*held.WrittenBack.Holds != "debit" {
		t.Errorf("held about the payer: %+v, %v", held.WrittenBack, err)
	}
	if p := d.written("another setup"); p.Applied != connector.FieldNone {
		t.Errorf("what one setup wrote counts for another: %+v", p)
	}
	for range 2 {
		d.freezeWrite("w2", connector.FieldCancelled)
	}
	d.do(func(tx *Tx) error { return tx.WriteDropped(field, "w2", true) })
	if p := d.written("s"); p.DayWrites != 2 || p.Wanted != "" || !p.FrozenAt.IsZero() {
		t.Errorf("one that never left: %+v", p)
	}
	d.clock.move(24 * time.Hour)
	d.freezeWrite("w3", connector.FieldCancelled)
	if p := d.written("s"); p.DayWrites != 1 {
		t.Errorf("the next day: %+v", p)
	}
	d.do(func(tx *Tx) error { return tx.WriteRefused(field, "s", connector.FieldCancelled, "no such row") })
	if p := d.written("s"); p.Refused != connector.FieldCancelled || p.Wanted != "" || p.Problem != "no such row" ||
		p.Applied != connector.FieldActive {
		t.Errorf("refused: %+v", p)
	}
}

func TestAFieldThatSomebodyElseChangedIsTheirsUntilItIsTaken(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	d.do(func(tx *Tx) error {
		return tx.FieldSays(field, "s", connector.FieldActive, WritebackField{Holds: text("debit")})
	})
	d.do(func(tx *Tx) error {
		return tx.FieldIsTheirs(field, "s", WritebackField{Holds: text("debit"), Foreign: text("cheque")}, "")
	})
	if p := d.written("s"); p.ForeignAt.IsZero() || p.Applied != connector.FieldActive {
		t.Errorf("theirs: %+v", p)
	}
	take := func(want bool) {
		t.Helper()
		d.do(func(tx *Tx) error {
			if took, err := tx.TakeField(field, "s"); took != want || err != nil {
				t.Errorf("taken %v, %v", took, err)
			}
			return nil
		})
	}
	take(true)
	take(false)
	if p := d.written("s"); !p.ForeignAt.IsZero() || p.Applied != connector.FieldActive || !p.Taken || !p.Doubted {
		t.Errorf("taken: %+v", p)
	}
	if f, err := d.WritebackField(t.Context(), field, "s"); err != nil || f.Holds == nil || *f.Holds != "debit" {
		t.Errorf("what it held of ours is %+v, %v", f, err)
	}
	d.freezeWrite("w1", connector.FieldCancelled)
	d.do(func(tx *Tx) error { return tx.WriteApplied(field, "w1", WritebackField{Holds: text("none")}) })
	if p := d.written("s"); p.Taken || p.Doubted {
		t.Errorf("written to since: %+v", p)
	}
	d.clock.move(24 * time.Hour)
	take(false) // what was written on another day is no limit
	d.do((*Tx).MarkRestored)
	if p := d.written("s"); p.Taken || !p.Doubted {
		t.Errorf("put back since: %+v", p)
	}
}

func TestAReadingThatShowsOnlyOurWriteIsAnEcho(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	write := func() {
		d.freezeWrite("w", connector.FieldActive)
		d.do(func(tx *Tx) error { return tx.WriteApplied(field, "w", WritebackField{}) })
	}
	read := func(change string) Counts {
		run := d.run(acme)
		found, err := d.StoredRecord(t.Context(), acme, "c1", mapping)
		if err != nil {
			t.Fatal(err)
		}
		r := found.Record
		r.Origin = "another row"
		if change != "" {
			r.Data = []byte(change)
		}
		d.do(func(tx *Tx) error { return tx.SavePage(run, acme, []connector.Record{r}) })
		c, _ := d.closeRun(run, connector.RunFailed)
		return c
	}
	if c := read(""); c.OwnEchoes != 0 {
		t.Errorf("before anything was written: %d echoes", c.OwnEchoes)
	}
	write()
	if c := read(""); c.OwnEchoes != 1 {
		t.Errorf("behind our write: %d echoes", c.OwnEchoes)
	}
	if c := read(""); c.OwnEchoes != 0 {
		t.Errorf("the second reading: %d echoes", c.OwnEchoes)
	}
	write()
	if c := read(`{"name":"changed"}`); c.OwnEchoes != 0 {
		t.Errorf("another change beside ours: %d echoes", c.OwnEchoes)
	}
	if c := read(""); c.OwnEchoes != 0 || d.written("s").Echoes != 1 {
		t.Errorf("behind it: %d echoes, %d in all", c.OwnEchoes, d.written("s").Echoes)
	}
}

func TestAnApprovalIsOfExactlyWhatWasShown(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	if ever, err := d.WritebackApproved(t.Context(), acme, "s"); ever || err != nil {
		t.Errorf("approved before: %v, %v", ever, err)
	}
	d.do(func(tx *Tx) error {
		return tx.ApproveWriteback(WritebackApproval{Connection: acme, Setup: "s", Batch: "abc",
			Writes: map[string]connector.FieldStatus{"c1": connector.FieldActive}}, "ada")
	})
	if p := d.written("s"); p.Approved != connector.FieldActive {
		t.Errorf("approved: %+v", p)
	}
	ever, err := d.WritebackApproved(t.Context(), acme, "s")
	other, err2 := d.WritebackApproved(t.Context(), acme, "another")
	if !ever || other || err != nil || err2 != nil {
		t.Errorf("approved %v and of another setup %v: %v, %v", ever, other, err, err2)
	}
	if n := one[int](t, d.Ledger, "SELECT count(*) FROM audit WHERE action = 'approve writeback'"); n != 1 {
		t.Errorf("%d lines in the audit log", n)
	}
}

func TestRunsOfWriteBackKeepSinceWhenTheyWait(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.Now()
	for _, waiting := range []int{3, 5, 0} {
		d.do(func(tx *Tx) error {
			return tx.NoteWriteback(WritebackRun{Connection: acme, Waiting: waiting, Stuck: 1})
		})
		runs, err := d.WritebackRuns(t.Context())
		if err != nil || len(runs) != 1 || runs[0].Waiting != waiting || runs[0].WaitsAt.IsZero() != (waiting == 0) ||
			waiting > 0 && !runs[0].WaitsAt.Equal(first) || !runs[0].StuckAt.Equal(first) {
			t.Errorf("with %d waiting: %+v, %v", waiting, runs, err)
		}
		d.clock.move(time.Hour)
	}
}

func TestAForgottenPayersFieldIsForgotten(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.planLinkedPayer("c1", "b1")
	d.freezeWrite("w1", connector.FieldActive)
	d.over()
	d.forget("c1")
	if p := d.written("s"); p.Open || p.Wanted != "" {
		t.Errorf("it is %+v", p)
	}
	if n := one[int](t, d.Ledger,
		"SELECT count(*) FROM writebacks WHERE field IS NOT NULL OR request IS NOT NULL"); n != 0 {
		t.Errorf("%d rows hold something", n)
	}
}

func TestWritebacksOfSomePayersAreWhatAllOfThemAreSaidToBe(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, id := range []string{"c1", "c2", "c3"} {
		d.planLinkedPayer(id, "b"+id)
	}
	d.freezeWrite("w1", connector.FieldActive)
	var want []WritebackPayer
	if err := d.EachWriteback(t.Context(), acme, "s", func(p WritebackPayer) error {
		if p.SourceID != "c2" {
			want = append(want, p)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	got, err := d.WritebacksOf(t.Context(), acme, "s", []string{"c3", "c1", "gone"})
	if diff := cmp.Diff(want, got); diff != "" || err != nil || len(got) != 2 ||
		got[0].Wanted != connector.FieldActive || got[0].RecordID != field {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if others, err := d.WritebacksOf(t.Context(), "beta", "s", []string{"c1"}); err != nil || len(others) > 0 {
		t.Errorf("of other books: %+v, %v", others, err)
	}
}
