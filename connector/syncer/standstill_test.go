package syncer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// mapped returns the standard mapping with one thing said otherwise.
func mapped(old, with string) string { return strings.Replace(standardMapping, old, with, 1) }

// losesPayers fails the test unless the run ended at a standstill, because of the payers that
// its plan would lose.
func (w *world) losesPayers(res syncer.Result, why string) state.Plan {
	w.t.Helper()
	var stands *syncer.Standstill
	if res.Outcome != connector.RunIncomplete || !errors.As(res.Err, &stands) || !strings.Contains(res.Err.Error(), why) ||
		stands.Plan.Lost == 0 {
		w.t.Fatalf("the run ended %s: %v; want a standstill for %q", res.Outcome, res.Err, why)
	}
	return stands.Plan
}

// linked is a world with so many linked payers.
func linked(t *testing.T, n int) *world {
	t.Helper()
	w := newWorld(t)
	w.fill(n)
	w.complete(w.run())
	return w
}

// A mapping edit that holds everybody sends nothing and is no ordinary run: it waits, and is
// over by itself when the mapping is put right.
//
// covers F74, F109
func TestAMappingEditThatHoldsEverybodyIsAStandstill(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, with, why string }{
		"everybody is unfit": {"lower(trim(Email))", `'"no address"'`,
			"50 of 50 payers would be on hold, which leaves none."},
		"everybody is left out": {`Group == "payer"`, `Group == "customer"`,
			"50 of 50 payers would be excluded, which leaves none."},
		"everybody has one key": {"customerNo: No", `customerNo: 'No == "" ? No : "1"'`,
			"50 of 50 payers would be on hold, which leaves none."},
		"most of them": {`Group == "payer"`, `No >= "C0045"`,
			"45 of 50 payers would be excluded (the limit is 10)."},
		"some are unfit, one is": {"lower(trim(Email))", `'No < "C0011" ? "no address" : lower(trim(Email))'`,
			"11 of 50 payers would be on hold (the limit is 10)."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := linked(t, 50)
			before := w.service.Writes()
			w.mapping = mapped(c.old, c.with)
			foretold := w.preview(syncer.PreviewOptions{})
			for _, kind := range []connector.RunKind{connector.RunSync, connector.RunPlan, connector.RunBackfill} {
				plan := w.losesPayers(w.runWith(t.Context(), syncer.RunOptions{Kind: kind}), c.why)
				waiting := w.waiting()
				if len(waiting) != 1 || waiting[0].ID != plan.ID || waiting[0].Lost != plan.Lost || !waiting[0].Standstill() {
					t.Errorf("%s: %+v waits, want plan %d of %d lost payers", kind, waiting, plan.ID, plan.Lost)
				}
				if plan.Limits != foretold.Limits {
					t.Errorf("the preview says %q, the plan %q", foretold.Limits, plan.Limits)
				}
				who, err := w.ledger.LostBy(t.Context(), plan, "", 100)
				if err != nil || len(who) != plan.Lost {
					t.Errorf("%d payers are listed, %v; want %d", len(who), err, plan.Lost)
				}
			}
			w.mapping = standardMapping
			w.complete(w.sync())
			if waiting := w.waiting(); len(waiting) > 0 || w.service.Writes() != before {
				t.Errorf("after the edit was taken back %+v waits, and %d requests were sent", waiting, w.service.Writes()-before)
			}
		})
	}
}

// covers F74, F109
func TestWhoeverIsLetGoByAPersonStandsInNobodysWay(t *testing.T) {
	t.Parallel()
	for name, approve := range map[string]func(*world) syncer.Result{
		"by the plan's number": func(w *world) syncer.Result {
			w.approve(w.losesPayers(w.sync(), "45 of 50 payers would be excluded").ID)
			return w.sync()
		},
		"asked by the run": func(w *world) syncer.Result { return w.run() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := linked(t, 50)
			w.mapping = strings.Replace(mapped(`Group == "payer"`, `No >= "C0045"`), "name: trim(Name)\n", "name: upper(Name)\n",
				1)
			w.losesPayers(w.runWith(t.Context(),
				syncer.RunOptions{Kind: connector.RunSync, Approve: func(state.Plan) (bool, error) { return false, nil }}), "45 of 50")
			if res := w.complete(approve(w)); res.Counts.Updated != 5 {
				t.Errorf("%+v, want the updates of the 5 that are left", res.Counts)
			}
			if res := w.complete(w.sync()); res.Counts.Updated != 0 || len(w.waiting()) > 0 {
				t.Errorf("the next run: %+v, and %+v waits", res.Counts, w.waiting())
			}
			w.mapping = mapped(`Group == "payer"`, `No >= "C0046"`)
			w.complete(w.sync()) // one more is within the limit
			w.mapping = mapped(`Group == "payer"`, `No >= "C0060"`)
			w.losesPayers(w.sync(), "4 of 4 payers would be excluded, which leaves none.")
		})
	}
}

// What a person has let go is exactly what was shown.
//
// covers F74, F109
func TestAStandstillThatLosesMoreIsAnotherOne(t *testing.T) {
	t.Parallel()
	w := linked(t, 50)
	w.mapping = mapped(`Group == "payer"`, `No >= "C0020"`)
	first := w.losesPayers(w.sync(), "20 of 50 payers")
	for i := 20; i < 40; i++ {
		w.books.set(connector.Record{SourceID: fmt.Sprintf("C%04d", i), State: connector.RecordArchived,
			Data: json.RawMessage(`{}`)})
	}
	second := w.losesPayers(w.sync(), "40 of 50 payers")
	if first.ID == second.ID {
		t.Errorf("plan %d loses 20 payers, and then 40", first.ID)
	}
	if err := w.ledger.Do(t.Context(), func(tx *state.Tx) error { return tx.Approve(first.ID, "tester") }); err == nil {
		t.Error("the plan that was replaced can be approved")
	}
	w.approve(second.ID)
	w.complete(w.sync())
}

