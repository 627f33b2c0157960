package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"payersync/state"
)

func TestTheAuditLogIsListedNewestFirstAndInParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	ledger, err := state.Open(t.Context(), state.Options{Path: w.path("payersync.db"), KeyFile: w.path("payersync.key")})
	w.must(err)
	const written = auditPage + 5
	w.must(ledger.Do(t.Context(), func(tx *state.Tx) error {
		for i := range written {
			who := "anna"
			if i%2 == 1 {
				who = "=bert"
			}
			if err := tx.Audit(state.Entry{Actor: who, Action: "test act", Subject: fmt.Sprintf("line %d", i),
				Reason: "ticket 88"}); err != nil {
				return err
			}
		}
		return nil
	}))
	w.must(ledger.Close())

	all := decodeLines[auditLine](t, w.expect(exitDone, "audit", "--act", "test act", "--output", "json"))
	if len(all) != written || all[0].Subject != fmt.Sprintf("line %d", written-1) || all[written-1].Subject != "line 0" ||
		all[0].At.IsZero() {
		t.Errorf("%d lines, from %+v to %+v", len(all), all[0], all[len(all)-1])
	}
	if r := w.expect(exitDone, "audit", "--limit", "3"); strings.Count(r.out, "test act") != 3 ||
		!strings.Contains(r.errOut, "There are more") {
		t.Errorf("the first 3 are:\n%s%s", r.out, r.errOut)
	}
	if r := w.expect(exitDone, "audit", "--who", "anna", "--limit", "0"); strings.Count(r.out, "anna") != (written+1)/2 ||
		strings.Contains(r.out, "bert") {
		t.Errorf("anna did %d acts", strings.Count(r.out, "anna"))
	}
	if r := w.expect(exitDone, "audit", "--output", "csv", "--act", "test act"); strings.Count(r.out, "\n") != written+1 ||
		!strings.Contains(r.out, "'=bert") {
		t.Errorf("the CSV has %d lines", strings.Count(r.out, "\n"))
	}
	if r := w.expect(exitDone, "audit", "--since", time.Now().Add(24*time.Hour).Format(time.DateOnly), "--output",
		"json"); r.out != "" {
		t.Errorf("there are lines of tomorrow:\n%s", r.out)
	}
	w.expect(exitUsage, "audit", "--since", "soon")
}
