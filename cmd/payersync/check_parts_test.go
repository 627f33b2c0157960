package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"payersync/connector/sandbox"
)

func TestCheckNamesEveryPartThatDoesNotWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(people(3), row{ID: "B1"}))
	w.expect(exitAttention, "plan")
	fine := w.expect(exitDone, "check")
	for _, want := range []string{"whole, both hash chains hold", "4 records: 3 would be customers, 1 on hold",
		"credentials accepted", "the signature can be verified"} {
		if !strings.Contains(fine.out, want) {
			t.Errorf("check does not say %q:\n%s", want, fine.out)
		}
	}
	if n := w.box.Writes(); n != 0 {
		t.Errorf("check sent %d writes", n)
	}
	w.env["BILLING_CLIENT_SECRET"] = "a wrong secret"
	wrong := w.expect(exitFailed, "check")
	if !strings.Contains(wrong.out, "FAIL  billing service") ||
		!strings.Contains(wrong.out, "compare billing.client_id and billing.client_secret") {
		t.Errorf("check with a wrong secret says:\n%s", wrong.out)
	}
}

// covers V2
func TestARunWithRefusedCredentialsFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	w.env["BILLING_CLIENT_SECRET"] = "a wrong secret"
	run := w.expect(exitFailed, "sync")
	if !strings.Contains(run.out, "failed: ") || strings.Contains(run.out+run.errOut, "a wrong secret") {
		t.Errorf("the run says:\n%s%s", run.out, run.errOut)
	}
	if n := len(w.requests(func(r sandbox.Request) bool { return r.Path != "/api/oauth2/token" })); n != 0 {
		t.Errorf("%d requests without a token", n)
	}
}

// covers F109
func TestAStandstillOfAScheduledRunIsAWarningThatCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(15))
	w.expect(exitDone, "sync")
	w.export(people(4)...)
	log := new(bytes.Buffer)
	s := w.served(log)
	defer s.Close()
	if err := syncNow(t.Context(), s, s.Config.Connections[0], "schedule"); err != nil {
		t.Errorf("the job failed: %v", err)
	}
	var warnings []string
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, `"level":"warning"`) {
			warnings = append(warnings, line)
		}
	}
	const why = "11 of 15 known records are missing from a full reading of the accounting system (the limit is 10)."
	if len(warnings) != 1 || !strings.Contains(warnings[0], why) || !strings.Contains(warnings[0], `"missing":11`) {
		t.Errorf("warnings %q, want one that says %q", warnings, why)
	}
	w.expect(exitStandstill, "sync")
	w.expect(exitStandstill, "plan")
	var status statusReport
	if err := json.Unmarshal([]byte(w.expect(exitDone, "status", "--output", "json").out), &status); err != nil {
		t.Fatal(err)
	}
	if len(status.Approvals) != 1 || status.Approvals[0].Missing != 11 || status.Approvals[0].Limits != why {
		t.Errorf("approvals %+v", status.Approvals)
	}
	if res := w.expect(exitAttention, "sync", "--yes"); !strings.Contains(res.out, "They were let go") {
		t.Errorf("with --yes it says\n%s", res.out)
	}
	w.expect(exitAttention, "sync") // who left has a mandate
}

// covers F109
func TestAStandstillIsWorseThanWaitingAndBetterThanFailure(t *testing.T) {
	t.Parallel()
	for _, tt := range [][3]int{{exitStandstill, exitHeld, exitStandstill},
		{exitAttention, exitStandstill, exitStandstill}, {exitFailed, exitStandstill, exitFailed}} {
		if got := worse(tt[0], tt[1]); got != tt[2] {
			t.Errorf("of %d and %d, %d is worse; want %d", tt[0], tt[1], got, tt[2])
		}
	}
}

// A check before the first run makes nothing, and says what the first run will make.
func TestACheckMakesNoLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	w.remove("payersync.db")
	before, err := os.ReadDir(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	if r := w.expect(exitDone, "check"); !strings.Contains(r.out,
		"there is none yet; the first run makes "+w.path("payersync.db")) {
		t.Errorf("it says:\n%s", r.out)
	}
	if after, err := os.ReadDir(w.dir); err != nil || len(after) != len(before) {
		t.Errorf("%d files became %v, %v", len(before), after, err)
	}
	w.edit("payersync.yaml", "billing:\n", "ledger: {path: nowhere/payersync.db, key_file: payersync.key}\nbilling:\n")
	if r := w.expect(exitFailed, "check"); !strings.Contains(r.out, "FAIL  ledger") ||
		!strings.Contains(r.out, "the folder does not exist, and payersync cannot make it") {
		t.Errorf("without the ledger's folder it says:\n%s", r.out)
	}
}

// A single customer's typing is no mistake of the mapping.
func TestRecordsThatBreakARuleAreNoMistakeOfTheMapping(t *testing.T) {
	t.Parallel()
	rows := people(3)
	rows[1].Email = "nobody at example"
	w := newWorld(t, rows)
	w.expect(exitAttention, "sync")
	if r := w.expect(exitAttention, "mapping", "check"); !strings.Contains(r.out, "FAIL  acme: 1 record of 3: A00002") {
		t.Errorf("it says:\n%s", r.out)
	}
	w.edit("mapping.yaml", "trim(Name)\n", "trimm(Name)\n")
	w.expect(exitUsage, "mapping", "check")
}

// Webhooks carry the service's time, and a computer whose clock is elsewhere refuses them.
func TestACheckComparesTheClocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	if r := w.expect(exitDone, "check"); !strings.Contains(r.out, "ok    clock") {
		t.Errorf("it says:\n%s", r.out)
	}
	w = newWorld(t, people(3), func(o *sandbox.Options) {
		o.Now = func() time.Time { return time.Now().Add(-7 * time.Minute) }
	})
	if r := w.expect(exitFailed, "check"); !strings.Contains(r.out, "FAIL  clock") ||
		!strings.Contains(r.out, "ahead of that of the billing service, and it may refuse webhooks for their time; set the clock") {
		t.Errorf("it says:\n%s", r.out)
	}
}