// covers F74, F109
func TestAFewThatAreHeldAreNoStandstill(t *testing.T) {
	t.Parallel()
	w := linked(t, 50)
	w.mapping = mapped("lower(trim(Email))", `'No == "C0007" ? "no address" : lower(trim(Email))'`)
	if res := w.complete(w.sync()); res.Attention != 1 || len(w.waiting()) > 0 {
		t.Errorf("%d need a person, and %+v waits", res.Attention, w.waiting())
	}
	for i := 40; i < 50; i++ { // ten are within the limit, though one is held already
		w.books.put(fmt.Sprintf("C%04d", i), "Payer", "no address")
	}
	w.complete(w.sync())
}

// Payers whom nobody has let go yet are no loss: an edit that takes too many in can be taken
// back.
//
// covers F74, F109
func TestAnEditThatTakesTooManyInCanBeTakenBack(t *testing.T) {
	t.Parallel()
	w := linked(t, 20)
	for i := range 60 {
		w.books.putAs(fmt.Sprintf("S%03d", i),
			map[string]string{"No": fmt.Sprint("S", i), "Name": fmt.Sprint("Supplier ", i),
				"Email": fmt.Sprintf("s%d@example.com", i), "Group": "supplier"})
	}
	w.complete(w.sync())
	w.mapping = mapped("include: Group == \"payer\"\n", "")
	w.awaits(w.sync(), 0)
	w.mapping = standardMapping
	w.complete(w.sync())
}

// A payer whose customer was let go and never made counts, a record that was held at the
// first look does not.
//
// covers F74, F109
func TestLettingACustomerGoMakesItsPayerCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(30)
	for i := range 30 {
		w.books.put(fmt.Sprintf("H%03d", i), fmt.Sprint("Held ", i), "no address")
	}
	w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan})
	w.mapping = mapped(`Group == "payer"`, `No >= "C0025"`)
	if res := w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan}); res.Err != nil {
		t.Fatalf("nobody had let the customers go: %v", res.Err)
	}
	w.mapping = standardMapping
	plan := w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunPlan}).Plan
	w.approve(plan.ID)
	w.mapping = mapped(`Group == "payer"`, `No >= "C0025"`)
	w.losesPayers(w.sync(), "25 of 30 payers would be excluded")
}

// What a whole reading did not show, and a person let go, is not counted again.
//
// covers F45, F109
func TestMissingRecordsThatWereLetGoAreNoSecondStandstill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(50)
	d := &diary{books: w.books}
	w.complete(w.diaryRun(d, "acme", connector.RunSync))
	d.alone = true
	w.books.records = slices.Clone(w.books.records[:20])
	w.approve(w.standsStill(w.diaryRun(d, "acme", connector.RunBackfill), "30 of 50 known records are missing").ID)
	w.complete(w.diaryRun(d, "acme", connector.RunBackfill))
	if got := len(w.attention()); got != 30 {
		t.Errorf("%d payers who left with a mandate are told, want 30", got)
	}
}

// A source that says of most records that they are gone is as unlikely as one that does not
// show them.
//
// covers F109
func TestASourceThatArchivesMostRecordsIsAStandstill(t *testing.T) {
	t.Parallel()
	w := linked(t, 50)
	for i := range 30 {
		w.books.set(connector.Record{SourceID: fmt.Sprintf("C%04d", i), State: connector.RecordArchived,
			Data: json.RawMessage(`{}`)})
	}
	before := w.service.Writes()
	plan := w.sync()
	if plan.Plan == nil || plan.Plan.Lost != 30 || w.service.Writes() != before {
		t.Errorf("%+v, %d requests; want a standstill of 30 and none", plan.Plan, w.service.Writes()-before)
	}
	w.fill(50)
	w.complete(w.sync())
}

// covers F74, F109
func TestAStandstillCannotBeRejectedOrApprovedInPart(t *testing.T) {
	t.Parallel()
	w := linked(t, 50)
	w.mapping = strings.Replace(mapped(`Group == "payer"`, `No >= "C0045"`), "name: trim(Name)\n", "name: upper(Name)\n",
		1)
	plan := w.losesPayers(w.sync(), "45 of 50")
	var ids []int64
	for _, c := range w.planned(&plan) {
		ids = append(ids, c.ID)
	}
	for what, do := range map[string]func(*state.Tx) error{
		"rejected":         func(tx *state.Tx) error { return tx.Reject(plan.ID, "tester", "no") },
		"approved in part": func(tx *state.Tx) error { return tx.ApproveSome(plan.ID, ids[:1], "tester", "some") },
	} {
		if err := w.ledger.Do(t.Context(), do); err == nil {
			t.Errorf("it is %s", what)
		}
	}
	w.approve(plan.ID)
	if err := w.ledger.Do(t.Context(),
		func(tx *state.Tx) error { return tx.Reject(plan.ID, "tester", "after all") }); err != nil {
		t.Errorf("what was approved by mistake cannot be stopped: %v", err)
	}
	if res := w.sync(); res.Counts.Updated != 0 {
		t.Errorf("%d updates of a rejected plan were sent", res.Counts.Updated)
	}
}
