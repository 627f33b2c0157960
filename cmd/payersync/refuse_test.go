package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"payersync/connector/sandbox"
	"payersync/state"
)

// Every command that speaks to the billing service, as it would be typed.
var speaking = [][]string{
	{"check"}, {"plan"}, {"sync"}, {"backfill", "--yes"}, {"sweep"}, {"serve"},
	{"mandates", "request", "A00001"}, {"mandates", "cancel", "A00001", "--reason", "asked to"},
	{"mandates", "reinstate", "A00001", "--reason", "asked to"},
	{"webhooks", "subscribe"}, {"webhooks", "replay", "event:1"},
}

// covers F77
func TestALedgerIsNeverUsedWithAnotherBillingEnvironment(t *testing.T) {
	t.Parallel()
	mistakes := map[string]struct {
		make func(w, production *world)
		code int
		said string
	}{
		"other host": {func(w, production *world) { w.edit("payersync.yaml", w.service.URL, production.service.URL) },
			exitUsage, "it is another address"},
		"unknown client": {func(w, _ *world) { w.edit("payersync.yaml", "client_id: sandbox", "client_id: production") },
			exitFailed, "cannot find out whether the new credentials belong to the ledger's account"},
	}
	for name, mistake := range mistakes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, production := newWorld(t, people(3)), newWorld(t, nil)
			w.expect(exitDone, "sync")
			w.box.ResetRequests()
			before := w.expect(exitDone, "payers", "list", "--output", "json").out
			mistake.make(w, production)
			for _, args := range speaking {
				refused := w.run(args...)
				if refused.code != mistake.code || !strings.Contains(refused.errOut, mistake.said) {
					t.Errorf("%s ended with %d: %s%s", args, refused.code, refused.out, refused.errOut)
				}
			}
			for _, box := range []*world{w, production} {
				for _, r := range slices.DeleteFunc(box.box.Requests(),
					func(r sandbox.Request) bool { return r.Path == "/api/oauth2/token" && name == "unknown client" }) {
					t.Errorf("%s %s was sent", r.Method, r.Path)
				}
			}
			if after := w.expect(exitDone, "payers", "list", "--output", "json").out; after != before {
				t.Errorf("the payers were\n%sand are\n%s", before, after)
			}
		})
	}
}

// The fixture holds nothing but a ledger's mark and a schema version that no
// payersync knows yet:
//
//	PRAGMA application_id = 1885434739;
//	CREATE TABLE goose_db_version (id INTEGER PRIMARY KEY AUTOINCREMENT, version_id INTEGER NOT NULL,
//	  is_applied INTEGER NOT NULL, tstamp TIMESTAMP DEFAULT (datetime('now')));
//	INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, 1), (1, 1), (9999, 1);
//
// covers F69
func TestALedgerOfANewerPayersyncIsRefused(t *testing.T) {
	t.Parallel()
	newer, err := os.ReadFile("testdata/ledger/newer.sqlite")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, people(3))
	w.write("payersync.db", string(newer))
	for _, args := range append(speaking, []string{"status"}, []string{"plan", "approve", "1"}) {
		refused := w.run(args...)
		if refused.code != exitFailed ||
			!strings.Contains(refused.errOut, "its schema is version 9999, this payersync knows up to ") ||
			!strings.Contains(refused.errOut, "Use the payersync that wrote it, or a newer one.") {
			t.Errorf("%s ended with %d: %s%s", args, refused.code, refused.out, refused.errOut)
		}
	}
	if n := len(w.box.Requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// covers F63, F66
func TestADamagedOrForeignLedgerIsRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spoil func(w *world)
		want  string
	}{
		{"no ledger", func(w *world) { w.write("payersync.db", strings.Repeat("this is a letter ", 999)) },
			"Keep the file as it is and restore the last backup."},
		{"other key", func(w *world) {
			w.remove("payersync.key")
			if err := state.CreateKey(w.path("payersync.key")); err != nil {
				t.Fatal(err)
			}
		}, "Put back the key file this ledger was made with."},
		{"no key", func(w *world) { w.remove("payersync.key") }, "payersync.key"},
		{"open to others", func(w *world) {
			if err := os.Chmod(w.path("payersync.db"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, "Run: chmod 600 "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, people(2))
			w.expect(exitDone, "sync")
			w.box.ResetRequests()
			tt.spoil(w)
			if refused := w.expect(exitFailed, "sync"); !strings.Contains(refused.errOut, tt.want) {
				t.Errorf("it does not say %q: %s", tt.want, refused.errOut)
			}
			if n := len(w.box.Requests()); n != 0 {
				t.Errorf("%d requests were sent", n)
			}
		})
	}
}
