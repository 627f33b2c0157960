package syncer_test

import (
	"slices"
	"testing"
	"time"

	"payersync/connector"
	"payersync/state"
)

// covers F05, F70, S1, S3
func TestALedgerOfTheVersionBeforeGoesOnInTheMiddleOfEveryKindOfChange(t *testing.T) {
	t.Parallel()
	t.Run("schema5", func(t *testing.T) {
		t.Parallel()
		b := openBefore(t, "schema5", 0, time.Hour)
		b.run(3)
		b.wantTold("after three runs", map[string]string{"C3": "key_doubled", "L1": "link_lost"})
		b.decide("C3", "By hand", b.service.Delete) // a person decides: neither
		b.decide("C3", "By hand again", b.service.Delete)
		b.clock.advance(time.Hour)
		b.sweep()
		b.run(4)
		b.wantTold("in the end", map[string]string{"L1": "link_lost"})
		b.wantServed(len(b.books["acme"].records))
		b.wantOnceOnly()
	})
	t.Run("schema12", func(t *testing.T) {
		t.Parallel()
		goOnFromSchema12(t)
	})
	t.Run("schema12-restored", func(t *testing.T) {
		t.Parallel()
		goOnFromRestored(t)
	})
}

func goOnFromSchema12(t *testing.T) {
	b := openBefore(t, "schema12", 76*time.Hour+19*time.Minute, 4*time.Minute)
	b.syncer.Settings.Guards.MaxCreates = 1
	told := map[string]string{
		"C3": "key_doubled", "CR": "rejected", "CW": "no_answer", "F1": "foreign_change", "E1": "left_with_mandate",
		"G1": "left_with_mandate", "H1": "likeness",
		"K2": "key_removed", "K3": "other_key", "K4": "key_doubled", "K5": "customer_missing", "KC": "key_changed",
		"L2": "link_lost", "L5": "link_refused", "LA": "link_lost", "LL": "link_lost", "M1": "mandate_cancelled",
		"O2": "other_key", "P2": "name_missing", "P3": "key_blank", "R2": "rejected", "S1": "key_shared", "S2": "key_shared",
		"U5": "foreign_change", "X1": "outcome_unknown key_shared", "X2": "key_shared",
		"line 77": "record_unreadable", "sha256:2": "event_not_understood",
	}
	plans, err := b.ledger.WaitingPlans(t.Context())
	if err != nil || len(plans) != 1 || plans[0].Connection != "initech" {
		t.Fatalf("the plans %+v wait, %v; want the one of initech", plans, err)
	}
	b.run(3, "initech", "hooli", "umbrella")
	b.wantTold("after three runs", told)
	if waiting, err := b.ledger.WaitingPlans(t.Context()); err != nil || len(waiting) != 1 ||
		waiting[0].ID != plans[0].ID {
		t.Errorf("the plans %+v wait, %v; want the one that waited before", waiting, err)
	}
	if res, err := b.syncer.Reconciler.Drain(t.Context()); err != nil || res.Reflected != 1 {
		t.Errorf("the delivery that waited is not reflected: %+v, %v", res, err)
	}
	b.wantNames(map[string]string{"F1": "Somebody's own F1", "R1": "R1 new", "R2": "R2", "U5": "Somebody's own U5",
		"U7": "U7 new"})

	// The late requests arrive, and every record is decided on again.
	b.clock.advance(6 * time.Minute)
	b.sweep()
	b.clock.advance(time.Hour)
	b.mapping += "# edited\n"
	b.run(2, "initech", "hooli", "umbrella")
	b.sweep()
	b.run(2, "initech", "hooli", "umbrella")
	for _, id := range []string{"X1", "X2"} { // which the lists show not to exist
		delete(told, id)
	}
	b.wantTold("when all has arrived", told)
	b.wantNames(map[string]string{"F1": "Somebody's own F1", "R2": "R2", "U5": "Somebody's own U5"})

	// People decide.
	if plans, err = b.ledger.WaitingPlans(t.Context()); err != nil || len(plans) != 1 || plans[0].Creates != 2 {
		t.Fatalf("the plans %+v wait, %v; want the one of initech", plans, err)
	}
	if err := b.ledger.Do(t.Context(), func(tx *state.Tx) error { return tx.Approve(plans[0].ID, "tester") }); err != nil {
		t.Error(err)
	}
	b.decide("C3", "By hand", b.service.Delete)
	b.decide("K4", "By hand", b.service.Delete)
	b.edit("", "K2", `{"name":"K2","people":[{"email":"k2@e.co"}],"externalData":{"customerNo":"K2"}}`)
	b.edit("other", "K3", `{"name":"K3","people":[{"email":"k3@e.co"}],"externalData":{"customerNo":"K3"}}`)
	b.edit("", "H1", `{"name":"H1","people":[{"email":"h1@e.co"}],"externalData":{"customerNo":"H1"}}`)
	b.books["acme"].putAs("S1", map[string]string{"No": "S1b", "Name": "S1", "Email": "S1@e.co", "Group": "payer"})
	for _, id := range []string{"CR", "CW", "L5", "LW", "R2", "U5"} {
		b.retry(id)
	}
	b.clock.advance(time.Hour)
	b.sweep()
	b.run(4, "initech", "hooli", "umbrella")
	for _, id := range []string{"C3", "CR", "CW", "H1", "K2", "K3", "K4", "L5", "R2", "S1", "S2", "U5"} {
		delete(told, id)
	}
	b.wantTold("in the end", told)
	left := []string{"E1", "F1", "G1", "K5", "KC", "O2", "P2", "P3", "X1", "line 77"}
	b.wantServed(48, left...)
	b.wantNames(map[string]string{"E1": "E1", "F1": "Somebody's own F1", "G1": "G1", "KC": "KC"})
	b.wantOnceOnly()
	if p, err := b.ledger.Payer(t.Context(), "acme", "M3"); err != nil ||
		!slices.Contains(b.mandatesOf(connector.MandatePending), p.MandateID) {
		t.Errorf("the mandate of M3 is not known to be signed: %v", err)
	}
	for _, id := range []string{"U1", "A1", "UA"} { // these had arrived
		if n := b.writesTo(id); n != 0 {
			t.Errorf("%d requests were sent for %s, whose update had arrived", n, id)
		}
	}
}

func goOnFromRestored(t *testing.T) {
	b := openBefore(t, "schema12-restored", 23*time.Minute, 3*time.Minute)
	b.run(3)
	b.wantTold("after three runs", map[string]string{}) // who has no customer waits until all has arrived
	b.clock.advance(6 * time.Minute)
	b.sweep()
	b.run(2)
	b.clock.advance(time.Hour)
	b.sweep()
	b.run(3)
	b.wantTold("in the end", map[string]string{"B4": "mandate_cancelled", "B6": "link_lost", "B7": "link_lost"})
	b.wantServed(8)
	b.wantOnceOnly()
	if n := b.writesTo("B3"); n != 0 {
		t.Errorf("%d requests were sent for B3, whose update is there already", n)
	}
}
