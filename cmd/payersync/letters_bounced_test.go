package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/state"
)

// covers F134
func TestBouncedTakesAReportOrAPersonsWord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	w.expect(exitDone, "sync", "--yes")
	l, err := state.Open(t.Context(), state.Options{Path: w.path("payersync.db"), KeyFile: w.path("payersync.key")})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Do(t.Context(), func(tx *state.Tx) error {
		return tx.NoteLetterAddress(state.RecordID{Connection: "acme", SourceID: "A00001"},
			l.RecipientHash("ada@bakery.example"))
	}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	foreign, err := os.ReadFile(filepath.Join("..", "..", "connector", "letters", "bounce", "testdata", "postfix.eml"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("report.eml", string(foreign))
	w.write("answer.eml", "From: ada\r\n\r\nPlease stop.\r\n")
	for _, step := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{w.path("report.eml")}, exitDone, "not about a letter of ours"},
		{[]string{w.path("report.eml"), "--output", "json"}, exitDone, `"dropped":1`},
		{[]string{w.path("answer.eml")}, exitUsage, "no delivery report"},
		{[]string{w.path("none.eml")}, exitUsage, "no such file"},
		{[]string{"ADA@bakery.example", "--reason", "by hand"}, exitDone, "which 1 payer is written to at"},
		{[]string{"bob@bakery.example"}, exitDone, "No payer is written to at it"},
		{[]string{"A00001", "--undo"}, exitUsage, "needs a reason"},
		{[]string{"A00002", "--undo", "--reason", "x"}, exitFailed, "name the address itself"},
	} {
		if r := w.run(append([]string{"letters", "bounced"}, step.args...)...); r.code != step.code ||
			!strings.Contains(r.out+r.errOut, step.want) {
			t.Errorf("%q ended with %d:\n%s%s", step.args, r.code, r.out, r.errOut)
		}
	}
	if r := w.run("attention", "list"); !strings.Contains(r.out, connector.ReasonAddressBounced.Sentence()) ||
		strings.Contains(r.out, "bakery.example") {
		t.Errorf("told is:\n%s", r.out)
	}
	if !w.audited("by hand") {
		t.Error("the audit log does not say who said so")
	}
	w.expect(exitDone, "letters", "bounced", "ada@bakery.example", "--undo", "--reason", "repaired")
	if r := w.run("attention", "list"); strings.Contains(r.out, connector.ReasonAddressBounced.Sentence()) {
		t.Errorf("taken back it is told still:\n%s", r.out)
	}
}
