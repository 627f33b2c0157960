package syncer_test

import (
	"fmt"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// strangers puts customers into the service that belong to no record.
func (w *world) strangers(n int) {
	w.t.Helper()
	for i := range n {
		w.add(fmt.Sprintf(`{"name":"Stranger %c Ltd","people":[{"name":"Ola","email":"ola%d@stranger.example"}],"addresses":[{"postCode":"0150"}]}`, 'A'+i%26, i))
	}
}

func (w *world) finishMatching() {
	w.t.Helper()
	if err := w.ledger.Do(w.t.Context(), func(tx *state.Tx) error {
		_, err := tx.FinishMatching("acme", "tester", "looked at all")
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
}

// covers F220
func TestTheFirstRunCreatesNobodyUntilMatchingIsFinished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.syncer.Settings.Guards.FirstMatching = true
	w.strangers(41)
	linked := w.add(`{"name":"Payer 0","people":[{"name":"Payer 0","email":"p0@example.com"}],"externalData":{"customerNo":"C0"}}`)
	for i := range 6 {
		w.books.put(fmt.Sprintf("C%d", i), fmt.Sprintf("Payer %d", i), fmt.Sprintf("p%d@example.com", i))
	}

	res := w.run() // which says yes to every plan
	if res.Outcome != connector.RunAwaitingApproval || res.Counts.Created != 0 || w.payer("C0").BillingID != linked {
		t.Fatalf("%s with %+v; want a run that waits, with C0 linked and nobody created", res.Outcome, res.Counts)
	}
	if p := w.preview(syncer.PreviewOptions{}); p.Creates != 5 || len(p.Stops) != 1 ||
		p.Stops[0].Text() != res.Plan.Limits {
		t.Errorf("a preview of %d creates says %+v, and the plan %q", p.Creates, p.Stops, res.Plan.Limits)
	}
	if !strings.Contains(res.Plan.Limits, "41 customers exist in the billing service that belong to no record yet") ||
		res.Plan.Creates != 5 {
		t.Errorf("the plan of %d creates waits because %q", res.Plan.Creates, res.Plan.Limits)
	}

	// Neither the first linked payer nor an approval ends it.
	if res := w.run(); res.Counts.Created != 0 {
		t.Errorf("the second run created %d", res.Counts.Created)
	}
	waiting, err := w.ledger.WaitingPlans(t.Context())
	if err != nil || len(waiting) != 1 || !waiting[0].WaitsForDecision() {
		t.Fatalf("%+v waits: %v", waiting, err)
	}
	if err := w.ledger.Do(t.Context(),
		func(tx *state.Tx) error { return tx.Approve(waiting[0].ID, "tester") }); err == nil ||
		!strings.Contains(err.Error(), "until matching is finished") {
		t.Errorf("an approval of creates alone says %v", err)
	}

	w.finishMatching()
	if res := w.complete(w.run()); res.Counts.Created != 5 {
		t.Errorf("after matching was finished, %d of 5 were created", res.Counts.Created)
	}
	w.strangers(3) // who come later bring it back to nobody
	w.books.put("C9", "Payer 9", "p9@example.com")
	if res := w.complete(w.run()); res.Counts.Created != 1 {
		t.Errorf("with customers that came later, %d of 1 was created", res.Counts.Created)
	}
}

// covers F220
func TestFirstMatchingStopsOnlyWhereThereIsSomebodyToMatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*world)
		on      bool
		creates int
	}{
		"an empty service": {func(*world) {}, true, 1},
		"a customer with the number of a record that is left out": {func(w *world) {
			w.books.putAs("Z1", map[string]string{"No": "Z1", "Group": "supplier"})
			w.add(`{"name":"Supplier","externalData":{"customerNo":"Z1"}}`)
		}, true, 1},
		"the setting is off": {func(w *world) { w.strangers(2) }, false, 1},
		"payers linked before": {func(w *world) {
			w.books.put("C0", "Payer 0", "p0@example.com")
			w.complete(w.run())
			w.strangers(2)
		}, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.syncer.Settings.Guards.FirstMatching = c.on
			c.prepare(w)
			w.books.put("C1", "Payer 1", "p1@example.com")
			if res := w.complete(w.run()); res.Counts.Created != c.creates {
				t.Errorf("created %d, want %d", res.Counts.Created, c.creates)
			}
		})
	}
}

// covers F220
func TestACustomerThatAPersonAcceptedBelongsToItsRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.syncer.Settings.Guards.FirstMatching = true
	w.books.put("C1", "Payer 1", "p1@example.com")
	w.books.put("C2", "Payer 2", "p2@example.com")
	id := w.add(`{"name":"Payer 2"}`)
	if res := w.run(); res.Counts.Created != 0 {
		t.Fatalf("%+v; want nobody created", res.Counts)
	}
	w.accept("C2", id)
	if res := w.complete(w.run()); res.Counts.Created != 1 || res.Counts.Adopted != 1 {
		t.Errorf("%+v; want the accepted customer adopted and the other record created", res.Counts)
	}
}

