package main

import (
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
	"payersync/state"
)

// lastRun returns the latest run of the one connection.
func (w *world) lastRun() state.RunRow {
	w.t.Helper()
	runs := decode[statusReport](w.t, w.expect(exitDone, "status", "--output", "json")).Runs
	if len(runs) != 1 {
		w.t.Fatalf("%d connections have runs, want 1", len(runs))
	}
	return runs[0]
}

// covers F13, F79, V2
func TestAThrottledRunSaysWhenToGoOnAndIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	rows := people(12)
	w := newWorld(t, rows)
	w.box.Inject(sandbox.Fault{Kind: sandbox.Throttled, Method: http.MethodPost, Path: "/api/customers", Skip: 4,
		RetryAfter: "7200"})
	before := time.Now()
	run := decode[syncer.Result](t, w.expect(exitThrottled, "sync", "--output", "json"))
	if wait := run.RetryAt.Sub(before); wait < 119*time.Minute || wait > 123*time.Minute {
		t.Errorf("retry_at is in %v, want the two hours that the service asked for", wait)
	}
	if run.Outcome != connector.RunIncomplete || run.Counts.Created != 4 || run.Counts.Waiting != 8 {
		t.Errorf("the run is %s with %+v", run.Outcome, run.Counts)
	}
	told := w.expect(exitThrottled, "sync")
	if want := "throttled; try again at " +
		before.Add(2*time.Hour).Format("2006-01-02 15:"); !strings.Contains(told.out, want[:len(want)-3]) ||
		strings.Contains(told.out, ": complete") {
		t.Errorf("the run does not say %q:\n%s", want, told.out)
	}

	w.box.ClearFaults()
	w.expect(exitDone, "sync")
	w.expectOnePerRow(rows)
}

// covers F14, F79, V2
func TestAnOutageLeavesTheRunIncomplete(t *testing.T) {
	t.Parallel()
	const links = "/api/customers/*/directdebitmandates"
	outages := map[string]struct {
		code  int
		fault sandbox.Fault
	}{
		"of everything":         {exitFailed, sandbox.Fault{Kind: sandbox.LostRequest}},
		"of the token endpoint": {exitFailed, sandbox.Fault{Kind: sandbox.ErrorBefore, Path: "/api/oauth2/token"}},
		"of the list": {exitFailed,
			sandbox.Fault{Kind: sandbox.HTML, Method: http.MethodGet, Path: "/api/customers"}},
		"of creates": {exitFailed,
			sandbox.Fault{Kind: sandbox.ErrorBefore, Method: http.MethodPost, Path: "/api/customers", Skip: 3}},
		"after creates": {exitFailed,
			sandbox.Fault{Kind: sandbox.LostResponse, Method: http.MethodPost, Path: "/api/customers", Skip: 3}},
		"of the reading back": {exitFailed,
			sandbox.Fault{Kind: sandbox.Truncated, Method: http.MethodGet, Path: "/api/customers/*"}},
		"of signing links": {exitAttention, sandbox.Fault{Kind: sandbox.ErrorBefore, Path: links, Skip: 3}},
	}
	for name, outage := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows := people(20)
			w := newWorld(t, rows)
			w.box.Inject(outage.fault)
			run := w.expect(outage.code, "sync")
			if strings.Contains(run.out, ": complete") {
				t.Errorf("the run says:\n%s", run.out)
			}
			if last := w.lastRun(); last.Outcome != string(connector.RunIncomplete) {
				t.Errorf("the run's outcome is %s, want incomplete", last.Outcome)
			}
			w.box.ClearFaults()
			w.expect(exitDone, "sync")
			w.expectOnePerRow(rows)
			w.expectIdenticalCreates()
		})
	}
}

// covers F14
func TestCreatesWhoseAnswersAreLostAreFoundByTheSameRun(t *testing.T) {
	t.Parallel()
	rows := people(20)
	w := newWorld(t, rows)
	w.box.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Method: http.MethodPost, Path: "/api/customers", Skip: 8,
		Count: 4})
	if run := w.expect(exitDone, "sync"); !strings.Contains(run.out, "20 created, 0 linked, 0 updated") {
		t.Errorf("the run says:\n%s", run.out)
	}
	w.expectOnePerRow(rows)
	w.expectIdenticalCreates()
}

