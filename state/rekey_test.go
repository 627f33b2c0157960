//go:build unix

package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"payersync/connector"
	"payersync/internal/longtest"
	"slices"
)

func init() { roles["rekey"] = rekeyChild }

// stages are the steps of a new sealing key.
var stages = []string{"begun", "sealed", "list", "clean", "kept", "exchanged", "done"}

// rekeyChild gives the ledger a new key and kills itself at a stage; at "" it is killed by
// the test.
func rekeyChild(opts Options, stage string) error {
	_, err := Rekey{By: Entry{Actor: "ada", Action: "new sealing key"}, Stage: func(name string) error {
		if name == stage {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	}}.Rekey(context.Background(), opts)
	return err
}

// opened is every sealed value of the ledger, by its place.
func (d *desk) opened() map[string]string {
	d.t.Helper()
	onlyOnSQLite(d.t, "a new key reaches rows by their numbers in the file")
	out := map[string]string{}
	d.do(func(tx *Tx) error {
		for _, c := range sealedColumns {
			if err := c.each(tx.query, func(b sealedBox) error {
				plain, err := d.seal.open(b.box, b.place)
				out[string(b.place)] = string(plain)
				return err
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return out
}

func TestEverySealedColumnGetsTheNewKey(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "a new key reaches rows by their numbers in the file")
	d := newDesk(t)
	type column struct{ table, name string }
	found, err := list(t.Context(), d.Ledger,
		"SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND c.type = 'BLOB'",
		nil,
		func(c *column) []any { return []any{&c.table, &c.name} })
	if err != nil {
		t.Fatal(err)
	}
	known := map[column]bool{}
	for _, c := range sealedColumns {
		known[column{c.table, c.column}] = true
	}
	for _, c := range found {
		if !known[c] {
			t.Errorf("%s.%s holds boxes and is not in sealedColumns", c.table, c.name)
		}
	}
	if len(found) != len(sealedColumns) {
		t.Errorf("%d columns, %d are listed", len(found), len(sealedColumns))
	}
}

// filledForRekey is a ledger with something in every sealed column, and a forgotten payer.
func filledForRekey(t *testing.T) *desk {
	t.Helper()
	onlyOnSQLite(t, "a new key reaches rows by their numbers in the file")
	d := newDesk(t)
	d.fill(8)
	d.over()
	d.forget("c002")
	p, err := d.Payer(t.Context(), acme, "c000")
	if err != nil {
		t.Fatal(err)
	}
	mandate := one[string](t, d.Ledger, "SELECT min(mandate_id) FROM mandates")
	letter := Letter{MandateID: mandate, Kind: "invitation", RecordID: RecordID{acme, "c000"}, Recipient: "r",
		MessageID: "l1", Body: []byte("to " + canaryName), LookedAt: d.now(), FrozenAt: d.now()}
	d.do(func(tx *Tx) error {
		return errors.Join(tx.FreezeLetter(letter), tx.keepLetterKey(),
			tx.FreezeWrite(FrozenWrite{RecordID: letter.RecordID, Setup: "s", ID: "w1", Wanted: connector.FieldActive,
				Body: []byte("of " + canaryName)}),
			tx.FreezeMessage(AlarmMessage{ID: "m1", Way: "office", MadeAt: d.clock.now(), Body: []byte("about " + canaryName)},
				nil), tx.Accept(p, []connector.Accepted{{Path: "name"}}),
			tx.SetRead(p, []connector.FieldChange{{Path: "name", From: canaryName}}),
			tx.SaveLikeness(acme, "c000", Likeness{Name: canaryName, Emails: []string{canaryEmail}}),
			tx.exec("INSERT INTO tokens (connection, token, generation) VALUES (?, ?, 1)", acme,
				tx.l.seal.box([]byte("token"), place("tokens", "token", acme))))
	})
	d.do(func(tx *Tx) error {
		id, err := tx.BeginRotation(connector.NewSecret(canaryReason), time.Hour, "ada")
		return errors.Join(err, tx.KeepSecret(id, connector.NewSecret(canaryReason)), tx.EndRotation(id),
			fillUser(tx),
			tx.AddLogin("a hash", []byte("searched for "+canaryName), d.clock.now().Add(time.Hour), d.clock.now()))
	})
	for _, c := range sealedColumns {
		if n := one[int](t, d.Ledger,
			fmt.Sprintf("SELECT count(*) FROM %s WHERE length(%s) > 0", c.table, c.column)); n == 0 {
			t.Errorf("nothing is in %s.%s", c.table, c.column)
		}
	}
	return d
}

// fillUser keeps a user with the hash of a password.
func fillUser(tx *Tx) error {
	_, err := tx.AddUser("ada", "admin")
	_, setting := tx.SetPassword("ada", connector.NewSecret("the hash of "+canaryReason))
	return errors.Join(err, setting)
}

// expectRekeyed fails unless the ledger holds what it held, under the new key alone.
func expectRekeyed(t *testing.T, d *desk, want map[string]string, old []byte) {
	t.Helper()
	l := &desk{Ledger: d.another(), t: t, clock: d.clock, opts: d.opts}
	got := l.opened()
	// the next list fills them
	maps.DeleteFunc(want, func(at, _ string) bool { return strings.HasPrefix(at, "remote_profiles\x00") })
	for at, text := range want {
		if got[at] != text {
			t.Errorf("%q held %q, and now %q", at, text, got[at])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d sealed values, want %d", len(got), len(want))
	}
	if err := l.Integrity(t.Context()); err != nil {
		t.Error(err)
	}
	if how, err := l.ForgottenAs(t.Context(), RecordID{acme, "c002"}); err != nil || how != ForgottenPayer {
		t.Errorf("the forgotten payer is %q, %v", how, err)
	}
	for query, want := range map[string]int{
		"SELECT count(*) FROM likenesses": 0, "SELECT count(*) FROM remote_profiles": 0,
		"SELECT count(*) FROM remote_traits WHERE kind <> 'key'":                  0,
		"SELECT count(*) FROM passes WHERE lacking IS NOT NULL":                   0,
		"SELECT count(*) FROM source_records WHERE replan = 0 AND forgotten = ''": 0,
	} {
		if n := one[int](t, l.Ledger, query); n != want {
			t.Errorf("%s: %d, want %d", query, n, want)
		}
	}
	kept := readFile(t, d.opts.KeyFile+oldEnding)
	if !bytes.Equal(kept, old) {
		t.Error("the old key was not kept")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	sealer, err := loadKey(d.opts.KeyFile + oldEnding)
	if err != nil {
		t.Fatal(err)
	}
	for _, ending := range []string{"", "-wal", tombstonesEnding} {
		data, err := os.ReadFile(d.opts.Path + ending)
		if err == nil && bytes.Contains(data, sealer.id[:]) {
			t.Errorf("%s holds something that the old key sealed", filepath.Base(d.opts.Path+ending))
		}
	}
	older := d.opts
	older.KeyFile += oldEnding
	refused(t, older, "another key")
	if _, err := os.Lstat(d.opts.KeyFile + newEnding); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the new key still lies beside: %v", err)
	}
}

// Hashes of addresses and letters are compared with what was written down years before, also
// outside the ledger.
func TestHashesOfLettersOutliveTheSealingKey(t *testing.T) {
	t.Parallel()
	onlyOnSQLite(t, "a new key reaches rows by their numbers in the file")
	d := newDesk(t)
	recipient, letter := d.RecipientHash("ada@bakery.example"), d.LetterHash("letter", "m1", "0")
	if d.RecipientHash(" Ada@Bakery.EXAMPLE ") != recipient {
		t.Error("capitals and spaces make another recipient")
	}
	if letter == d.LetterHash("letter", "m1", "1") || letter == d.LetterHash("other", "m1", "0") ||
		letter == d.LetterHash("letter", "m10", "") {
		t.Error("different things have one hash")
	}
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := (Rekey{By: Entry{Actor: "ada", Action: "new sealing key"}}).Rekey(t.Context(), d.opts); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(d.opts.KeyFile + oldEnding); err != nil {
			t.Fatal(err)
		}
		d.Ledger = d.another()
		if d.RecipientHash("ada@bakery.example") != recipient || d.LetterHash("letter", "m1", "0") != letter {
			t.Error("the new sealing key has changed the hashes")
		}
	}
}

// A process that is killed at any stage, or at any moment, leaves a ledger that opens with
// one key, or says how to finish; the same call goes on.
//
// covers F124
func TestKilledProcessLeavesANewKeyThatIsTakenUp(t *testing.T) {
	longtest.Story(t, longtest.Processes)
	t.Parallel()
	for i, stage := range append(stages, "", "", "") {
		t.Run(fmt.Sprintf("%d %s", i, stage), func(t *testing.T) {
			t.Parallel()
			d := filledForRekey(t)
			want, old := d.opened(), readFile(t, d.opts.KeyFile)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			cmd := child(t, "rekey", d.opts, stage)
			var said strings.Builder
			cmd.Stderr = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if stage == "" {
				defer time.AfterFunc(time.Duration(5+20*(i-len(stages)))*time.Millisecond, func() { _ = cmd.Process.Kill() }).Stop()
			}
			_ = cmd.Wait() // killed; or done, where the time was too long
			if said.Len() > 0 {
				t.Errorf("it said %s", said.String())
			}
			l, err := Open(t.Context(), d.opts)
			var away *OpenError
			switch {
			case err == nil:
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			case !errors.As(err, &away), !slices.Contains(connector.StepsOf(err), connector.Step{Do: connector.DoFinishRekey}):
				t.Errorf("in between it does not say how to finish: %v", err)
			}
			if _, err := os.Lstat(d.opts.KeyFile + newEnding); err == nil ||
				!bytes.Equal(readIfThere(t, d.opts.KeyFile+oldEnding), old) {
				if _, err := (Rekey{By: Entry{Actor: "ada", Action: "new sealing key"}}).Rekey(t.Context(), d.opts); err != nil {
					t.Fatal(err)
				}
			}
			expectRekeyed(t, d, want, old)
		})
	}
}

func readIfThere(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return data
}

func TestNobodyWorksOnALedgerThatGetsANewKey(t *testing.T) {
	t.Parallel()
	d := filledForRekey(t)
	rekey := func() error {
		_, err := Rekey{By: Entry{Actor: "ada", Action: "new sealing key"}}.Rekey(t.Context(), d.opts)
		return err
	}
	serving, err := d.TryServe()
	if err != nil || serving == nil {
		t.Fatal(err)
	}
	if err := rekey(); !errors.Is(err, ErrServed) {
		t.Errorf("beside serve: %v", err)
	}
	running, err := d.TryLock(acme)
	if err := errors.Join(err, serving.Release()); err != nil || running == nil {
		t.Fatal(err)
	}
	if err := rekey(); !errors.Is(err, ErrRunning) {
		t.Errorf("beside a run: %v", err)
	}
	if err := running.Release(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.opts.KeyFile+".next", readFile(t, d.opts.KeyFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Rekey{NewKey: d.opts.KeyFile + ".next"}).Rekey(t.Context(), d.opts); !errors.Is(err, ErrSameKey) {
		t.Errorf("the same key: %v", err)
	}
	held := false
	if _, err := (Rekey{Stage: func(name string) error {
		if name != "begun" {
			return nil
		}
		held = true
		other := d.another()
		if k, err := other.TryServe(); err != nil || k != nil {
			t.Errorf("meanwhile serve may begin: %v", err)
		}
		if k, err := other.TryLock(acme); err != nil || k != nil {
			t.Errorf("meanwhile a run may begin: %v", err)
		}
		return nil
	}}).Rekey(t.Context(), d.opts); err != nil || !held {
		t.Fatal(err)
	}
	// A command that was there before cannot write with the old key.
	if err := d.Do(t.Context(),
		func(tx *Tx) error { return tx.Audit(Entry{Actor: "ada", Action: "too late"}) }); !errors.Is(err, errRekeyed) {
		t.Errorf("a process that had it open wrote: %v", err)
	}
	if err := rekey(); err == nil || !strings.Contains(err.Error(), "earlier change") {
		t.Errorf("over the key of an earlier change: %v", err)
	}
}

// An older copy, put back with its own key, is brought to the newer one; whom it knows and
// the list does not, it forgets then.
func TestAnOlderCopyIsBroughtToTheNewKey(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(8)
	d.over()
	backup := d.opts.Path + ".backup"
	raw(t, d.opts.Path, "VACUUM INTO '"+backup+"'")
	d.forget("c000")
	older, old := readFile(t, backup), readFile(t, d.opts.KeyFile)
	if err := errors.Join(os.Remove(backup), d.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := (Rekey{}).Rekey(t.Context(), d.opts); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(t.TempDir(), "newer.key")
	if err := errors.Join(os.Rename(d.opts.KeyFile, newer), os.WriteFile(d.opts.KeyFile, old, 0o600),
		os.WriteFile(d.opts.Path, older, 0o600)); err != nil {
		t.Fatal(err)
	}
	refused(t, d.opts, "bring it to the newer key")
	if _, err := (Rekey{NewKey: newer}).Rekey(t.Context(), d.opts); err != nil {
		t.Fatal(err)
	}
	l := d.another()
	if l.Heeded() != 1 {
		t.Errorf("%d payers were forgotten again, want 1", l.Heeded())
	}
}