// covers F220
func TestAPlanIsApprovedWithoutItsStoppedCreates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.syncer.Settings.Guards.FirstMatching = true
	w.syncer.Settings.Guards.MaxChanges, w.syncer.Settings.Guards.MaxChangesFloor = syncer.Limit{}, 0
	w.strangers(1)
	w.add(`{"name":"Payer 0","people":[{"name":"Payer 0","email":"p0@example.com"}],"externalData":{"customerNo":"C0"}}`)
	for i := range 3 {
		w.books.put(fmt.Sprintf("C%d", i), fmt.Sprintf("Payer %d", i), fmt.Sprintf("p%d@example.com", i))
	}
	res, changes := w.plan()
	if !strings.Contains(res.Plan.Limits, "would be sent, signing links included") ||
		!strings.Contains(res.Plan.Limits, "until matching is finished") {
		t.Fatalf("the plan waits because %q", res.Plan.Limits)
	}
	var create int64
	for _, c := range changes {
		if c.Action == connector.ActionCreate {
			create = c.ID
		}
	}
	do := func(f func(*state.Tx) error) error { return w.ledger.Do(t.Context(), f) }
	if err := do(func(tx *state.Tx) error {
		return tx.ApproveSome(res.Plan.ID, []int64{create}, "tester",
			"one")
	}); err == nil || !strings.Contains(err.Error(), "until matching is finished") {
		t.Errorf("approving a create says %v", err)
	}
	if err := do(func(tx *state.Tx) error { return tx.Approve(res.Plan.ID, "tester") }); err != nil {
		t.Fatal(err)
	}
	waiting, err := w.ledger.WaitingPlans(t.Context())
	if err != nil || len(waiting) != 1 || !waiting[0].WaitsForDecision() {
		t.Fatalf("after the approval %+v waits: %v", waiting, err)
	}
	if res := w.runWith(t.Context(), syncer.RunOptions{Kind: connector.RunSync}); res.Counts.Adopted != 1 ||
		res.Counts.Created != 0 {
		t.Errorf("%+v; want the adoption sent, and no create", res.Counts)
	}

	// Taken back, it stops what was not sent.
	w.finishMatching()
	if err := do(func(tx *state.Tx) error { return tx.ReopenMatching("acme", "tester", "too early") }); err != nil {
		t.Fatal(err)
	}
	if res := w.run(); res.Counts.Created != 0 {
		t.Errorf("after matching was reopened, %d were created", res.Counts.Created)
	}
}

// covers F221
func TestANewConnectionStopsWhereItsRecordsLookLikeThePayersOfAnother(t *testing.T) {
	t.Parallel()
	fill := func(b *books, key string, from, to int) {
		for i := from; i < to; i++ {
			b.put(fmt.Sprintf("%s%d", key, i), fmt.Sprintf("Payer %d", i), fmt.Sprintf("p%d@example.com", i))
		}
	}
	for name, c := range map[string]struct {
		shared, own  int
		configured   map[string]string // connections by organisation
		organisation string
		stopped      bool
	}{
		"all records are shared":         {12, 0, nil, "", true},
		"two of many records are shared": {2, 28, nil, "", true},
		"one of ten records is shared":   {1, 9, nil, "", true},
		"one of many records is shared":  {1, 28, nil, "", false},
		"none is shared":                 {0, 12, nil, "", false},
		"the configuration names another organisation": {12, 0,
			map[string]string{"before": "old", "acme": "new"}, "new", false},
		"the other organisation's connection is configured no more": {12, 0, map[string]string{"acme": "new"}, "new", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.syncer.Settings.Guards.MaxCreates = 100
			w.syncer.Settings.Guards.SameBooks, w.syncer.Settings.Configured = true, c.configured
			before := &books{}
			fill(before, "B", 0, 12)
			w.complete(w.syncs(w.as("before", "", before), true))
			after := &books{}
			fill(after, "A", 0, c.shared)
			fill(after, "A", 100, 100+c.own)
			conn := w.as("acme", c.organisation, after)
			res := w.syncs(conn, true)
			if !c.stopped {
				if w.complete(res); res.Counts.Created != c.shared+c.own {
					t.Errorf("%d of %d were created", res.Counts.Created, c.shared+c.own)
				}
				return
			}
			if res.Counts.Created != 0 ||
				!strings.Contains(res.Plan.Limits, connector.Plural(c.shared, "record")+" of acme look") ||
				!strings.Contains(res.Plan.Limits, "if these are another company's, say so") {
				t.Fatalf("%d were created, and the plan waits because %q", res.Counts.Created, res.Plan.Limits)
			}
			decide := func(f func(*state.Tx, state.ConnectionDecision) error) {
				t.Helper()
				if err := w.ledger.Do(t.Context(), func(tx *state.Tx) error {
					return f(tx, state.ConnectionDecision{Old: "before", New: "acme", Decision: state.BooksSeparate, Actor: "tester",
						Reason: "the sister company"})
				}); err != nil {
					t.Fatal(err)
				}
			}
			separate := func(tx *state.Tx, d state.ConnectionDecision) error { _, err := tx.DecideConnections(d); return err }
			decide(separate)
			decide((*state.Tx).TakeConnectionDecisionBack)
			if res := w.syncs(conn, true); res.Counts.Created != 0 {
				t.Errorf("with the decision taken back, %d were created", res.Counts.Created)
			}
			decide(separate)
			if res := w.complete(w.syncs(conn, true)); res.Counts.Created != c.shared+c.own {
				t.Errorf("of another company's books, %d of %d were created", res.Counts.Created, c.shared+c.own)
			}
		})
	}
}
