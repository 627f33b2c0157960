package main

import (
	"os"
	"strings"
	"testing"
)

// After a new key everything goes on as before: records are read, nobody is doubled, the forgotten stay
// forgotten, and new payers are created after a new reading of the list.
func TestALedgerWithANewKeyGoesOnAsBefore(t *testing.T) {
	t.Parallel()
	rows := people(5)
	rows[1] = secondPayer
	w := newWorld(t, rows)
	w.expect(exitDone, "backfill", "--yes")
	w.expect(exitDone, "sync", "--yes")
	w.expect(exitDone, "ledger", "forget", "A00002", "--mandate-stays", "--yes", "--reason", "ticket 88")
	held := w.expect(exitDone, "ledger", "export", "A00001", "--output", "json").out
	old := w.read("payersync.key")
	done := decode[newKeyReport](t, w.expect(exitDone, "ledger", "rekey", "--yes", "--output", "json"))
	if !done.Rekeyed || done.Sealed < 20 || w.read("payersync.key") == old || w.read("payersync.key.old") != old {
		t.Errorf("it reports %+v", done)
	}
	record := func(text string) string {
		_, rest, _ := strings.Cut(text, `"record"`)
		rest, _, _ = strings.Cut(rest, `"attention"`)
		return rest
	}
	if again := w.expect(exitDone, "ledger", "export", "A00001", "--output", "json").out; record(again) != record(held) {
		t.Errorf("A00001 was\n%s\nand is\n%s", record(held), record(again))
	}
	sent := len(w.requests(isWrite))
	w.run("sync", "--yes")
	if n := len(w.requests(isWrite)); n != sent {
		t.Errorf("%d requests were sent", n-sent)
	}
	w.expectNobody("after a new key")
	w.export(append(rows, row{ID: "A00006", Name: "Newcomer", Email: "newcomer@example.org"})...)
	w.run("sync", "--yes")
	w.run("sync", "--yes")
	w.expectOnePerRow(append(rows, row{ID: "A00006"}))
	w.expectNobody("after a newcomer")
	w.write("payersync.yaml",
		strings.Replace(w.read("payersync.yaml"), "connections:", "ledger: {key_file: payersync.key.old}\nconnections:", 1))
	if r := w.run("status"); r.code == exitDone || !strings.Contains(r.errOut, "another key") {
		t.Errorf("with the old key it ends with %d: %s", r.code, r.errOut)
	}
	if err := os.Remove(w.path("payersync.key.old")); err != nil {
		t.Fatal(err)
	}
}
