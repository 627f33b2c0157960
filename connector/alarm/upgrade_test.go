package alarm

import (
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/connector/health"
	smtp "payersync/connector/mail"
	"payersync/state"
	"payersync/state/statetest"
)

// testdata holds the ledger of schema12 (connector/syncer/before_test.go) as left by the version of schema
// 79, which also sent alarms in digests. The way "all" had received three conditions, one of them just over
// and settling, and then another. "urgent" had received the urgent ones. "digest" had received four in a
// digest and one ahead of it. "down" had a frozen message, not accepted. Each way but "urgent" had a
// condition waiting for its next digest.
var conditionsAtTheUpgrade = []health.Condition{failedRun("acme"), waits, lost(1),
	{Code: health.Attention, Subject: "email_malformed", Sentence: "2 records: an address.", Count: 2}}

// openBefore opens the ledger of that version as a new process of this one does.
func openBefore(t *testing.T, ways ...Way) *desk {
	t.Helper()
	statetest.OnlySQLite(t, "the ledger is a file")
	zipped, err := os.Open(filepath.Join("testdata", "payersync.db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = zipped.Close() }()
	unzip, err := gzip.NewReader(zipped)
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := io.ReadAll(unzip)
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join("testdata", "ledger-key.txt"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "payersync.db")
	for name, b := range map[string][]byte{path: ledger, path + ".key": key} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := &desk{t: t, at: time.Date(2026, 11, 25, 9, 20, 0, 0, time.UTC),
		files: state.Options{Path: path, KeyFile: path + ".key"}}
	d.files.Now = d.now
	d.start(ways...)
	return d
}

// covers F70
func TestAlarmsUnderWayGoOnAfterAnUpgradeAndNothingIsToldTwice(t *testing.T) {
	t.Parallel()
	all, urgent, digest, down := newMailbox(t, smtp.NoTLS), newMailbox(t, smtp.NoTLS), newMailbox(t, smtp.NoTLS),
		newMailbox(t, smtp.NoTLS)
	d := openBefore(t, all.named("all", Warning), urgent.named("urgent", Critical), digest.named("digest", Warning),
		down.named("down", Warning))
	waiting, err := d.ledger.WaitingMessage(context.Background(), "down")
	if err != nil || waiting == nil {
		t.Fatalf("what waits is %+v, %v", waiting, err)
	}
	d.holds = conditionsAtTheUpgrade
	d.minutes(30)
	over := "over: A run failed, books"
	for box, want := range map[*mailbox][]string{
		all:    {"Records need attention"},
		urgent: {over},
		digest: {"A mandate was cancelled, acme; Records need attention"},
		down:   {"A mandate was cancelled, acme", "Records need attention"},
	} {
		got := box.subjects()
		for i := range got {
			got[i] = strings.TrimPrefix(got[i], "payersync test: ")
		}
		if !slices.Equal(got, want) {
			t.Errorf("after the upgrade come %q, want %q", got, want)
		}
	}
	for _, box := range []*mailbox{all, digest, down} {
		mails := box.read()
		if text := mails[len(mails)-1].text; !strings.Contains(text, "Ended alarms") ||
			!strings.Contains(text, "The last run of books failed.") || !strings.Contains(text, "2 records: an address.") {
			t.Errorf("the end of the condition that was settling is not told:\n%s", text)
		}
	}
	if first := down.received()[0]; first != string(waiting.Body) {
		t.Errorf("the frozen message came as\n%s", first)
	}
	d.holds = nil
	d.minutes(2)
	for _, box := range []*mailbox{all, urgent, digest, down} {
		mails := box.read()
		if last := mails[len(mails)-1]; !strings.HasPrefix(last.subject, "payersync test: over: ") ||
			!strings.Contains(last.text, "The last run of acme failed.") || !strings.Contains(last.text, "m0001") {
			t.Errorf("the end of all is told as %q:\n%s", last.subject, last.text)
		}
	}
}
