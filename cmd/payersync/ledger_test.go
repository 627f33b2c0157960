package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"payersync/internal/longtest"
	"payersync/state/statetest"
)

// Backups while a backfill writes, for releases and nights:
//
//	PAYERSYNC_LONG=1 go test ./cmd/payersync -run BackupWhileABackfill -backups 200 -timeout 0 -v
var backupCount = flag.Int("backups", 3, "how many backups are made while backfills write")

// A backup made during a backfill is complete, at any point of the backfill. Restored, it knows less than the
// service has. A later run creates nobody twice, and waits with creates until it has proof.
//
// covers F64, F65, L1, S1, S16
func TestABackupWhileABackfillWritesIsWholeAndDoublesNobody(t *testing.T) {
	longtest.Story(t, longtest.Processes)
	t.Parallel()
	made, began := 0, time.Now()
	for made < *backupCount && !t.Failed() {
		made += backupsOfABackfill(t, *backupCount-made)
	}
	t.Logf("%d backups in %v", made, time.Since(began).Round(time.Second))
}

// settleRestore moves the restore so far back that no earlier request can still arrive: until then signing
// links are not requested, and every run says so.
func (w *world) settleRestore() {
	w.t.Helper()
	statetest.Counted(w.t, w.path("payersync.db"),
		fmt.Sprintf("UPDATE ledger SET restored_at = '%s'; SELECT 'moved', 1",
			time.Now().Add(-time.Hour).UTC().Format("2006-01-02T15:04:05.000Z")))
}

// perBackfill is how many backups are made of one backfill.
const perBackfill = 5

