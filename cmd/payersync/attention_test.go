package main

import (
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/state"
)

// Findings put off on the pages have a list of their own, with time, person and reason. The list of findings
// mentions them, and includes them on request.
func TestWhatWasPutOffIsListedApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	w.write("customers.csv", "AccountNumber,Name,Email,Phone,Street,Depot\nA1,Ada,nowhere,,1 Mill Lane,\nA2,Bo,elsewhere,,1 Mill Lane,\n")
	w.run("sync")
	lists := func(args ...string) (ids []string, said string) {
		t.Helper()
		rows := decodeLines[state.AttentionRow](t,
			w.expect(exitDone, append([]string{"attention", "list", "--output", "json"}, args...)...))
		for _, r := range rows {
			ids = append(ids, r.SourceID)
		}
		r := w.expect(exitDone, append([]string{"attention", "list"}, args...)...)
		return ids, r.out + r.errOut
	}
	expect := func(when string, ids []string, want ...string) {
		t.Helper()
		if strings.Join(ids, " ") != strings.Join(want, " ") {
			t.Errorf("%s %v are listed, want %v", when, ids, want)
		}
	}
	const hint = "Findings postponed on the pages are not listed: payersync attention list --later"
	all, said := lists()
	expect("at first", all, "A1", "A2")
	none, _ := lists("--later")
	expect("of what was put off", none)
	if strings.Contains(said, hint) {
		t.Errorf("with nothing put off it says:\n%s", said)
	}

	l, err := state.Open(t.Context(), state.Options{Path: w.path("payersync.db"), KeyFile: w.path("payersync.key")})
	w.must(err)
	desk, by := &admin.Attention{Ledger: l}, syncer.Operator{Name: "anna", Reason: "she rings on Monday"}
	a1 := []state.RecordID{{Connection: "acme", SourceID: "A1"}}
	until, n, err := desk.Later(t.Context(), connector.ReasonEmailMalformed, a1, by)
	if w.must(err); n != 1 {
		t.Fatalf("%d were put off", n)
	}
	rest, said := lists()
	expect("without what was put off", rest, "A2")
	if !strings.Contains(said, hint) {
		t.Errorf("it does not say that something was put off:\n%s", said)
	}
	if status := w.expect(exitDone, "status").out; !strings.Contains(status,
		"Put off by a person until later, beside these: 1 record: payersync attention list --later") {
		t.Errorf("the status says:\n%s", status)
	}
	later, said := lists("--later")
	expect("of what was put off", later, "A1")
	if want := "Put off until " + until.UTC().Format(time.DateOnly); !strings.Contains(said, want) ||
		!strings.Contains(said, "by anna: she rings on Monday") || strings.Contains(said, hint) {
		t.Errorf("it does not say %q and why:\n%s", want, said)
	}
	if r := w.expect(exitUsage, "attention", "list", "--later", "--closed"); !strings.Contains(r.errOut, "two lists") {
		t.Errorf("it says %s", r.errOut)
	}
	_, err = desk.TellNow(t.Context(), connector.ReasonEmailMalformed, a1, by)
	w.must(err)
	w.must(l.Close())
	all, _ = lists()
	expect("once told again", all, "A1", "A2")
}
