package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"payersync/connector/sandbox"
	"payersync/internal/longtest"
)

const linkCalls = "/api/customers/*/directdebitmandates"

// covers F58
func TestLostLinksAreFetchedByOneCommand(t *testing.T) {
	t.Parallel()
	rows := people(30)
	w := newWorld(t, rows)
	w.box.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Method: http.MethodPut, Path: linkCalls})
	w.run("backfill", "--yes")
	w.run("sync", "--yes")
	w.box.ClearFaults()
	if r := w.run("sync", "--yes"); r.code != exitDone {
		t.Logf("%s%s", r.out, r.errOut)
	}
	if r := w.run("mandates", "links", "--lost"); r.code != exitUsage || !strings.Contains(r.errOut, "add --yes") {
		t.Errorf("without a terminal and --yes it ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	r := w.run("mandates", "links", "--lost", "--yes")
	if r.code != exitDone || !strings.Contains(r.out, "0 failed") {
		t.Errorf("it ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	if r := w.run("attention", "list"); strings.Contains(r.out, "A0") {
		t.Errorf("after all were fetched somebody still needs a person:\n%s", r.out)
	}
	if r := w.run("mandates", "links", "--lost", "--output", "json"); r.code != exitDone ||
		!strings.Contains(r.out, `"asked":0`) {
		t.Errorf("a second time it ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	w.expectOnePerRow(rows)
}

// It never replaces a mandate cancelled by the payer meanwhile.
func TestALostLinkOfACancelledMandateIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.box.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Method: http.MethodPut, Path: linkCalls})
	w.run("backfill", "--yes")
	w.run("sync", "--yes")
	w.box.ClearFaults()
	for _, c := range w.box.Customers() {
		for _, m := range c.Mandates {
			if err := w.box.PayerCancel(m.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if r := w.run("mandates", "links", "--lost", "--yes"); r.code != exitAttention ||
		!strings.Contains(r.errOut, "reason") {
		t.Errorf("it ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	for _, c := range w.box.Customers() {
		if len(c.Mandates) != 1 {
			t.Errorf("the customer has %d mandates, want the cancelled one alone", len(c.Mandates))
		}
	}
}

// A process fetching lost links is killed; the next one continues. No mandate is made anew, and each has its
// link in the end.
//
// covers F01, F58, F132
func TestKillNineWhileLinksAreFetchedMakesNoSecondMandate(t *testing.T) {
	longtest.Story(t, longtest.Processes)
	t.Parallel()
	rows := people(60)
	w := newWorld(t, rows)
	w.box.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Method: http.MethodPut, Path: linkCalls})
	w.run("backfill", "--yes")
	w.run("sync", "--yes")
	w.box.ClearFaults()
	inside := 0
	for range 2 {
		until := w.seen.Load() + 40
		if w.killDuring(func() bool { return w.seen.Load() > until }, "mandates", "links", "--lost", "--yes") {
			inside++
		}
	}
	if inside == 0 {
		t.Error("no kill came inside a run")
	}
	w.expect(exitDone, "mandates", "links", "--lost", "--yes")
	if r := w.run("mandates", "links", "--lost", "--yes", "--output", "json"); !strings.Contains(r.out, `"asked":0`) {
		t.Errorf("some are lost still:\n%s%s", r.out, r.errOut)
	}
	if r := w.run("mandates", "list", "--links", "--limit", "1000", "--output", "json"); strings.Count(r.out,
		`"link":`) != len(rows) {
		t.Errorf("%d links are shown, want %d", strings.Count(r.out, `"link":`), len(rows))
	}
	w.expectOneMandateEach()
	w.expectOnePerRow(rows)
	w.expectWholeLedger()
}

func TestOlderTakesANumberOfDays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	for _, args := range [][]string{{"--older", "30"}, {"--older", "0d"}, {"--older", "1.5d"}, {"--older", "9999d"}, {},
		{"--lost", "--older", "30d"}} {
		if r := w.run(append([]string{"mandates", "links"}, args...)...); r.code != exitUsage {
			t.Errorf("%q ended with %d:\n%s", args, r.code, r.errOut)
		}
	}
}

// covers F107
func TestRecordsAreRetriedByReason(t *testing.T) {
	t.Parallel()
	rows := people(12)
	w := newWorld(t, rows)
	w.box.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusUnprocessableEntity, Method: http.MethodPost,
		Path: "/api/customers"})
	if r := w.run("backfill", "--yes"); r.code != exitAttention {
		t.Fatalf("backfill ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	w.box.ClearFaults()
	if r := w.run("attention", "retry", "A00001", "--reason", "rejected"); r.code != exitUsage {
		t.Errorf("a record and a reason at once ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	if r := w.run("attention", "retry", "--reason", "refused"); r.code != exitUsage {
		t.Errorf("an unknown reason ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	r := w.run("attention", "retry", "--reason", "rejected", "--output", "json")
	if want := fmt.Sprintf(`"records":%d`, len(rows)); r.code != exitDone || !strings.Contains(r.out, want) {
		t.Errorf("it ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	if r := w.run("attention", "retry", "--reason", "rejected", "--note", "said twice"); r.code != exitDone ||
		!strings.Contains(r.errOut, "12 records had this decision before.") || w.audited("said twice") {
		t.Errorf("said again it ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	if r := w.run("sync", "--yes"); r.code != exitDone {
		t.Errorf("the sync after it ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	w.expectOnePerRow(rows)
}

// covers F107
func TestWhatWasRefusedAlikeIsSentByTheNextRunThatMayApprove(t *testing.T) {
	t.Parallel()
	rows := people(120)
	w := newWorld(t, rows)
	w.box.Inject(sandbox.Fault{Kind: sandbox.ErrorBefore, Status: http.StatusPaymentRequired, Method: http.MethodPost,
		Path: "/api/customers"})
	if r := w.run("backfill", "--yes"); r.code != exitFailed || !strings.Contains(r.out, "HTTP 402") {
		t.Errorf("while everything is refused it ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	if r := w.run("attention", "list"); strings.Contains(r.out, "A0") {
		t.Errorf("records need a person for what is none of theirs:\n%s", r.out)
	}
	w.box.ClearFaults()
	if r := w.run("sync", "--yes"); r.code != exitDone {
		t.Errorf("the run after it ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	w.expectOnePerRow(rows)
}
