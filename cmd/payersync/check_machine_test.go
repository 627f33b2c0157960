package main

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestACheckSaysHowMuchRoomThereIs(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, tt := range []struct {
		name       string
		free, size uint64
		want       finding
	}{
		{"enough for a copy", 264 * mib, 200 * mib,
			finding{Check: "disk", OK: true, Detail: "there is room for the ledger and a copy of it in here"}},
		{"none for a copy", 263 * mib, 200 * mib, finding{
			Check: "disk", OK: true, Warning: true, Detail: "263 MiB free in here, for a ledger of 200 MiB",
			Next: "make room: there is not enough for a copy of the ledger, which a backup needs beside it",
		}},
		{"next to nothing", 63 * mib, mib, finding{
			Check: "disk", Detail: "63 MiB free in here, for a ledger of 1.0 MiB",
			Next: "make room: below 64 MiB the ledger may soon take nothing more, and deliveries are then refused",
		}},
	} {
		if got := judgeSpace("here", tt.free, tt.size); got != tt.want {
			t.Errorf("%s: got %+v", tt.name, got)
		}
	}
}

func TestACheckWarnsOfAKeyBesideTheLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	if r := w.expect(exitDone, "check"); !strings.Contains(r.out, "warn  key") ||
		!strings.Contains(r.out, "To do: keep the key in another folder") {
		t.Errorf("with both in one folder it says:\n%s", r.out)
	}
	if err := errors.Join(os.Mkdir(w.path("safe"), 0o700),
		os.Rename(w.path("payersync.key"), w.path("safe/payersync.key"))); err != nil {
		t.Fatal(err)
	}
	w.edit("payersync.yaml", "billing:\n", "ledger: {path: payersync.db, key_file: safe/payersync.key}\nbilling:\n")
	if r := w.expect(exitDone, "check"); !strings.Contains(r.out,
		"ok    key                    apart from the ledger, in "+w.path("safe")) {
		t.Errorf("with the key in another folder it says:\n%s", r.out)
	}
}

// Every failure names the next step.
func TestEveryLineOfACheckThatFailsSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	w.expect(exitDone, "sync")
	w.env["BILLING_CLIENT_SECRET"] = "a wrong secret"
	w.edit("mapping.yaml", "trim(Name)\n", "trimm(Name)\n")
	failed := 0
	for _, f := range decodeLines[finding](t, w.expect(exitFailed, "check", "--output", "json")) {
		if f.OK {
			continue
		}
		if failed++; f.Next == "" {
			t.Errorf("%s says nothing of what to do: %s", f.Check, f.Detail)
		}
	}
	if failed < 2 {
		t.Errorf("%d lines failed, want the mapping and the billing service", failed)
	}
}

func TestACheckSaysHowOldTheLastBackupIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.expect(exitDone, "sync")
	says := func(code int, want ...string) {
		t.Helper()
		r := w.expect(code, "check")
		for _, text := range want {
			if !strings.Contains(r.out, text) {
				t.Errorf("it does not say %q:\n%s", text, r.out)
			}
		}
	}
	says(exitDone, "warn  backup                 none was ever made",
		"To do: name a folder on another disk in backup.folder")
	if err := os.Mkdir(w.path("copies"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.expect(exitDone, "ledger", "backup", w.path("copies"))
	says(exitDone, "ok    backup                 the last was made on 20")
	w.edit("payersync.yaml", "guards:", "backup: {folder: away}\nguards:")
	says(exitFailed, "FAIL  backup.folder", "no backup can be made in "+w.path("away"), "To do: make the folder")
	if r := w.expect(exitFailed, "ledger", "backup"); !strings.Contains(r.errOut, "there is no folder") {
		t.Errorf("a backup that failed says: %s", r.errOut)
	}
	// a person was told, and the schedule is not at fault
	says(exitFailed, "ok    backup                 the last was made on 20")
}
