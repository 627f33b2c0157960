package main

import (
	"strings"
	"testing"
)

// From the description of an API to a set-up: a person fills in what the description does not tell.
func TestADraftBecomesASetUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	description := w.path("openapi.yaml")
	w.write("openapi.yaml", readShipped(t, "connector/accounting/httpsource/testdata/openapi.yaml"))
	drafted := w.expect(exitDone, "source", "--new", "quillbooks", "--openapi", description)
	if !strings.Contains(drafted.errOut+drafted.out, "5 values are still open") {
		t.Errorf("the draft says:\n%s", drafted.errOut)
	}
	text, _, _ := strings.Cut(drafted.out, "5 values are still open")
	w.write("q.yaml", strings.NewReplacer(`documents: "?"`, "documents: 2026-11", `order: "?", paging: "?"`,
		"order: id, unique: true, paging: keyset", `deletes: "?", children: "?"`, "deletes: vanish, children: joined").Replace(text))
	if r := w.run("source", "--check", w.path("q.yaml")); strings.Count(r.out, "wrong ") != 1 ||
		!strings.Contains(r.out, "wrong examples") {
		t.Errorf("the check says:\n%s%s", r.out, r.errOut)
	}
	w.expect(exitDone, "init", "--source", w.path("q.yaml"), "--ask", "everybody", w.path("set-up"))
	mapping := w.read("set-up/" + mappingFile)
	for _, want := range []string{"\ninclude: not isSupplier\n", "      email: lower(firstEmail(emailAddress))\n",
		"    - line1: address.street\n      city: address.city\n      postCode: address.postcode\n"} {
		if !strings.Contains(mapping, want) {
			t.Errorf("the mapping has no %q:\n%s", want, mapping)
		}
	}
}
