package main

import (
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/billing"
	"payersync/connector/sandbox"
	"payersync/connector/transport"
	"payersync/state"
)

// The service differs by two settings; only a trial shows one of them.
func TestAProbePrintsWhatToPasteAndKeepsTheProof(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2),
		func(o *sandbox.Options) { o.Switches.List.PageParam, o.Switches.Update = "page", "path_id" })
	w.others(3)
	if r := w.expect(exitFailed, "check", "--probe"); !strings.Contains(r.out, "page_param: page\n") ||
		!strings.Contains(r.out, "update: body_id  # not known") {
		t.Errorf("it prints\n%s", r.out)
	}
	scratch := w.box.Customers()[2].ID
	w.expect(exitFailed, "check", "--probe", "--allow-writes", scratch, "--yes") // the list first
	w.edit("payersync.yaml", "  webhook:\n", dialectOf("list: {page_param: page}")+"  webhook:\n")
	w.expect(exitUsage, "check", "--probe", "--allow-writes", scratch) // nobody to ask
	if r := w.expect(exitUsage, "check", "--probe", "--yes"); !strings.Contains(r.errOut,
		"--yes needs --allow-writes CUSTOMER") {
		t.Errorf("of a yes to nothing it says %s", r.errOut)
	}
	if r := w.expect(exitUsage, "check", "--probe", "--allow-writes", "nobody", "--yes"); !strings.Contains(r.errOut,
		"no such customer; make one") {
		t.Errorf("of a customer that is not there it says %s", r.errOut)
	}
	if r := w.expect(exitDone, "check", "--probe", "--output", "json"); !strings.Contains(r.out,
		`{"paste":["  dialect:","    list:",`) || !strings.Contains(r.out, `"      page_param: page",`) ||
		!strings.Contains(r.out, `"clock":{"check":"clock","ok":true`) {
		t.Errorf("as JSON it prints\n%s", r.out)
	}
	if n := w.box.Writes(); n != 0 {
		t.Fatalf("%d writes were sent without a yes", n)
	}
	if r := w.expect(exitFailed, "check", "--probe", "--allow-writes", scratch, "--yes"); !strings.Contains(r.out,
		"update: path_id\n") || !strings.Contains(r.errOut, "billing.dialect.update") {
		t.Errorf("it prints\n%s%s", r.out, r.errOut)
	}
	w.edit("payersync.yaml", "{list: {page_param: page}}", "{list: {page_param: page}, update: path_id}")
	w.expect(exitDone, "check", "--probe", "--allow-writes", scratch, "--yes")
	if !w.audited("not as the configuration says: billing.dialect.update") ||
		!w.audited("nothing is otherwise than the configuration says") {
		t.Error("the audit log does not say what came of it")
	}
	w.expect(exitDone, "payers", "match", "--finish", "--yes")
	w.expect(exitDone, "backfill", "--yes")
	var ours string
	for _, c := range w.box.Customers() {
		if c.ExternalData["accountNumber"] == "A00001" {
			ours = c.ID
		}
	}
	before := w.box.Writes()
	if r := w.expect(exitUsage, "check", "--probe", "--allow-writes", ours, "--yes"); !strings.Contains(r.errOut,
		"which marks payersync's own") || w.box.Writes() != before {
		t.Errorf("on a customer of ours it says %s and sent %d writes", r.errOut, w.box.Writes()-before)
	}
}

func TestAProbePrintsTheServicesNamesOfEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	w.box.ReplaceSubscription("https://books.example/hook", "Customers", "dd-mandate")
	r := w.expect(exitDone, "check", "--probe")
	for _, want := range []string{"is dd-mandate, customer, and looks like dd-mandate, Customers",
		"  webhook:  # of what is there, this alone\n    events: [dd-mandate, Customers]  # likely\n"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("it does not print %q but\n%s", want, r.out)
		}
	}
	w.box.ReplaceSubscription("https://books.example/hook", "customer", "dd-mandate")
	if r := w.expect(exitDone, "check", "--probe"); strings.Contains(r.out, "  webhook:") {
		t.Errorf("it asks to paste what is there already:\n%s", r.out)
	}
}

// Nobody edits a scratch customer, so one loss there says what two say of a customer in use.
func TestOneLossOfATrialStopsUpdates(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		lost, known []string
		stopped     bool
	}{
		{"nothing lost", nil, nil, false},
		{"notes lost", []string{"notes"}, nil, true},
		{"what moves with every update", []string{"revision"}, []string{"revision"}, false},
		{"that and notes", []string{"notes", "revision"}, []string{"revision"}, true},
	} {
		proven := state.Verification{By: state.TripUpdate, Survived: []string{"notes"}}
		p := state.Proof{Trips: []state.Verification{proven, tripOfTrial("c1", billing.Trial{Lost: tt.lost}, tt.known)}}
		if _, ok := p.Proven(); ok == tt.stopped || len(p.Disproved()) > 0 != tt.stopped {
			t.Errorf("%s: updates are believed %v", tt.name, ok)
		}
	}
}

func TestAProxyThatRefusesIsWhatIsNamed(t *testing.T) {
	t.Parallel()
	for reason, want := range map[transport.Reason]string{transport.ReasonProxy: "; check http.proxy",
		transport.ReasonConnect: "; check billing.base_url and the network"} {
		err := &connector.RemoteError{Fault: connector.FaultUnavailable, Err: &transport.Error{Reason: reason}}
		if got := explainFault(err).Error(); !strings.Contains(got, want) {
			t.Errorf("%s: %s", reason, got)
		}
	}
}
