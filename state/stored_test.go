package state

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
)

// stored returns a record of acme as a plan with the usual mapping would meet it.
func (d *desk) stored(id string) StoredRecord {
	d.t.Helper()
	r, err := d.StoredRecord(d.t.Context(), acme, id, mapping)
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// Weigh is asked about a decision before it is saved, FinishPlan afterwards.
func TestADecisionWeighsWhatThePlanWillCountOfIt(t *testing.T) {
	t.Parallel()
	r := record("c1", "c1")
	update := func() *NewChange {
		return &NewChange{
			Action: connector.ActionUpdate, Wanted: customer("c1", "New"), BillingID: "b1",
			Diff: []connector.FieldChange{{Path: "name", From: "Old", To: "New"}, {Path: "people[0].phone", From: "1"},
				{Path: "people[0].email", To: "a@b.example"}},
		}
	}
	create := &NewChange{Action: connector.ActionCreate, Wanted: customer("c1", "c1")}
	linked := func(d *desk, run int64) { // without a change
		d.save(run, acme, r)
		d.decide(run, acme, included(r, nil))
		d.link(acme, "c1", "b1")
		d.do(func(tx *Tx) error { return tx.SetApplied(d.payerOf(acme, "c1"), customer("c1", "Old")) })
	}
	withLink := func(v Decision) Decision {
		v.Link = true
		return v
	}
	approve := func(d *desk, run int64) {
		p := d.finishPlan(run)
		d.do(func(tx *Tx) error { return tx.ApproveWithinLimits(p.ID) })
	}
	for name, c := range map[string]struct {
		before   func(*desk, int64)
		decision Decision
		want     Weight
	}{
		"a create": {func(d *desk, run int64) { d.save(run, acme, r) }, included(r, create), Weight{Creates: 1}},
		"a create with link": {func(d *desk, run int64) { d.save(run, acme, r) }, withLink(included(r, create)),
			Weight{Creates: 1}},
		"a create that was approved": {func(d *desk, run int64) {
			d.planCreate(run, acme, "c1")
			approve(d, run)
		}, included(r, create), Weight{}},
		"another create than was approved": {func(d *desk, run int64) {
			d.planCreate(run, acme, "c1")
			approve(d, run)
		}, included(r, &NewChange{Action: connector.ActionCreate, Wanted: customer("c1", "other")}), Weight{Creates: 1}},
		"an adoption": {func(d *desk, run int64) { d.save(run, acme, r) },
			included(r, &NewChange{Action: connector.ActionAdopt, Wanted: customer("c1", "c1"), BillingID: "b1"}),
			Weight{Changes: 1}},
		"an update":           {linked, included(r, update()), Weight{Changes: 1, Blanks: 1, Identity: 1}},
		"an update with link": {linked, withLink(included(r, update())), Weight{Changes: 2, Blanks: 1, Identity: 1}},
		"a link":              {linked, withLink(included(r, nil)), Weight{Changes: 1}},
		"a link that was approved": {func(d *desk, run int64) {
			linked(d, run)
			d.decide(run, acme, withLink(included(r, nil)))
			approve(d, run)
		}, withLink(included(r, nil)), Weight{}},
		"a link that was sent": {func(d *desk, run int64) {
			linked(d, run)
			d.decide(run, acme, withLink(included(r, nil)))
			d.do(func(tx *Tx) error {
				_, err := tx.Attempt(run, d.open(acme, "c1", LaneMandate))
				return err
			})
		}, withLink(included(r, nil)), Weight{}},
		"the first update of a customer that a create without an answer made": {func(d *desk, run int64) {
			made := d.planCreate(run, acme, "c1")
			d.do(func(tx *Tx) error {
				if _, err := tx.FreezeCreate(run, made, []byte("{}"), 0); err != nil {
					return err
				}
				if err := tx.CloseWith(run, made, connector.ChangeDone, "", ""); err != nil {
					return err
				}
				return tx.LinkPayer(made.Payer, "b1", true)
			})
		}, included(r, update()), Weight{Blanks: 1, Identity: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			run := d.run(acme)
			c.before(d, run)
			said := d.stored("c1").Weigh(c.decision)
			d.decide(run, acme, c.decision)
			counted := d.finishPlan(run).Open
			if said != c.want || counted != c.want {
				t.Errorf("it is said to weigh %+v, the plan counts %+v, want %+v", said, counted, c.want)
			}
		})
	}
}

func TestACustomerInFlightIsWeighedByTheLinkThatWaitsForIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	r := record("c1", "c1")
	d.save(run, acme, r)
	v := included(r, &NewChange{Action: connector.ActionUpdate, Wanted: customer("c1", "c1"), BillingID: "b1"})
	v.Link = true
	d.decide(run, acme, v)
	d.link(acme, "c1", "b1")
	d.do(func(tx *Tx) error {
		_, err := tx.FreezeUpdate(run, d.open(acme, "c1", LaneCustomer), []byte("{}"), []byte("{}"))
		return err
	})
	stored := d.stored("c1")
	want := Weight{Changes: 1}
	if got := stored.Weigh(Decision{SourceID: "c1", Verdict: stored.Verdict}); !stored.InFlight || got != want ||
		d.finishPlan(run).Open != want {
		t.Errorf("in flight is %t, it weighs %+v, the plan counts %+v, want %+v", stored.InFlight, got,
			d.finishPlan(run).Open, want)
	}
}

