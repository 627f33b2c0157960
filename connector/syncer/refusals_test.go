package syncer_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
)

// covers F107
func TestEqualRefusalsInARowStopTheRunAndHoldNobodyForGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.syncer.Settings.Workers = 1
	w.fill(60)
	w.service.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusPaymentRequired, Method: http.MethodPost,
		Path: "/api/customers"})
	res := w.run()
	var refused *syncer.RefusedError
	if !errors.As(res.Err, &refused) || refused.Status != http.StatusPaymentRequired ||
		res.Outcome != connector.RunIncomplete {
		t.Fatalf("the run ended %s: %v; want it incomplete with what was refused", res.Outcome, res.Err)
	}
	if n := len(w.bodies(http.MethodPost, "/api/customers")); n > 8 {
		t.Errorf("%d creates left although the service refused every one alike", n)
	}
	if got := w.attention(); len(got) != 0 {
		t.Errorf("records need a person for what is none of theirs: %v", got)
	}
	w.service.ClearFaults()
	w.complete(w.run())
	if got := len(w.byKey()); got != 60 || len(w.attention()) != 0 {
		t.Errorf("%d customers and %d records for a person after the service takes them again, want 60 and none", got,
			len(w.attention()))
	}
}

// covers F107
// What waits for its turn when the last refusal comes does not leave, and is no
// worse for it.
func TestWhatWaitsForItsTurnDoesNotLeaveAfterTheLastRefusal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.slowly(10)
	w.syncer.Settings.Workers, w.syncer.Settings.Guards.MaxCreates = 64, 100
	w.fill(60)
	w.service.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusPaymentRequired, Method: http.MethodPost,
		Path: "/api/customers"})
	res := w.run()
	var refused *syncer.RefusedError
	if !errors.As(res.Err, &refused) {
		t.Fatalf("the run ended %s: %v; want it incomplete with what was refused", res.Outcome, res.Err)
	}
	if n := len(w.bodies(http.MethodPost, "/api/customers")); n > 10 {
		t.Errorf("%d creates left although the service refused every one alike", n)
	}
	w.service.ClearFaults()
	w.slowly(0)
	w.complete(w.run())
	if got := len(w.byKey()); got != 60 || len(w.attention()) != 0 {
		t.Errorf("%d customers and %d records for a person after the service takes them again, want 60 and none", got,
			len(w.attention()))
	}
}

// covers F67
// The same when a run is interrupted: what is under way is finished, and nothing
// begins.
func TestWhatWaitsForItsTurnDoesNotLeaveAfterAnInterruption(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.slowly(10)
	w.syncer.Settings.Workers, w.syncer.Settings.Guards.MaxCreates = 64, 100
	w.fill(60)
	m := meddle(w)
	ctx, interrupt := context.WithCancel(t.Context())
	var made, left atomic.Int64
	creates := func() int64 { return int64(len(w.bodies(http.MethodPost, "/api/customers"))) }
	m.onMade = func() {
		if made.Add(1) == 5 {
			left.Store(creates())
			interrupt()
		}
	}
	res := w.runWith(ctx, syncer.RunOptions{Kind: connector.RunSync,
		Approve: func(state.Plan) (bool, error) { return true, nil }})
	if res.Outcome != connector.RunIncomplete || !errors.Is(res.Err, context.Canceled) {
		t.Errorf("the run ended %s: %v; want it interrupted", res.Outcome, res.Err)
	}
	if strings.Contains(res.Err.Error(), "without an answer") {
		t.Errorf("what never left counts as not answered: %v", res.Err)
	}
	if n := creates(); n > left.Load()+3 { // what was under way
		t.Errorf("%d creates left although the run was interrupted after %d", n, left.Load())
	}
	m.onMade = nil
	w.slowly(0)
	w.complete(w.run())
	if got, n := len(w.byKey()), creates(); got != 60 || n != 60 {
		t.Errorf("%d customers by %d creates in the end, want 60 by 60", got, n)
	}
}

// covers F107
// A record that is refused for what it says stops nobody else's.
func TestRecordsThatAreRefusedForWhatTheySayStopNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.syncer.Settings.Workers = 1
	w.fill(20)
	w.service.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusUnprocessableEntity,
		Method: http.MethodPost, Path: "/api/customers", Count: 10})
	if res := w.run(); res.Err != nil || res.Counts.Failed != 10 || res.Counts.Created != 10 {
		t.Errorf("counts = %+v, %v; want ten failed and ten created", res.Counts, res.Err)
	}
}

// covers F79, V2
func TestWhatARunLeavesForAPersonCountsInEveryRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	w.books.put("A1", "Northwind", "a@example.com")
	m.onRequest = func(string, connector.Mandate, error) (connector.Mandate, error) {
		return connector.Mandate{}, unanswered("request mandate link")
	}
	if res := w.complete(w.run()); res.Attention != 1 || w.attention()["A1"] != string(connector.ReasonLinkLost) {
		t.Errorf("a lost link counts as %d for a person in its run: %v", res.Attention, w.attention())
	}
	w.clock.advance(time.Minute)
	for range 2 {
		if res := w.complete(w.run()); res.Attention != 1 || res.Counts.Held != 1 || res.News {
			t.Errorf("in a later run it counts as %d, %+v, news %t; want once until it is settled, and no news", res.Attention,
				res.Counts, res.News)
		}
	}
}

// covers F58
// Where the service gives the same mandate again.
func TestARunTakesLostLinksUpWhereTheServiceGivesTheSameMandate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := meddle(w)
	w.fill(8)
	m.onRequest = func(string, connector.Mandate, error) (connector.Mandate, error) {
		return connector.Mandate{}, unanswered("request mandate link")
	}
	w.run()
	if n := len(w.attention()); n != 8 {
		t.Fatalf("%d records need a person, want the 8 whose link is lost", n)
	}
	m.onRequest = nil
	w.complete(w.run())
	if n := len(w.attention()); n != 8 {
		t.Errorf("%d records need a person; a run asked again although it is not known what that does", n)
	}
	w.syncer.Settings.SameMandate = true
	w.complete(w.run())
	mandates, err := w.ledger.Mandates(t.Context(), state.Filter{})
	if n := len(w.attention()); n != 0 || len(mandates) != 8 || err != nil {
		t.Errorf("%d records need a person and there are %d mandates, %v; want none and 8", n, len(mandates), err)
	}
	before := w.service.Writes()
	w.complete(w.run())
	if n := w.service.Writes() - before; n != 0 {
		t.Errorf("%d requests that write over unchanged books", n)
	}
}

// A customer was made while the clock was minutes behind, which is put right. Reads lag
// and do not find it: it is not missing, although it seems to be minutes old.
//
// covers F36, F105, S17
func TestAClockThatIsPutRightMakesNoCustomerMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.books.put("A1", "Northwind", "a@example.com")
	w.service.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusNotFound, Method: http.MethodGet,
		Path: "/api/customers/*"})
	w.run() // makes it, and does not find it
	w.clock.advance(8 * time.Minute)
	w.run()
	if got := w.payer("A1").LinkState; got == connector.LinkMissing {
		t.Error("the customer counts as missing")
	}
	w.service.ClearFaults()
	w.run()
	w.complete(w.run())
	if got := w.payer("A1").LinkState; got != connector.LinkLinked || w.attention()["A1"] != "" {
		t.Errorf("A1 is %s, and told is %q; want linked", got, w.attention()["A1"])
	}
}
