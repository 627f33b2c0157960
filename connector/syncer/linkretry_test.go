package syncer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// runsUntilServed makes runs, each at the time named by the one before or a second later, until one is
// complete. Every earlier run leaves payers unfinished, names the next time, and has findings about those
// payers.
func (w *world) runsUntilServed() {
	w.t.Helper()
	for range 40 {
		res := w.run()
		if res.Outcome == connector.RunComplete {
			return
		}
		if res.Counts.Waiting+res.Counts.Created == 0 && res.Err == nil {
			w.t.Fatalf("a run is %s and says that nobody waits: %+v", res.Outcome, res.Counts)
		}
		if wait := res.RetryAt.Sub(w.clock.now()); wait > 0 {
			w.clock.advance(wait)
			continue
		}
		w.clock.advance(time.Second)
	}
	w.t.Fatalf("the service is well, and no run of 40 is complete; told %v", w.attention())
}

// expectLinks fails unless so many payers have their signing link here, from one mandate each.
func (w *world) expectLinks(n int) {
	w.t.Helper()
	with := 0
	for key, c := range w.byKey() {
		if len(c.Mandates) != 1 {
			w.t.Errorf("%s has %d mandates, want 1", key, len(c.Mandates))
			continue
		}
		if link, err := w.ledger.SigningLink(w.t.Context(), w.payer(key).MandateID); err == nil && link != "" {
			with++
		}
	}
	if told := w.attention(); with != n || len(told) != 0 {
		w.t.Errorf("%d payers have a signing link, want %d; told %v", with, n, told)
	}
}

// covers F240
func TestEveryPayerIsAskedAgainAfterAShortOutageOfTheLinkCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	w.fill(40)
	well := w.clock.now().Add(4 * time.Second)
	m.onRequest = func(string, connector.Mandate, error) (connector.Mandate, error) {
		return connector.Mandate{}, unanswered("request mandate link")
	}
	m.askInstead = true
	for w.clock.now().Before(well) {
		if res := w.run(); res.Outcome == connector.RunComplete {
			t.Fatalf("a run is complete while nobody has a signing link: %+v", res.Counts)
		}
		w.clock.advance(500 * time.Millisecond)
	}
	m.onRequest, m.askInstead = nil, false
	w.runsUntilServed()
	w.expectLinks(40)
}

// covers F240
func TestAnOutageOfTheLinkCallOfDaysIsAskedThroughOnceADay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	w.fill(1)
	m.onRequest = func(string, connector.Mandate, error) (connector.Mandate, error) {
		return connector.Mandate{}, unanswered("request mandate link")
	}
	m.askInstead = true
	for range 5 * 24 { // a run every hour, for five days
		if res := w.run(); res.Outcome != connector.RunIncomplete || res.Counts.Waiting+res.Counts.Created != 1 {
			t.Fatalf("a run is %s with %+v, though its payer has no link", res.Outcome, res.Counts)
		}
		if got := w.attention()["C0000"]; got != string(connector.ReasonOutcomeUnknown) {
			t.Fatalf("people are told %q, want outcome_unknown", got)
		}
		w.clock.advance(time.Hour)
	}
	if m.asked < 9 || m.asked > 14 {
		t.Errorf("the link was asked for %d times in five days, want growing pauses of a day at most", m.asked)
	}
	m.onRequest, m.askInstead = nil, false
	w.runsUntilServed()
	w.expectLinks(1)
}

// covers F240
func TestAPayerWhoseLinkRequestIsKilledAgainAndAgainIsStillAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(4)
	for range 8 {
		ctx, kill := context.WithCancelCause(t.Context())
		m := meddle(w)
		m.askInstead = true
		died := fmt.Errorf("the process died: %w", errKilled)
		// its process is gone before the answer
		m.onRequest = func(string, connector.Mandate, error) (connector.Mandate, error) {
			kill(died)
			panic(died)
		}
		_, _ = w.syncer.Run(ctx, w.connection(),
			syncer.RunOptions{Kind: connector.RunSync, Trigger: "manual", Actor: "tester", Holder: "test",
				Approve: func(state.Plan) (bool, error) { return true, nil }})
		w.restart()
		w.clock.advance(time.Second)
	}
	w.runsUntilServed()
	w.expectLinks(4)
}

var errKilled = errors.New("killed")

// covers F240
func TestAPersonsWordLetsALinkRequestLeaveBeforeItsPauseIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	w.fill(1)
	m.askInstead = true
	m.onRequest = func(string, connector.Mandate, error) (connector.Mandate, error) {
		return connector.Mandate{}, unanswered("request mandate link")
	}
	for range 6 {
		w.run()
		w.clock.advance(time.Second)
	}
	before := m.asked
	m.onRequest, m.askInstead = nil, false
	if res := w.run(); m.asked != before || !res.RetryAt.After(w.clock.now()) {
		t.Fatalf("%d requests left, and the run goes on at %s; want none before a time that it names", m.asked-before,
			res.RetryAt)
	}
	w.retry("C0000")
	w.complete(w.run())
	w.expectLinks(1)
}

// After a restore links wait: every run says until when, and what people are told says so, too.
//
// covers F64, F240
func TestAfterARestoreARunSaysUntilWhenLinksWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(3)
	m := meddle(w)
	m.onRequest = func(string, connector.Mandate, error) (connector.Mandate, error) {
		return connector.Mandate{}, unanswered("request mandate link")
	}
	m.askInstead = true
	w.run()
	m.onRequest, m.askInstead = nil, false
	if err := w.ledger.Do(t.Context(), (*state.Tx).MarkRestored); err != nil {
		t.Fatal(err)
	}
	ends := w.clock.now().Add(state.Arrival)
	for range 3 {
		w.clock.advance(time.Minute)
		w.sweep()
		res := w.run()
		if res.Outcome != connector.RunIncomplete || !res.RetryAt.Equal(ends) {
			t.Errorf("the run is %s and may go on at %v, want incomplete and %v: %s", res.Outcome, res.RetryAt, ends, res.Left)
		}
		told, err := w.ledger.Attention(t.Context(), state.Filter{State: string(connector.ReasonOutcomeUnknown)})
		if err != nil || len(told) == 0 {
			t.Fatalf("%d are told: %v", len(told), err)
		}
		for _, a := range told {
			if f, err := w.ledger.ReadinessOf(t.Context(),
				state.RecordID{Connection: a.Connection, SourceID: a.SourceID}); err != nil || f.Awaited != a.Detail {
				t.Errorf("where the record stands says %+v, want %q: %v", f, a.Detail, err)
			}
			if want := "links are asked for again from " + ends.UTC().Format(time.RFC3339); !strings.Contains(a.Detail, want) {
				t.Errorf("people are told %q, want until when: %s", a.Detail, want)
			}
		}
	}
	w.clock.advance(state.Arrival)
	w.sweep()
	w.runsUntilServed()
	w.expectLinks(3)
}
