package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"payersync/connector/reconcile"
	"payersync/connector/sandbox"
	"payersync/connector/syncer"
)

// A run that leaves payers behind ends with 3 every time, says how many wait and until when, and
// says so once under --quiet.
//
// covers F240, F241
func TestARunThatLeavesPayersBehindSaysWhenToRunAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(4))
	w.box.Inject(sandbox.Fault{Kind: sandbox.LostRequest, Method: http.MethodPut, Path: linkCalls, Count: 8})
	w.expect(exitAttention, "sync")
	w.expect(exitAttention, "sync")
	for range 2 {
		if r := w.expect(exitAttention, "sync"); !strings.Contains(r.out,
			"incomplete: 4 signing links asked for without an answer; run it again at ") {
			t.Errorf("it says:\n%s", r.out)
		}
	}
	status := w.expect(exitDone, "status").out
	if !strings.Contains(status, "of acme ended incomplete: 4 signing links asked for without an answer. A run from ") {
		t.Errorf("the status does not say what the last run left undone, and until when it waits:\n%s", status)
	}
	problems := decode[statusReport](t, w.expect(exitDone, "status", "--output", "json")).Problems
	if len(problems) != 1 || problems[0].Undone != "4 signing links asked for without an answer" ||
		problems[0].RetryAt == nil {
		t.Errorf("the problems are %+v", problems)
	}
	if r := w.expect(exitAttention, "sync", "--quiet"); r.out+r.errOut != "" {
		t.Errorf("with --quiet it says what the run before had said:\n%s%s", r.out, r.errOut)
	}
	w.expect(exitDone, "attention", "retry", "--reason", "outcome_unknown")
	if r := w.expect(exitDone, "sync", "--quiet"); r.out != "" {
		t.Errorf("with --quiet a complete run says:\n%s", r.out)
	}
	if status := w.expect(exitDone, "status").out; strings.Contains(status, "ended incomplete") {
		t.Errorf("after a complete run the status says:\n%s", status)
	}
}

// The log, the run's output and the status say in the same words why a run is incomplete.
func TestARunThatEndsIncompleteGivesOneReasonEverywhere(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(w *world){
		"links without an answer": func(w *world) {
			w.box.Inject(sandbox.Fault{Kind: sandbox.LostRequest, Method: http.MethodPut, Path: linkCalls, Count: 40})
		},
		"a service that is away": func(w *world) {
			away := func(rw http.ResponseWriter, r *http.Request) bool {
				rw.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
			w.front.Store(&away)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, people(4))
			w.edit("payersync.yaml", "mapping: mapping.yaml}\n", "mapping: mapping.yaml, schedule: \"@yearly\"}\n")
			trouble(w)
			told := func(reason string) {
				t.Helper()
				problems := decode[statusReport](t, w.expect(exitDone, "status", "--output", "json")).Problems
				if reason == "" || len(problems) != 1 || problems[0].Reason != reason {
					t.Errorf("the run says %q, and the status %+v", reason, problems)
				}
				text := strings.Join(strings.Fields(w.expect(exitDone, "status").out), " ")
				if !strings.Contains(text, "ended incomplete: "+strings.Join(strings.Fields(reason), " ")+". ") {
					t.Errorf("the status does not say %q:\n%s", reason, text)
				}
			}
			serve := w.serve()
			eventually(t, "the end of the run", func() bool { return strings.Contains(serve.errOut.String(), "run ended") })
			for _, line := range logLines(t, serve.stop().errOut) {
				if line.Msg == "run ended" {
					told(line.Reason)
				}
			}
			told(decode[syncer.Result](t, w.run("sync", "--output", "json")).Reason)
		})
	}
}

// covers F241
func TestALedgerThatHasToWaitIsThrottledAndNoFailure(t *testing.T) {
	t.Parallel()
	if code := exitCode(fmt.Errorf("plan: %w", &reconcile.QuarantineError{Until: time.Now()})); code != exitThrottled {
		t.Errorf("it ends with %d, want %d", code, exitThrottled)
	}
}

// A quiet sweep tells what it found once: the next one that finds the same ends with 3 and says nothing.
func TestAQuietSweepTellsWhatItFoundOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(4))
	w.expect(exitDone, "sync")
	for _, record := range []string{"A00001", "A00002"} {
		w.must(w.box.Delete(w.mandateOf(record).CustomerID))
		if r := w.expect(exitAttention, "sweep", "--quiet"); !strings.Contains(r.out, " missing") {
			t.Errorf("when the customer of %s is missing it says:\n%s%s", record, r.out, r.errOut)
		}
		if r := w.expect(exitAttention, "sweep", "--quiet"); r.out+r.errOut != "" {
			t.Errorf("once that was told it says:\n%s%s", r.out, r.errOut)
		}
		if r := w.expect(exitAttention, "sweep"); !strings.Contains(r.out, " missing") {
			t.Errorf("without --quiet it says:\n%s%s", r.out, r.errOut)
		}
	}
}
