package main

import (
	"strings"
	"testing"

	"payersync/state"
)

func TestALedgerIsNotCopiedWithoutAWayThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	w.expect(exitDone, "sync")
	const secret = "canary-password"
	w.write("server.secret", "postgres://payersync:"+secret+"@127.0.0.1:1/ledgers?sslmode=disable")
	there := "file:" + w.path("server.secret")
	for _, tt := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"the address in clear", []string{"--to", "postgres://payersync:" + secret + "@127.0.0.1/ledgers", "--account",
			"acme", "--yes"}, exitUsage, "write env:NAME or file:PATH"},
		{"a variable that is not set", []string{"--to", "env:NO_SERVER", "--account", "acme", "--yes"}, exitUsage,
			"the environment variable NO_SERVER is not set"},
		{"a file that is not there", []string{"--from", "file:/nowhere", "--account", "acme", "--yes"}, exitUsage,
			"there is no such file"},
		{"no way", []string{"--account", "acme", "--yes"}, exitUsage, "the direction is missing"},
		{"both ways", []string{"--to", there, "--from", there, "--account", "acme", "--yes"}, exitUsage,
			"the direction is missing"},
		{"no account", []string{"--to", there, "--yes"}, exitUsage, "is no name of an account"},
		{"a name that is none", []string{"--to", there, "--account", "Acme Ltd", "--yes"}, exitUsage,
			"is no name of an account"},
		{"no yes", []string{"--to", there, "--account", "acme"}, exitUsage, "without a yes"},
		{"a server that is away", []string{"--to", there, "--account", "acme", "--yes"}, exitFailed, "it cannot be reached"},
		{"a server that is away, and back", []string{"--from", there, "--account", "acme", "--yes"}, exitFailed,
			"it cannot be reached"},
	} {
		r := w.run(append([]string{"ledger", "copy"}, tt.args...)...)
		if r.code != tt.code || !strings.Contains(r.errOut, tt.says) {
			t.Errorf("%s ended with %d:\n%s", tt.name, r.code, r.errOut)
		}
		if strings.Contains(r.out+r.errOut, secret) {
			t.Errorf("%s shows the password:\n%s%s", tt.name, r.out, r.errOut)
		}
	}
	w.expect(exitDone, "status")
}

// Between files there is no command; what a journey leaves behind, and what it brings, is the same.
func TestALedgerThatWasCarriedWorksInItsNewPlaceAlone(t *testing.T) {
	t.Parallel()
	rows := people(3)
	w := newWorld(t, rows)
	w.expect(exitDone, "sync")
	key := w.path("payersync.key")
	if _, err := (state.Transfer{From: state.Options{Path: w.path("payersync.db"), KeyFile: key},
		To: state.Options{Path: w.path("carried.db"), KeyFile: key},
		By: state.Entry{Actor: "ada"}}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"status"}, {"sync"}, {"ledger", "verify"}, {"ledger", "backup", w.path("b.db")},
		{"ledger", "rekey", "--yes"}} {
		if r := w.run(args...); r.code == exitDone ||
			!strings.Contains(r.errOut, "it was carried to "+w.path("carried.db")) ||
			!strings.Contains(r.errOut, "Name that place in the configuration") {
			t.Errorf("%v where it was ended with %d:\n%s", args, r.code, r.errOut)
		}
	}
	w.edit("payersync.yaml", "connections:", "ledger: {path: carried.db, key_file: payersync.key}\nconnections:")
	sent := len(w.requests(isWrite))
	w.expect(exitDone, "sync")
	if n := len(w.requests(isWrite)); n != sent {
		t.Errorf("%d requests were sent", n-sent)
	}
	w.expectOnePerRow(rows)
	if r := w.expect(exitDone, "status"); strings.Contains(r.errOut, "Warning") {
		t.Errorf("it says %s", r.errOut)
	}
}

func TestWhatToDoAboutALedgerThatWasNotCopied(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		back bool
		next string
	}{
		{state.ErrServed, false, "stop it"},
		{state.ErrRunning, false, "say it again when it has ended"},
		{state.ErrNothing, true, "how the account is called"},
		{state.ErrNothing, false, "look at ledger.path"},
		{state.ErrNotNew, false, "give --account a name"},
		{state.ErrNotNew, true, "move what is at ledger.path away"},
		{state.ErrGoneOn, false, "that copy stays unused"},
		{state.ErrDiffers, true, "the ledger stays in its old place"},
	} {
		if got := explainCopy(tt.err, tt.back).Error(); !strings.Contains(got, tt.err.Error()+"; ") ||
			!strings.Contains(got, tt.next) {
			t.Errorf("%v: %s", tt.err, got)
		}
	}
}