// backupsOfABackfill makes some backups while a backfill writes, and puts each back in the end.
func backupsOfABackfill(t *testing.T, most int) (made int) {
	t.Helper()
	rows := people(60)
	w := newWorld(t, rows, slowly)
	w.edit("payersync.yaml", "guards:", "lookup: {quarantine: 1ms}\nguards:")
	folder := t.TempDir()
	backfill := w.start("backfill", "--yes")
	var files []string
	for len(files) < min(perBackfill, most) && !backfill.over() {
		before := w.seen.Load()
		r := w.run("ledger", "backup", folder, "--keep", "0", "--output", "json")
		if r.code != exitDone && strings.Contains(r.errOut, "database is locked") {
			t.Fatalf("a backup waits for a backfill: %s", r.errOut)
		}
		if r.code != exitDone {
			t.Fatalf("a backup beside a backfill ended with %d: %s", r.code, r.errOut)
		}
		files = append(files, decode[backupReport](t, r).Path)
		eventually(t, "the backfill to go on", func() bool { return backfill.over() || w.seen.Load() > before+10 })
	}
	if r := backfill.wait(); r.code != exitDone {
		t.Fatalf("the backfill ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	for _, file := range files {
		w.expect(exitDone, "ledger", "verify", file)
		w.expect(exitDone, "ledger", "restore", file, "--yes", "--reason", "test")
		w.settleRestore()
		w.finish("sync", "--yes")
		w.expectOnePerRow(rows)
		w.expectWholeLedger()
	}
	w.expectIdenticalCreates()
	w.expectOneMandateEach()
	w.expectLinked(rows)
	w.expectNothingLeftToSend()
	return len(files)
}

// covers F64, F103
func TestARestoredLedgerWaitsForProofBeforeItCreates(t *testing.T) {
	t.Parallel()
	rows := people(12)
	w := newWorld(t, rows[:5])
	w.expect(exitDone, "backfill", "--yes")
	backup := decode[backupReport](t, w.expect(exitDone, "ledger", "backup", t.TempDir(), "--output", "json"))
	if backup.Payers != 5 || backup.Encrypted || backup.KeyFile != w.path("payersync.key") {
		t.Errorf("the backup tells %+v", backup)
	}
	w.export(rows[:9]...)
	w.expect(exitDone, "sync", "--yes")

	dry := decode[restoreReport](t, w.expect(exitDone, "ledger", "restore", backup.Path, "--dry-run", "--output", "json"))
	if !dry.DryRun || dry.Done || dry.Lost == 0 || dry.Payers != 5 {
		t.Errorf("a dry run tells %+v", dry)
	}
	if n := len(w.expect(exitDone, "payers", "list", "--output", "json").out); n == 0 {
		t.Error("a dry run left nothing")
	}
	done := decode[restoreReport](t,
		w.expect(exitDone, "ledger", "restore", backup.Path, "--yes", "--reason", "the disk failed", "--output", "json"))
	if !done.Done || len(done.Kept) == 0 || done.RestoredAt == "" {
		t.Errorf("a restore tells %+v", done)
	}
	for i := range rows {
		rows[i].Phone = "01632 960199" // so that the service does not know what it was sent
	}
	w.export(rows...)
	before := len(w.box.Customers())
	if r := w.run("sync", "--yes"); !strings.Contains(r.out+r.errOut, "restored") && len(w.box.Customers()) != before {
		t.Errorf("it creates without proof:\n%s%s", r.out, r.errOut)
	}
	for _, c := range w.box.Customers() {
		if strings.Contains(string(c.Raw), "A00012") {
			t.Error("somebody new was created within the quarantine")
		}
	}
	w.expectOnePerRow(rows[:9])
	if status := w.expect(exitDone, "status"); !strings.Contains(status.out, "An older copy of the ledger was restored") {
		t.Errorf("status says\n%s", status.out)
	}
	verified := decode[verifyReport](t, w.expect(exitDone, "ledger", "verify", "--output", "json"))
	if !verified.OK || verified.Payers != 5 {
		t.Errorf("verify tells %+v", verified)
	}
}

// covers F65
func TestAnEncryptedBackupIsVerifiedAndRestored(t *testing.T) {
	t.Parallel()
	rows := people(4)
	w := newWorld(t, rows)
	w.expect(exitDone, "sync")
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	w.write("key.txt", id.String()+"\n")
	w.write("other.txt", other.String()+"\n")
	folder := t.TempDir()
	w.edit("payersync.yaml", "guards:",
		"backup: {folder: "+folder+", keep: 1, recipients: ["+id.Recipient().String()+"]}\nguards:")
	w.expect(exitDone, "ledger", "backup")
	w.expect(exitDone, "ledger", "backup")
	files, err := filepath.Glob(filepath.Join(folder, "*.db.age"))
	if err != nil || len(files) != 1 {
		t.Fatalf("there are %v, %v", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil || strings.Contains(string(data), "A00001") {
		t.Errorf("an id stands in it in the clear (%v)", err)
	}
	w.expect(exitDone, "ledger", "verify", files[0], "--identity", w.path("key.txt"))
	for args, want := range map[string]string{"": "--identity FILE", "--identity " +
		w.path("other.txt"): "for somebody else"} {
		if r := w.expect(exitFailed,
			append([]string{"ledger", "restore", files[0], "--yes"}, strings.Fields(args)...)...); !strings.Contains(r.errOut,
			want) {
			t.Errorf("with %q it says %s", args, r.errOut)
		}
	}
	w.expect(exitDone, "ledger", "restore", files[0], "--identity", w.path("key.txt"), "--yes")
	w.finish("sync", "--yes")
	w.expectOnePerRow(rows)
}

// covers F62
func TestARestoreIsRefusedWhileServeRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	w.expect(exitDone, "sync")
	backup := decode[backupReport](t, w.expect(exitDone, "ledger", "backup", t.TempDir(), "--output", "json"))
	serve := w.serve()
	if r := w.expect(exitFailed, "ledger", "restore", backup.Path, "--yes"); !strings.Contains(r.errOut,
		"the service works on it; stop that first") {
		t.Errorf("it says %s", r.errOut)
	}
	serve.signal(syscall.SIGKILL)
	serve.wait()
	w.expect(exitDone, "ledger", "restore", backup.Path, "--yes")
	w.expect(exitDone, "status")
}

func TestServeMakesBackupsByItsSchedule(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	w.expect(exitDone, "sync")
	folder := t.TempDir()
	w.edit("payersync.yaml", "guards:",
		"schedules: {backup: \"@every 1s\"}\nbackup: {folder: "+folder+", keep: 2}\nguards:")
	serve := w.serve()
	eventually(t, "three backups", func() bool { return strings.Count(serve.errOut.String(), `"backup made"`) >= 3 })
	serve.stop()
	if files, err := filepath.Glob(filepath.Join(folder, "*")); err != nil || len(files) != 2 {
		t.Errorf("there are %v, %v; want the newest two", files, err)
	} else {
		for _, f := range files {
			w.expect(exitDone, "ledger", "verify", f)
		}
	}
}

// rowsAt returns the beginning of the last page with rows other than the schema's.
func rowsAt(t *testing.T, ledger []byte) int {
	t.Helper()
	const page, leaf = 4096, 0x0d
	for at := len(ledger) - page; at > 0; at -= page {
		if ledger[at] == leaf && !bytes.Contains(ledger[at:at+page], []byte("CREATE ")) {
			return at
		}
	}
	t.Fatal("no page of the ledger has rows")
	return 0
}

func TestADamagedLedgerIsToldRowByRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	w.expect(exitDone, "sync")
	backup := decode[backupReport](t, w.expect(exitDone, "ledger", "backup", t.TempDir(), "--output", "json"))
	data, err := os.ReadFile(backup.Path)
	if err != nil {
		t.Fatal(err)
	}
	copy(data[rowsAt(t, data):], strings.Repeat("damage ", 500))
	w.write("damaged.db", string(data))
	r := w.expect(exitFailed, "ledger", "verify", w.path("damaged.db"))
	if !strings.Contains(r.out, "is damaged") || !strings.Contains(r.out, "restore the last good backup") {
		t.Errorf("it says\n%s%s", r.out, r.errOut)
	}
	told := decode[verifyReport](t, w.expect(exitFailed, "ledger", "verify", w.path("damaged.db"), "--output", "json"))
	if told.OK || len(told.Damage) == 0 || told.Damage[0].Check == "" {
		t.Errorf("it tells %+v", told)
	}
	if r := w.expect(exitFailed, "ledger", "restore", w.path("damaged.db"), "--yes"); !strings.Contains(r.errOut,
		"it is damaged") {
		t.Errorf("a restore says %s", r.errOut)
	}
	w.expect(exitDone, "ledger", "verify")
}

// covers F63
func TestALedgerOrBackupWithATriggerOfSomebodyElseIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	if statetest.OnPostgres() {
		t.Skip("a backup is a file")
	}
	w.expect(exitDone, "sync")
	backup := decode[backupReport](t, w.expect(exitDone, "ledger", "backup", t.TempDir(), "--output", "json"))
	const trigger = "CREATE TRIGGER spy AFTER UPDATE ON ledger BEGIN DELETE FROM alarms; END"
	statetest.Books(t, backup.Path, trigger)
	const says = `payersync did not make the trigger "spy" on "ledger"`
	for _, args := range [][]string{{"ledger", "verify", backup.Path}, {"ledger", "restore", backup.Path, "--yes"},
		{"ledger", "restore", backup.Path, "--dry-run"}} {
		if r := w.expect(exitFailed, args...); !strings.Contains(r.errOut, says) ||
			!strings.Contains(r.errOut, "Take another backup") {
			t.Errorf("%v says %s%s", args, r.out, r.errOut)
		}
	}
	w.expect(exitDone, "sync")
	statetest.Books(t, w.path("payersync.db"), trigger)
	for _, args := range [][]string{{"status"}, {"sync"}, {"ledger", "verify"}, {"ledger", "backup", t.TempDir()}} {
		if r := w.run(args...); r.code == exitDone || !strings.Contains(r.errOut, says) ||
			!strings.Contains(r.errOut, "Nothing was written to it") {
			t.Errorf("%v ends with %d and says %s%s", args, r.code, r.out, r.errOut)
		}
	}
}