func TestARecordIsSettledUntilSomethingMayHaveChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*desk, int64)
		want   bool
	}{
		"nothing":        {func(*desk, int64) {}, true},
		"its content":    {func(d *desk, run int64) { d.save(run, acme, record("c1", "other")) }, false},
		"a pending link": {func(d *desk, run int64) { d.planLink(run, "c1", "b1") }, false},
		"a word of ours": {func(d *desk, _ int64) { d.retry("c1") }, false},
		"a doubled key": {func(d *desk, _ int64) {
			d.do(func(tx *Tx) error {
				return tx.Hold(Payer{Connection: acme, SourceID: "c1"}, connector.LinkConflict, connector.ReasonKeyDoubled)
			})
		}, false},
		"what a person is told": {func(d *desk, _ int64) { d.attend("c1", connector.ReasonKeyDoubled) }, true},
		"another mapping": {func(d *desk, _ int64) {
			d.do(func(tx *Tx) error { return tx.exec("UPDATE source_records SET planned_mapping = 'other'") })
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			run := d.run(acme)
			r := record("c1", "c1")
			d.save(run, acme, r)
			if before := d.stored("c1"); before.UpToDate || before.Verdict != "" {
				t.Errorf("a record that was never planned is %+v", before)
			}
			d.decide(run, acme, included(r, nil))
			c.change(d, run)
			if got := d.stored("c1"); got.UpToDate != c.want || got.Verdict != Included {
				t.Errorf("settled is %t, want %t; the verdict is %q", got.UpToDate, c.want, got.Verdict)
			}
		})
	}
}

func (d *desk) retry(id string) {
	d.do(func(tx *Tx) error {
		_, err := tx.RetryRecord(acme, id)
		return err
	})
}

func (d *desk) attend(id string, reason connector.Reason) {
	d.do(func(tx *Tx) error { return tx.tell(acme, id, TopicLink, reason, "") })
}

func TestStoredRecordsLeaveOutWhatTheLastCompleteReadDidNotShow(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.run(acme)
	gone, there := record("c1", "c1"), record("c2", "c2")
	d.save(first, acme, gone, there)
	d.decide(first, acme, included(gone, nil), included(there, nil))
	d.link(acme, "c1", "b1")
	d.closeRun(first, connector.RunComplete)
	second := d.run(acme)
	d.save(second, acme, there)
	d.readWhole(second)
	if page, err := d.StoredRecords(t.Context(), acme, mapping, true, "", 10); err != nil || len(page) != 2 {
		t.Errorf("stored records are %+v (%v) before anything was concluded, want both", page, err)
	}
	d.do(func(tx *Tx) error { return tx.DropMissing(second, acme) })
	page, err := d.StoredRecords(t.Context(), acme, mapping, true, "", 10)
	if err != nil || len(page) != 1 || page[0].Record.SourceID != "c2" {
		t.Errorf("stored records are %+v (%v), want c2 alone", page, err)
	}
	all, err := d.StoredRecords(t.Context(), acme, mapping, false, "c1", 10)
	if err != nil || len(all) != 1 || all[0].Record.SourceID != "c2" {
		t.Errorf("after c1 come %+v (%v), want c2 alone", all, err)
	}
	other := d.run("beta")
	d.save(other, "beta", there)
	d.decide(other, "beta", included(there, nil))
	counts := map[connector.Key]int{key("c1"): 1, key("c2"): 1, key("nobody's"): 0}
	err = d.KeysElsewhere(t.Context(), acme, true, counts)
	if diff := cmp.Diff(map[connector.Key]int{key("c1"): 2, key("c2"): 2, key("nobody's"): 0}, counts); err != nil ||
		diff != "" {
		t.Errorf("how often keys count, with a row that is gone and the other books (-want +got, %v):\n%s", err, diff)
	}
	if _, err := d.StoredRecord(t.Context(), acme, "c9", mapping); !errors.Is(err, ErrNoRecord) {
		t.Errorf("a record that is not there: %v", err)
	}
}

func TestRecordsAreFoundByEveryIDOfTheirPayer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	d.planLinked(run, "c1", "b1", connector.ActionUpdate)
	d.save(run, acme, record("c2", "no payer"))
	d.do(func(tx *Tx) error {
		_, err := tx.SaveMandate(connector.Mandate{ID: "m1", CustomerID: "b1", Status: connector.MandateCreated},
			connector.CauseLink, "test")
		return err
	})
	for id, want := range map[string]string{"c1": "c1", "b1": "c1", "m1": "c1", "c2": "c2"} {
		got, err := d.FindRecords(t.Context(), id)
		if diff := cmp.Diff([]RecordID{{acme, want}}, got); err != nil || diff != "" {
			t.Errorf("%s (-want +got, %v):\n%s", id, err, diff)
		}
	}
	if got, err := d.FindRecords(t.Context(), "c9"); err != nil || len(got) != 0 {
		t.Errorf("c9 finds %+v (%v)", got, err)
	}
}

func TestChangesOfARecordAreToldWithTheirOutcome(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.run(acme)
	made := d.planCreate(run, acme, "c1")
	d.do(func(tx *Tx) error {
		if _, err := tx.FreezeCreate(run, made, []byte("{}"), 0); err != nil {
			return err
		}
		return tx.CloseWith(run, made, connector.ChangeFailed, connector.ReasonRejected, "The name is too long.")
	})
	got, err := d.ChangesOf(t.Context(), acme, "c1")
	want := []PastChange{{
		ID: made.ID, RunID: run, Action: connector.ActionCreate, State: connector.ChangeFailed, Attempts: 1,
		FrozenAt: d.Now(), UpdatedAt: d.Now(), Reason: connector.ReasonRejected, Detail: "The name is too long.",
		Diff: connector.Diff(connector.Customer{}, customer("c1", "c1")),
	}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("changes (-want +got, %v):\n%s", err, diff)
	}
}