// expectIdenticalCreates fails unless all creates that carry one key have the
// same bytes: only then does the service take them for one.
func (w *world) expectIdenticalCreates() {
	w.t.Helper()
	bodies := map[string]string{}
	for _, r := range w.requests(func(r sandbox.Request) bool {
		return r.Method == http.MethodPost &&
			r.Path == "/api/customers"
	}) {
		key := keyOf(w.t, r.Body)
		if first, sent := bodies[key]; sent && first != string(r.Body) {
			w.t.Errorf("%s was sent with different bytes:\n%s\n%s", key, first, r.Body)
		}
		bodies[key] = string(r.Body)
	}
}

// covers F61, F62
func TestASecondProcessDoesNotRunAHeldConnection(t *testing.T) {
	t.Parallel()
	rows := people(6)
	w := newWorld(t, rows)
	w.box.Inject(sandbox.Fault{Kind: sandbox.Slow, Method: http.MethodGet, Path: "/api/customers", Delay: patience})
	holder := w.start("sync")
	w.waitForRequest("GET /api/customers")

	refused := w.expect(exitHeld, "sync")
	if !strings.Contains(refused.errOut, "another run (number 1, since ") ||
		!strings.Contains(refused.errOut, "holds the connection acme") {
		t.Errorf("the second process says: %s", refused.errOut)
	}
	if n := w.box.Writes(); n != 0 {
		t.Errorf("%d writes while the first run waits", n)
	}

	holder.signal(syscall.SIGKILL)
	holder.wait()
	w.box.ClearFaults()
	w.expect(exitDone, "sync") // at once, although the dead run's lease has minutes left
	w.expectOnePerRow(rows)
}

func (w *world) waitForRequest(which string) {
	w.t.Helper()
	eventually(w.t, which, func() bool {
		return slices.ContainsFunc(w.box.Requests(), func(r sandbox.Request) bool { return r.Method+" "+r.Path == which })
	})
}

// covers F67
func TestAnInterruptedBackfillIsResumed(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			rows := people(300)
			w := newWorld(t, rows, func(o *sandbox.Options) { o.Latency = 5 * time.Millisecond })
			p := w.start("backfill", "--yes")
			eventually(t, "the first customers", func() bool { return w.box.Writes() > 40 })
			p.signal(signal)
			stopped := p.wait()
			if stopped.code != exitInterrupted ||
				!strings.Contains(stopped.errOut, "Stopping: requests in flight are finished first.") {
				t.Errorf("it ended with %d:\n%s%s", stopped.code, stopped.out, stopped.errOut)
			}
			made := len(w.box.Customers())
			if last := w.lastRun(); last.Outcome != string(connector.RunIncomplete) || last.Created != made ||
				made == len(rows) {
				t.Errorf("the run is %s with %d created, the service has %d of %d", last.Outcome, last.Created, made, len(rows))
			}
			w.expect(exitDone, "backfill", "--yes")
			w.expectOnePerRow(rows)
			if n := len(w.requests(func(r sandbox.Request) bool {
				return r.Method == http.MethodPost &&
					r.Path == "/api/customers"
			})); n != len(rows) {
				t.Errorf("%d creates were sent for %d rows: an orderly stop leaves no answer out", n, len(rows))
			}
		})
	}
}

// covers F78
func TestOneConnectionsFailureDoesNotKeepAnotherFromItsRun(t *testing.T) {
	t.Parallel()
	rows := people(3)
	w := newWorld(t, rows)
	w.edit("payersync.yaml", "connections:\n",
		"connections:\n  - {name: absent, source: {kind: csv, path: absent.csv, id: [AccountNumber]}, mapping: mapping.yaml}\n")
	run := w.expect(exitFailed, "sync")
	if !strings.Contains(run.errOut, "payersync: absent: ") || !strings.Contains(run.out, "Run 1 of acme: complete") {
		t.Errorf("it says:\n%s%s", run.out, run.errOut)
	}
	w.expectOnePerRow(rows)
	if unknown := w.expect(exitUsage, "sync", "acne"); !strings.Contains(unknown.errOut,
		`there is no connection "acne"; the configuration has absent, acme`) {
		t.Errorf("an unknown connection says: %s", unknown.errOut)
	}
}
