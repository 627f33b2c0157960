package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

// secondPayer is the forgotten payer in these tests, with unique values.
var secondPayer = row{ID: "A00002", Name: "Zuleika Quibblethorpe", Email: "zuleika@quibblethorpe.example",
	Phone: "01632 960777", Street: "77 Quibble Lane"}

var hers = []string{"Quibblethorpe", "quibblethorpe", "960777", "Quibble Lane"}

// expectNobody fails if a file of the installation, except the source's export, or a command's output
// contains one of her values.
func (w *world) expectNobody(when string) {
	w.t.Helper()
	look := func(where, text string) {
		for _, value := range hers {
			if strings.Contains(text, value) {
				w.t.Errorf("%s, %s holds %q", when, where, value)
			}
		}
	}
	err := filepath.Walk(w.dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() || info.Name() == "customers.csv" {
			return err
		}
		data, err := os.ReadFile(path)
		look(info.Name(), string(data))
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, args := range [][]string{
		{"payers", "show", "A00002", "--show-values"}, {"payers", "show", "A00002", "--show-values", "--output", "json"},
		{"payers", "list"}, {"payers", "list", "--search", "Quibblethorpe"},
		{"plan", "list"}, {"attention", "list"}, {"mandates", "list"}, {"webhooks", "list"}, {"status"},
		{"ledger", "export", "A00002", "--output", "json"}, {"ledger", "export", "A00001", "--output", "json"},
		{"ledger", "export", "A00003", "--output", "json"},
		{"mapping", "preview", "--show-values"}, {"plan"},
	} {
		r := w.run(args...)
		if r.code == exitUsage {
			w.t.Fatalf("%v: %s", args, r.errOut)
		}
		if len(args) > 3 && args[2] == "--search" {
			r.errOut = ""
			r.out = strings.ReplaceAll(r.out, `"Quibblethorpe"`, "")
		}
		look(strings.Join(args, " "), r.out+r.errOut)
	}
}

// The story: a payer is forgotten, the books are read again, an older backup is put back, the
// books are read again. She does not come back, and nobody else notices.
//
// covers F123
func TestAPayerWhoWasForgottenDoesNotComeBack(t *testing.T) {
	t.Parallel()
	rows := people(5)
	rows[1] = secondPayer
	w := newWorld(t, rows)
	w.expect(exitDone, "backfill", "--yes")
	w.expect(exitDone, "sync", "--yes")
	backup := w.read("payersync.db")
	sent := len(w.requests(isWrite))
	held := decode[payerExport](t, w.expect(exitDone, "ledger", "export", "A00002", "--output", "json"))
	if text, _ := json.Marshal(held); !strings.Contains(string(text), "Quibblethorpe") || len(held.Changes) == 0 ||
		len(held.Mandates) != 1 || len(held.Requests) == 0 || len(held.LeftOut) == 0 {
		t.Errorf("before, this is held: %s", text)
	}
	if strings.Contains(w.expect(exitDone, "ledger", "export", "A00002", "--output", "json").out,
		w.mandateOf("A00002").URL) {
		t.Error("the signing link is exported")
	}

	if r := w.expect(exitUsage, "ledger", "forget", "A00002", "--yes"); !strings.Contains(r.errOut, "reason") {
		t.Errorf("without a reason it says %s", r.errOut)
	}
	if r := w.expect(exitUsage, "ledger", "forget", "A00002", "--yes", "--reason",
		"ticket 88"); !strings.Contains(r.errOut, "--mandate-stays") {
		t.Errorf("of a mandate that holds it says %s", r.errOut)
	}
	done := decode[admin.Forgetting](t,
		w.expect(exitDone, "ledger", "forget", "A00002", "--mandate-stays", "--yes", "--reason", "ticket 88", "--output",
			"json"))
	if !done.Forgotten || done.FilesLater || done.BillingID == "" || done.MandateID == "" {
		t.Errorf("it reports %+v", done)
	}
	w.expectNobody("after she was forgotten")
	if r := w.run("ledger", "forget", "A00002", "--yes", "--reason", "ticket 88"); r.code != exitDone ||
		!strings.Contains(r.errOut, "was forgotten before") {
		t.Errorf("forgotten again it ends with %d: %s", r.code, r.errOut)
	}

	w.expect(exitDone, "sync", "--yes")
	w.expectNobody("after a sync")
	w.expect(exitDone, "backfill", "--yes")
	w.expect(exitDone, "sweep")
	w.expectNobody("after a backfill and a sweep")
	if n := len(w.requests(isWrite)); n != sent {
		t.Errorf("%d requests were sent for her", n-sent)
	}

	w.write("payersync.db", backup)
	for _, ending := range []string{"-wal", "-shm"} {
		_ = os.Remove(w.path("payersync.db" + ending))
	}
	r := w.run("sync", "--yes")
	if !strings.Contains(r.errOut, "forgotten again") {
		t.Errorf("nobody is told that an older copy forgot her again:\n%s", r.errOut)
	}
	w.expectNobody("after an older backup was put back")
	w.run("sync", "--yes")
	w.expectNobody("after one more sync")
	if n := len(w.requests(isWrite)); n != sent {
		t.Errorf("%d requests were sent after the backup was put back", n-sent)
	}
	w.expectOnePerRow(rows) // nothing is deleted at the service

	w.expect(exitDone, "ledger", "forget", "--undo", "A00002", "--reason", "a customer again")
	w.run("sync", "--yes")
	if r := w.expect(exitDone, "payers", "list", "--search", "Quibblethorpe"); !strings.Contains(r.out, "A00002") {
		t.Errorf("after that was taken back she is not found:\n%s%s", r.out, r.errOut)
	}
	w.expectOnePerRow(rows)
}

// Her number is given to somebody else, and she is entered anew: both are told, nobody is guessed.
func TestARecordLikeAForgottenPayerIsTold(t *testing.T) {
	t.Parallel()
	rows := people(5)
	rows[1] = secondPayer
	w := newWorld(t, rows)
	w.expect(exitDone, "backfill", "--yes")
	w.expect(exitDone, "sync", "--yes")
	w.expect(exitDone, "ledger", "forget", "A00002", "--mandate-stays", "--yes", "--reason", "ticket 88")
	rows[1] = row{ID: "A00002", Name: "Somebody Else", Email: "else@example.org"}
	again := secondPayer
	again.ID = "A00099"
	w.export(append(rows, again)...)
	sent := len(w.requests(isWrite))
	if r := w.run("sync", "--yes"); r.code != exitAttention {
		t.Errorf("it ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	list := w.run("attention", "list", "--reason", string(connector.ReasonForgotten))
	for _, id := range []string{"A00002", "A00099"} {
		if !strings.Contains(list.out, id) {
			t.Errorf("%s is not told:\n%s", id, list.out)
		}
	}
	w.expectNobody("after she was entered anew")
	if n := len(w.requests(isWrite)); n != sent {
		t.Errorf("%d requests were sent", n-sent)
	}
	w.expect(exitDone, "ledger", "forget", "--undo", "A00099", "--reason", "she is back")
	w.run("sync", "--yes")
	if n := len(w.requests(isWrite)) - sent; n == 0 {
		t.Error("a person said that the new record is kept, and it is not sent")
	}
}

func TestAnExportIsItsReadersAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	w.expect(exitDone, "backfill", "--yes")
	w.expect(exitUsage, "ledger", "export", "A00001")
	w.expect(exitDone, "ledger", "export", "A00001", "-o", w.path("her.json"))
	info, err := os.Stat(w.path("her.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("it has mode %v, %v", info.Mode(), err)
	}
	var held state.SubjectData
	if err := json.Unmarshal([]byte(w.read("her.json")), &held); err != nil || held.SourceID != "A00001" ||
		!strings.Contains(string(held.Record.Data), "Payer 1") {
		t.Errorf("it holds %+v, %v", held, err)
	}
	if strings.Contains(w.read("her.json"), "payer2@example.org") {
		t.Error("it holds somebody else")
	}
	w.expect(exitUsage, "ledger", "export", "A00001", "-o", w.path("her.json"))
}
