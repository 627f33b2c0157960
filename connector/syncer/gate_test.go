package syncer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// trust says on a person's word that what updates have shown is right.
func (w *world) trust() {
	w.t.Helper()
	way := state.UpdateFormat{Address: w.syncer.Account.Address, Spelling: w.billing.UpdateWay()}
	if err := w.ledger.Do(w.t.Context(), func(tx *state.Tx) error {
		return tx.SaveRoundTrip(way,
			state.Verification{By: state.TripPerson, Subject: "tester", Survived: []string{state.TripAny}})
	}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) trips() state.Proof {
	w.t.Helper()
	p, err := w.ledger.LastRoundTrip(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// rename changes every record, so that each customer is to be updated.
func (w *world) rename(n int, to string) {
	for i := range n {
		w.books.put(fmt.Sprintf("C%04d", i), fmt.Sprintf("%s %d", to, i), fmt.Sprintf("payer%d@example.com", i))
	}
}

// losing is a service that keeps only the parts of an update in its own format, and loses the rest: it shows
// foreign notes until the first update of the customer.
func losing(w *world, notes any, loses func(n int) bool) *meddler {
	var mu sync.Mutex // several workers read and update
	updates, lost := 0, map[string]bool{}
	m := answering(w, func(id string, raw map[string]any) {
		mu.Lock()
		defer mu.Unlock()
		if raw["notes"] = notes; lost[id] {
			delete(raw, "notes")
		}
	})
	m.onUpdate = func(id string) {
		mu.Lock()
		defer mu.Unlock()
		if updates++; loses(updates) {
			lost[id] = true
		}
	}
	return m
}

// covers F174
func TestUpdatesThatLoseWhatIsOthersStopAfterTwo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(8)
	w.complete(w.run())
	losing(w, "call before noon", func(int) bool { return true })
	w.rename(8, "Renamed")
	w.books.put("NEW", "New payer", "new@example.com")
	before := len(w.bodies("PUT", "/api/customers"))
	res := w.run()
	var unproven *syncer.UnprovenError
	if !errors.As(res.Err, &unproven) || res.Outcome != connector.RunFailed || !strings.Contains(res.Problem, "notes") ||
		!strings.Contains(res.Problem, "billing.dialect.read_only") {
		t.Fatalf("the run ended %s: %v", res.Outcome, res.Err)
	}
	if n := len(w.bodies("PUT", "/api/customers")) - before; n != 2 {
		t.Errorf("%d updates were sent; want 2, for one may have met an edit", n)
	}
	if p := w.payer("NEW"); p.BillingID == "" || res.Counts.LinksRequested != 1 {
		t.Errorf("the new payer has customer %q, and %d links were asked for", p.BillingID, res.Counts.LinksRequested)
	}
	w.restart()
	if res = w.run(); !errors.As(res.Err, &unproven) || len(w.bodies("PUT", "/api/customers"))-before != 2 {
		t.Errorf("the next run, of another process, ended %s: %v", res.Outcome, res.Err)
	}
	w.trust()
	if res = w.run(); res.Err != nil || res.Counts.Updated != 6 {
		t.Errorf("after a person's word the run ended %s with %+v: %v", res.Outcome, res.Counts, res.Err)
	}
}

// covers F174
func TestOneLossBesideACleanRoundTripIsSomebodysEdit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(8)
	w.complete(w.run())
	losing(w, "call before noon", func(n int) bool { return n == 1 })
	w.rename(8, "Renamed")
	if res := w.run(); res.Err != nil || res.Counts.Updated != 8 {
		t.Fatalf("the run ended %s with %+v: %v", res.Outcome, res.Counts, res.Err)
	}
	p := w.trips()
	if proof, proven := p.Proven(); !proven || len(p.Trips) != 2 || len(proof.Survived) != 1 ||
		proof.Survived[0] != "notes" {
		t.Errorf("round trips %+v", p.Trips)
	}
}

// A customer with nothing of others proves nothing for one that has something.
//
// covers F174
func TestAProofIsGoodForWhatWasThereToBeLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(4)
	w.complete(w.run())
	w.rename(4, "Renamed")
	w.complete(w.run())
	if p := w.trips(); len(p.Trips) != 1 || len(p.Trips[0].Survived) != 0 || !p.Covers(nil) ||
		p.Covers([]string{"notes"}) {
		t.Fatalf("round trips %+v", p.Trips)
	}
	losing(w, "call before noon", func(int) bool { return true })
	w.rename(4, "Renamed again")
	before := len(w.bodies("PUT", "/api/customers"))
	res := w.run()
	var unproven *syncer.UnprovenError
	if n := len(w.bodies("PUT", "/api/customers")) - before; !errors.As(res.Err, &unproven) || n != 2 {
		t.Errorf("%d updates were sent, and the run ended %s: %v", n, res.Outcome, res.Err)
	}
}

