package syncer_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
	"payersync/state/statetest"
)

// approved are the options of a run that approves its own plan.
func approved() syncer.RunOptions {
	return syncer.RunOptions{Kind: connector.RunSync, Approve: func(state.Plan) (bool, error) { return true, nil }}
}

// creates returns how many creates reached the service.
func (w *world) creates() int { return len(w.bodies(http.MethodPost, "/api/customers")) }

// expectAll fails the test unless each of n payers got its customer by one create.
func (w *world) expectAll(n int) {
	w.t.Helper()
	if got := len(w.byKey()); got != n || w.creates() != n {
		w.t.Errorf("%d customers by %d creates, want %d by as many", got, w.creates(), n)
	}
}

// attempts counts the requests in the ledger that match a condition.
func (w *world) attempts(where string) int {
	w.t.Helper()
	return strings.Count(statetest.Dump(w.t, w.path, "SELECT attempt_id FROM attempts WHERE "+where), "\n")
}

// waitForAttempts waits until so many requests of an action are frozen and have no end.
func (w *world) waitForAttempts(action string, n int) {
	for tries := 0; w.attempts("ended = '' AND action = '"+action+"'") < n && tries < 10_000; tries++ {
		runtime.Gosched()
	}
}

// onceFrozenAhead returns a hook for after an answer. It keeps every worker waiting until requests of an action are
// frozen that no worker has taken, and calls stop then.
func (w *world) onceFrozenAhead(action string, stop func()) func() {
	workers := w.syncer.Settings.Workers
	stopped := make(chan struct{})
	var answered atomic.Int64
	return func() {
		switch n := int(answered.Add(1)); {
		case n == workers:
			w.waitForAttempts(action, workers+1)
			stop()
			close(stopped)
		case n < workers:
			<-stopped
		}
	}
}

func TestAnOrderlyStopInTheMiddleOfAGroupLeavesNobodyWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.syncer.Settings.Workers, w.syncer.Settings.Guards.MaxCreates = 4, 1000
	w.fill(400)
	ctx, interrupt := context.WithCancel(t.Context())
	m := meddle(w)
	m.onMade = w.onceFrozenAhead("create", interrupt)
	if res := w.runWith(ctx, approved()); res.Outcome != connector.RunIncomplete || !errors.Is(res.Err, context.Canceled) {
		t.Errorf("the run ended %s: %v; want it interrupted", res.Outcome, res.Err)
	}
	if n := w.attempts("ended = ''"); n != 0 {
		t.Errorf("%d requests count as under way after the stop", n)
	}
	if n := w.attempts("ended = 'unsent'"); n == 0 {
		t.Error("no create was frozen ahead, so the test shows nothing")
	}
	m.onMade = nil
	w.complete(w.run())
	w.expectAll(400)
}

// Requests wait for the limit of the rate when a person stops the run. They have not left, so nobody has to wait for
// them.
func TestAStopTakesBackWhatWaitsForTheLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.slowly(20)
	w.syncer.Settings.Workers, w.syncer.Settings.Guards.MaxCreates = 8, 1000
	w.fill(60)
	ctx, interrupt := context.WithCancel(t.Context())
	var made atomic.Int64
	m := meddle(w)
	m.onMade = func() {
		if made.Add(1) == 3 {
			w.waitForAttempts("create", 8) // of all workers
			interrupt()
		}
	}
	if res := w.runWith(ctx, approved()); res.Outcome != connector.RunIncomplete || !errors.Is(res.Err, context.Canceled) {
		t.Errorf("the run ended %s: %v; want it interrupted", res.Outcome, res.Err)
	}
	for what, query := range map[string]string{
		"creates count as sent without an answer":     "SELECT source_id FROM changes WHERE action = 'create' AND state = 'frozen'",
		"payers count as creating without a customer": "SELECT source_id FROM payers WHERE link_state = 'creating' AND billing_id IS NULL",
	} {
		if n := strings.Count(statetest.Dump(t, w.path, query), "\n"); n != 0 {
			t.Errorf("%d %s after the stop", n, what)
		}
	}
	if n := w.attempts("ended = 'unsent'"); n < 4 {
		t.Errorf("%d requests were taken back: none waited for the limit, so the test shows nothing", n)
	}
	m.onMade = nil
	w.slowly(0)
	w.complete(w.run())
	w.expectAll(60)
}

func TestACreateThatCannotLeaveInTimeIsNotSentOnItsOldFreeze(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.slowly(20)
	w.syncer.Settings.Workers, w.syncer.Settings.LeaveWithin = 8, 100*time.Millisecond
	w.fill(16)
	w.complete(w.run())
	w.expectAll(16)
	if n := w.attempts("ended = 'unsent'"); n == 0 {
		t.Error("every create was sent on its first freeze, although the service let them wait")
	}
	if n := w.attempts("ended = 'answered' AND action = 'create'"); n != 16 {
		t.Errorf("%d requests were answered, want 16", n)
	}
}

