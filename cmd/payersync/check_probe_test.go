package main

import (
	"strings"
	"testing"

	"payersync/connector/sandbox"
)

// A person probes a service that differs by two settings, one of which only a trial shows.
func TestAProbePrintsWhatToPasteAndKeepsTheProof(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2), func(o *sandbox.Options) { o.Switches.List.PageParam, o.Switches.Update = "page", "path_id" })
	w.others(3)
	if r := w.does(exitFailed, "check", "--probe"); !strings.Contains(r.out, "page_param: page\n") || !strings.Contains(r.out, "update: body_id  # not known") {
		t.Errorf("it prints\n%s", r.out)
	}
	scratch := w.box.Customers()[2].ID
	w.does(exitFailed, "check", "--probe", "--allow-writes", scratch, "--yes") // the list first
	w.edit("payersync.yaml", "  webhook:\n", dialectOf("list: {page_param: page}")+"  webhook:\n")
	w.does(exitUsage, "check", "--probe", "--allow-writes", scratch) // nobody to ask
	if r := w.does(exitUsage, "check", "--probe", "--allow-writes", "nobody", "--yes"); !strings.Contains(r.errOut, "no such customer; make one") {
		t.Errorf("of a customer that is not there it says %s", r.errOut)
	}
	if r := w.does(exitDone, "check", "--probe", "--output", "json"); !strings.Contains(r.out, `{"paste":["  dialect:","    list:",`) || !strings.Contains(r.out, `"      page_param: page",`) || !strings.Contains(r.out, `"clock":{"check":"clock","ok":true`) {
		t.Errorf("as JSON it prints\n%s", r.out)
	}
	if n := w.box.Writes(); n != 0 {
		t.Fatalf("%d writes were sent without a yes", n)
	}
	if r := w.does(exitFailed, "check", "--probe", "--allow-writes", scratch, "--yes"); !strings.Contains(r.out, "update: path_id\n") || !strings.Contains(r.errOut, "billing.dialect.update") {
		t.Errorf("it prints\n%s%s", r.out, r.errOut)
	}
	w.edit("payersync.yaml", "{list: {page_param: page}}", "{list: {page_param: page}, update: path_id}")
	w.does(exitDone, "check", "--probe", "--allow-writes", scratch, "--yes")
	if !w.audited("not as the configuration says: billing.dialect.update") || !w.audited("nothing is otherwise than the configuration says") {
		t.Error("the audit log does not say what came of it")
	}
	w.does(exitDone, "backfill", "--yes")
	var ours string
	for _, c := range w.box.Customers() {
		if c.ExternalData["accountNumber"] == "A00001" {
			ours = c.ID
		}
	}
	before := w.box.Writes()
	if r := w.does(exitUsage, "check", "--probe", "--allow-writes", ours, "--yes"); !strings.Contains(r.errOut, "payersync knows its own") || w.box.Writes() != before {
		t.Errorf("on a customer of ours it says %s and sent %d writes", r.errOut, w.box.Writes()-before)
	}
}
