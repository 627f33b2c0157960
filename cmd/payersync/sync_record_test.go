package main

import (
	"strings"
	"testing"
)

func TestASyncOfOneRecordSendsThatRecordAlone(t *testing.T) {
	t.Parallel()
	rows := people(3)
	w := newWorld(t, rows)
	if r := w.expect(exitUsage, "sync", "A00002"); !strings.Contains(r.errOut, "there is no connection") ||
		!strings.Contains(r.errOut, "payersync plan reads the accounting system") {
		t.Errorf("before the books were read it says %s", r.errOut)
	}
	w.expect(exitDone, "plan")
	if r := w.expect(exitUsage, "sync", "A00002", "--yes"); !strings.Contains(r.errOut, "--yes is for whole connections") {
		t.Errorf("with --yes it says %s", r.errOut)
	}
	if r := w.expect(exitDone, "sync", "A00002"); !strings.Contains(r.errOut, "Only record A00002 was to be sent.") ||
		!strings.Contains(r.out, "1 created") || !strings.Contains(r.out, "1 signing link asked for") {
		t.Errorf("it says %s%s", r.out, r.errOut)
	}
	w.expectOnePerRow(rows[1:2])
	writes := w.box.Writes()
	w.expect(exitDone, "sync", "A00002")
	if n := w.box.Writes() - writes; n != 0 {
		t.Errorf("once more it sends %d requests", n)
	}
	w.expect(exitDone, "sync") // the others
	w.expectOnePerRow(rows)
	writes = w.box.Writes()
	w.expect(exitDone, "sync")
	if n := w.box.Writes() - writes; n != 0 {
		t.Errorf("a sync over unchanged data sends %d requests", n)
	}
	w.expectWholeLedger()
}

func TestASyncOfOneRecordKeepsWithinTheLimits(t *testing.T) {
	t.Parallel()
	rows := people(25) // the configuration allows 20 new customers in a run
	w := newWorld(t, rows)
	w.expect(exitApproval, "plan")
	w.expect(exitApproval, "sync", "A00002")
	w.expectOnePerRow(nil)
	if n := w.box.Writes(); n != 0 {
		t.Errorf("%d requests were sent above the limits", n)
	}
}