// With many workers and a low rate, the last of a group wait for their turn until they may not leave any more. They have
// not left, so the service is not to blame.
func TestALowRateDoesNotStopARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.slowly(80)
	w.syncer.Settings.Workers, w.syncer.Settings.LeaveWithin, w.syncer.Settings.Guards.MaxCreates = 64,
		500*time.Millisecond, 1000
	w.fill(120)
	w.complete(w.runWith(t.Context(), approved()))
	w.expectAll(120)
	if n := w.attempts("ended = 'answered' AND action = 'create'"); n != 120 {
		t.Errorf("%d requests were answered, want 120", n)
	}
	if n := w.attempts("ended = 'unsent'"); n == 0 {
		t.Error("every create left in time, so the test shows nothing")
	}
}

func TestAKillBetweenTheFreezeOfAGroupAndItsRequestsLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(300)
	var dead atomic.Bool
	if err := w.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	w.openWith(func(bool) error {
		if dead.Load() {
			return errors.New("the process dies")
		}
		return nil
	})
	w.syncer.Settings.Guards.MaxCreates = 1000
	var sent atomic.Int64
	m := meddle(w)
	m.onCreate = func([]byte) error {
		if sent.Add(1) > 20 {
			dead.Store(true)
			return unanswered("create customer")
		}
		return nil
	}
	_ = w.runOf(w.connection())
	_ = w.ledger.Close()
	if !dead.Load() {
		t.Fatal("the process did not die")
	}
	w.open()
	w.syncer.Settings.Guards.MaxCreates = 1000
	if n := w.attempts("ended = ''"); n == 0 {
		t.Error("no create was frozen when the process died, so the test shows nothing")
	}
	w.run() // what may still arrive is not sent again unseen
	for range 3 {
		w.clock.advance(state.Arrival + time.Minute)
		w.run()
	}
	w.complete(w.run())
	if got := len(w.byKey()); got != 300 {
		t.Errorf("%d customers, want 300", got)
	}
}

// One answer that names another payer's customer is held, and spoils nobody else's.
func TestAnAnswerThatDoesNotFitIsHeldAndItsGroupIsStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.syncer.Settings.Guards.MaxCreates = 100
	w.books.put("B1", "Northwind", "b@example.com")
	w.complete(w.run())
	taken := w.payer("B1").BillingID
	w.fill(40)
	var answers atomic.Int64
	meddle(w).onAnswer = func(c *connector.RemoteCustomer) {
		if answers.Add(1) == 20 {
			c.ID = taken
		}
	}
	res := w.run()
	if res.Counts.Created != 39 || res.Counts.Held != 1 || len(w.attention()) != 1 {
		t.Errorf("%+v with findings about %v, want 39 created and one held", res.Counts, w.attention())
	}
	for id, reason := range w.attention() {
		if connector.Reason(reason) != connector.ReasonAnswerMismatch || w.payer(id).BillingID != "" {
			t.Errorf("%s is told as %s with customer %q", id, reason, w.payer(id).BillingID)
		}
	}
}

// No answer counts as stored that is not: the run fails with the ledger, and the next one finds the customers.
func TestAnswersThatCannotBeStoredStopTheRunAndAreFoundByTheNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill(100)
	if err := w.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	w.openWith(func(bool) error {
		if w.creates() > 30 {
			return errors.New("the disk is full")
		}
		return nil
	})
	w.syncer.Settings.Guards.MaxCreates = 1000
	if err := w.runOf(w.connection()); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("the run ended with %v", err)
	}
	made := len(w.byKey())
	if made == 100 {
		t.Error("every create was sent although no answer could be stored")
	}
	_ = w.ledger.Close()
	w.open()
	w.syncer.Settings.Guards.MaxCreates = 1000
	w.run()
	for range 3 {
		w.clock.advance(state.Arrival + time.Minute)
		w.run()
	}
	w.complete(w.run())
	if got := len(w.byKey()); got != 100 {
		t.Errorf("%d customers, want 100", got)
	}
}

func TestAnOrderlyStopAmongLinkRequestsAsksNobodyTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.syncer.Settings.Workers, w.syncer.Settings.Guards.MaxCreates = 4, 1000
	w.fill(200)
	ctx, interrupt := context.WithCancel(t.Context())
	stop := w.onceFrozenAhead("link", interrupt)
	meddle(w).onRequest = func(_ string, mandate connector.Mandate, err error) (connector.Mandate, error) {
		stop()
		return mandate, err
	}
	if res := w.runWith(ctx, approved()); res.Outcome != connector.RunIncomplete || !errors.Is(res.Err, context.Canceled) {
		t.Errorf("the run ended %s: %v; want it interrupted", res.Outcome, res.Err)
	}
	if n := w.attempts("ended = '' AND action = 'link'"); n != 0 {
		t.Errorf("%d requests count as under way after the stop", n)
	}
	if n := w.attempts("ended = 'unsent' AND action = 'link'"); n == 0 {
		t.Error("no request was frozen ahead, so the test shows nothing")
	}
	res := w.complete(w.run())
	if n := w.linkRequests(); n != 200 || len(w.attention()) != 0 {
		t.Errorf("%d links were asked for, with findings about %v; want 200 and none (%+v)", n, w.attention(), res.Counts)
	}
}