// Taking the key off customers replaces them as a whole, too.
//
// covers F174
func TestLettingCustomersGoStopsWhereItLosesWhatIsOthers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		loses bool
		sent  int
	}{"losing": {true, 2}, "not losing": {false, 8}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.fill(8)
			w.complete(w.run())
			losing(w, "call before noon", func(int) bool { return tt.loses })
			for i := range 8 {
				u, err := w.syncer.UnlinkOf(t.Context(), w.payer(fmt.Sprintf("C%04d", i)), 0)
				if err != nil {
					t.Fatal(err)
				}
				w.does(w.syncer.SayUnlink(t.Context(), u, ann))
			}
			before := len(w.bodies("PUT", "/api/customers"))
			res := w.run()
			var unproven *syncer.UnprovenError
			if n := len(w.bodies("PUT", "/api/customers")) - before; n != tt.sent || errors.As(res.Err, &unproven) != tt.loses {
				t.Errorf("%d were let go, want %d, and the run ended %s: %v", n, tt.sent, res.Outcome, res.Err)
			}
			if _, proven := w.trips().Proven(); proven {
				t.Error("that a key came off proves that updates come out right")
			}
		})
	}
}

// covers F175
func TestAnUpdateWithoutAnAnswerProvesNothingUntilItIsSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(5)
	w.complete(w.run())
	w.rename(5, "Renamed")
	m := meddle(w)
	var asked atomic.Int32
	m.onRead = func(_ string, c connector.RemoteCustomer, err error) (connector.RemoteCustomer, error) {
		if asked.Add(1) == 2 { // the read after the first update
			return c, &connector.RemoteError{Op: "get customer", Fault: connector.FaultUnavailable,
				Detail: "no usable answer came"}
		}
		return c, err
	}
	before := len(w.bodies("PUT", "/api/customers"))
	res := w.run()
	if n := len(w.bodies("PUT", "/api/customers")) - before; n != 5 || res.Counts.Updated != 5 {
		t.Errorf("%d updates were sent, and the run ended %s with %+v: %v", n, res.Outcome, res.Counts, res.Err)
	}
	if p := w.trips(); len(p.Trips) != 1 || len(p.Trips[0].Lost) > 0 {
		t.Errorf("round trips %+v", p.Trips)
	}
}

// A counter of updates, or their times, are no loss.
func TestWhatMovesOnIsNoLoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(4)
	w.complete(w.run())
	var mu sync.Mutex // several workers read and update
	updates := map[string]int{}
	m := answering(w, func(id string, raw map[string]any) {
		mu.Lock()
		defer mu.Unlock()
		raw["revision"], raw["changedAt"] = 7+updates[id], fmt.Sprintf("2026-11-20T09:00:%02dZ", updates[id])
		raw["notes"] = json.RawMessage(`{"by":"Ada"}`)
	})
	m.onUpdate = func(id string) {
		mu.Lock()
		defer mu.Unlock()
		updates[id]++
	}
	w.rename(4, "Renamed")
	if res := w.run(); res.Err != nil || res.Counts.Updated != 4 {
		t.Fatalf("the run ended %s with %+v: %v", res.Outcome, res.Counts, res.Err)
	}
	if p := w.trips(); len(p.Trips) != 1 || !p.Covers([]string{"notes", "revision"}) {
		t.Errorf("round trips %+v", p.Trips)
	}
	if told := w.attention(); len(told) > 0 {
		t.Errorf("told %v; want nothing", told)
	}
}
