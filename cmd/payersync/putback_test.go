package main

import (
	"os"
	"strings"
	"testing"
)

// The ledger is copied back as a plain file and nobody says so: what was sent since
// the copy was made is not created a second time.
//
// covers F64, F103
func TestALedgerThatIsCopiedBackAsAPlainFileDoublesNobody(t *testing.T) {
	t.Parallel()
	rows := people(12)
	w := newWorld(t, rows[:5])
	w.expect(exitDone, "backfill", "--yes")
	copied := w.read("payersync.db")
	w.export(rows...)
	w.expect(exitDone, "sync", "--yes")
	w.expectOnePerRow(rows)

	for i := range rows {
		rows[i].Phone = "01632 960199" // so that the service does not know what it was sent
	}
	w.export(rows...)
	w.write("payersync.db", copied)
	if err := os.RemoveAll(w.path("payersync.db-wal")); err != nil {
		t.Fatal(err)
	}
	r := w.run("sync", "--yes")
	w.expectOnePerRow(rows)
	if !strings.Contains(r.errOut, "is older than before: somebody restored a copy of it") {
		t.Errorf("nobody is told; the run ended with %d and said\n%s", r.code, r.errOut)
	}
	if status := w.expect(exitDone, "status"); !strings.Contains(status.out, "An older copy of the ledger was restored") ||
		strings.Contains(status.errOut, "older") {
		t.Errorf("status says\n%s\n%s", status.out, status.errOut)
	}
	if at := decode[statusReport](t, w.expect(exitDone, "status", "--output", "json")).PutBack; at.IsZero() {
		t.Error("status --output json does not say when")
	}
	again := w.run("sync", "--yes")
	w.expectOnePerRow(rows)
	if strings.Contains(again.errOut, "older") {
		t.Errorf("it is told once more: %s", again.errOut)
	}
}
