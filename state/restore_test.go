//go:build unix

package state

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"payersync/internal/longtest"
)

// backedUp is a ledger with something in every table, a backup of it, and a few commits
// since; closed.
func backedUp(t *testing.T) (d *desk, backup []byte) {
	t.Helper()
	onlyOnSQLite(t, "a backup is a file")
	d = newDesk(t)
	d.fill(8)
	backup = d.snapshot()
	d.do(func(tx *Tx) error { return tx.Audit(Entry{Actor: "ada", Action: "act", Subject: "after the backup"}) })
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return d, backup
}

func (d *desk) restoring(backup []byte) Restoring {
	return Restoring{
		Path: d.opts.Path, KeyFile: d.opts.KeyFile, Name: "backup.db", From: bytes.NewReader(backup),
		Size:  int64(len(backup)),
		Actor: "ada", Reason: "test", Now: d.opts.Now,
	}
}

// actsAfter counts what was done after the backup.
func actsAfter(t *testing.T, l *Ledger) int {
	return one[int](t, l, "SELECT count(*) FROM audit WHERE subject = 'after the backup'")
}

// covers F64, F103
func TestARestoredLedgerIsTheBackupAndCountsAsRestored(t *testing.T) {
	t.Parallel()
	d, backup := backedUp(t)
	writeFile(t, d.opts.Path+".forgotten", []byte("stays"))
	res, err := Restore(t.Context(), d.restoring(backup))
	if err != nil {
		t.Fatal(err)
	}
	if res.Lost != 1 || res.There != res.Ledger || len(res.Kept) != 1 || !strings.Contains(res.Kept[0], beforeMiddle) {
		t.Errorf("it tells %+v", res)
	}
	l := d.opens(FoundInStep)
	d.Ledger = l
	if !d.restored() {
		t.Error("it does not count as restored")
	}
	if n := actsAfter(t, l); n != 0 {
		t.Errorf("%d acts of after the backup are there", n)
	}
	if by := column(t, l, "SELECT actor || ' ' || action || ' ' || subject || ' ' || reason FROM audit WHERE action = 'restore ledger'"); by != "ada restore ledger from backup.db test" {
		t.Errorf("the audit log says %q", by)
	}
	if found, err := l.Verify(t.Context(), nil); err != nil || len(found) > 0 {
		t.Errorf("it is damaged: %v, %v", found, err)
	}
	d.tickets(1)
	if got := readFile(t, d.opts.Path+".forgotten"); string(got) != "stays" {
		t.Errorf("the file beside it says %q", got)
	}
	opts := d.opts
	opts.Path = res.Kept[0]
	kept, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kept.Close() }()
	if n := actsAfter(t, kept); n != 1 {
		t.Errorf("what was kept has %d acts of after the backup, want 1", n)
	}
}

// covers F63, F64
func TestARestoreTakesThePlaceOfADamagedLedgerAndOfNone(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(t *testing.T, path string){
		"a damaged one": damage,
		"no ledger":     func(t *testing.T, path string) { t.Helper(); remove(t, path) },
		"nothing there": func(t *testing.T, path string) { t.Helper(); remove(t, path); remove(t, path+generationEnding) },
		"a blank file":  func(t *testing.T, path string) { t.Helper(); writeFile(t, path, nil) },
		"one with its log": func(t *testing.T,
			path string) {
			t.Helper()
			writeFile(t, path+"-wal", []byte("a log of old"))
		},
		"one cut to nothing": func(t *testing.T, path string) { t.Helper(); writeFile(t, path, []byte("x")) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d, backup := backedUp(t)
			d.t = t
			spoil(t, d.opts.Path)
			if _, err := Restore(t.Context(), d.restoring(backup)); err != nil {
				t.Fatal(err)
			}
			d.Ledger = d.opens(FoundInStep)
			if !d.restored() || actsAfter(t, d.Ledger) != 0 {
				t.Error("it is not the backup, or does not count as restored")
			}
			d.tickets(1)
		})
	}
}

// covers F61, F62, F64
func TestARestoreIsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	otherKey := func(d *desk, r *Restoring) {
		r.KeyFile += ".other"
		if err := CreateKey(r.KeyFile); err != nil {
			d.t.Fatal(err)
		}
	}
	for _, c := range []struct {
		what  string
		spoil func(d *desk, r *Restoring)
		want  string
	}{
		{"a serve", func(d *desk, _ *Restoring) { d.locked(func(l *Ledger) (*Lock, error) { return l.TryServe() }) },
			"the service works on it"},
		{"a run", func(d *desk, _ *Restoring) { d.locked(func(l *Ledger) (*Lock, error) { return l.TryLock(acme) }) },
			"a run of " + acme},
		{"a damaged backup", func(_ *desk, r *Restoring) { r.Size -= 4096 }, "it is damaged"},
		{"another key", otherKey, "sealed with another key"},
		{"another ledger", func(d *desk, _ *Restoring) {
			writeFile(d.t, d.opts.Path+generationEnding, []byte(generation{"ABCDEFGHIJKLMNOPQRSTUVWXYZ", 7}.String()))
		}, ErrAnotherLedger.Error()},
		{"no telling which", func(d *desk, _ *Restoring) { remove(d.t, d.opts.Path+generationEnding) }, ErrAnotherLedger.Error()},
		{"a full disk", func(_ *desk, r *Restoring) {
			r.Step = func(stage string) error {
				if stage == stageCopied {
					return syscall.ENOSPC
				}
				return nil
			}
		}, "no space"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			d, backup := backedUp(t)
			d.t = t
			r := d.restoring(backup)
			c.spoil(d, &r)
			before := readFile(t, d.opts.Path)
			if _, err := Restore(t.Context(), r); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it ends with %v, want %q", err, c.want)
			}
			if !bytes.Equal(readFile(t, d.opts.Path), before) {
				t.Error("the ledger was changed")
			}
			d.expectNoLeftover()
			r = d.restoring(backup)
			r.Another = true
			if strings.Contains(c.what, "which") || strings.Contains(c.what, "another ledger") {
				if _, err := Restore(t.Context(), r); err != nil {
					t.Errorf("on a person's word it ends with %v", err)
				}
				d.opens(FoundInStep)
			}
		})
	}
}

// locked holds a lock of the ledger as another process would.
func (d *desk) locked(take func(*Ledger) (*Lock, error)) {
	d.t.Helper()
	l := d.another()
	k, err := take(l)
	if err := errors.Join(err, l.Close()); err != nil || k == nil {
		d.t.Fatalf("the lock is %v, %v", k, err)
	}
	d.t.Cleanup(func() { _ = k.Release() })
}

// expectNoLeftover fails when a restore left a file that nobody asked for.
func (d *desk) expectNoLeftover() {
	d.t.Helper()
	for _, ending := range []string{restoringEnding, restoredEnding} {
		if _, err := os.Lstat(d.opts.Path + ending); !errors.Is(err, os.ErrNotExist) {
			d.t.Errorf("%s is left behind", filepath.Base(d.opts.Path)+ending)
		}
	}
}

func TestADryRunOfARestoreChangesNothing(t *testing.T) {
	t.Parallel()
	d, backup := backedUp(t)
	before := readFile(t, d.opts.Path)
	r := d.restoring(backup)
	r.DryRun = true
	res, err := Restore(t.Context(), r)
	if err != nil || res.Payers != 8 || res.Lost != 1 || len(res.Kept) > 0 || res.RestoredAt != "" {
		t.Errorf("it tells %+v, %v", res, err)
	}
	if !bytes.Equal(readFile(t, d.opts.Path), before) {
		t.Error("the ledger was changed")
	}
	d.expectNoLeftover()
}

// restoreChild restores a backup that lies beside the ledger and dies at a stage.
func restoreChild(opts Options, at string) error {
	f, err := os.Open(opts.Path + ".backup")
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	_, err = Restore(context.Background(), Restoring{
		Path: opts.Path, KeyFile: opts.KeyFile, Name: "backup.db", From: f, Size: info.Size(), Actor: "ada", Reason: "test",
		Now: time.Now,
		Step: func(stage string) error {
			if stage == at {
				return errors.Join(syscall.Kill(os.Getpid(), syscall.SIGKILL), errors.New("the kill did not happen"))
			}
			return nil
		},
	})
	return err
}

// A restore that is killed at any of its steps has not begun, or is brought to its end by
// whoever opens the ledger next, or by the same command once more.
//
// covers F64, F67, F68
func TestARestoreKilledAtAnyStepHasNotBegunOrIsFinished(t *testing.T) {
	longtest.Story(t, longtest.Processes)
	t.Parallel()
	stages := []string{stageBegun, stageCopied, stageReady, stageDecided, stageMoved, stageSetAside, stageInPlace}
	for i, stage := range stages {
		decided := i >= slices.Index(stages, stageDecided)
		for _, again := range []bool{false, true} {
			t.Run(stage, func(t *testing.T) {
				t.Parallel()
				d, backup := backedUp(t)
				d.t = t
				writeFile(t, d.opts.Path+".backup", backup)
				writeFile(t, d.opts.Path+"-wal", []byte("a log of old")) // has to go with the old ledger
				cmd := child(t, "restore", d.opts, stage)
				out, err := cmd.CombinedOutput()
				if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
					t.Fatalf("it was not killed: %v\n%s", err, out)
				}
				if again {
					res, err := Restore(t.Context(), d.restoring(backup))
					if err != nil || res.Finished != (decided && stage != stageInPlace) {
						t.Fatalf("once more it ends with %+v, %v", res, err)
					}
				}
				d.Ledger = d.opens(FoundInStep)
				restored := decided || again
				if d.restored() != restored || (actsAfter(t, d.Ledger) == 0) != restored {
					t.Errorf("restored is %t, and %d acts of after the backup are there", d.restored(), actsAfter(t, d.Ledger))
				}
				if found, err := d.Verify(t.Context(), nil); err != nil || len(found) > 0 {
					t.Errorf("it is damaged: %v, %v", found, err)
				}
				d.tickets(1)
				d.expectNoLeftover()
				if kept, err := filepath.Glob(d.opts.Path + beforeMiddle + "*"); err != nil || restored != (len(kept) > 0) {
					t.Errorf("kept are %v, %v", kept, err)
				}
			})
		}
	}
}

// covers F62
func TestARestoreIsRefusedWhileAnotherProcessHasTheLedgerOpen(t *testing.T) {
	t.Parallel()
	d, backup := backedUp(t)
	cmd := child(t, "start", d.opts, "")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	_, err = Restore(t.Context(), d.restoring(backup))
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "another program has it open") {
		t.Errorf("it ends with %v", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if _, err := Restore(t.Context(), d.restoring(backup)); err != nil {
		t.Errorf("after the process it ends with %v", err)
	}
}

// Messages waiting and jobs running at the time of the backup have been sent, or have ended, since.
func TestARestoredLedgerSendsNoMessageOfThenAndHasNoJobAtWork(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fill(2)
	d.waits("office", "about then")
	d.do(func(tx *Tx) error { return tx.BeginJob("backup") })
	backup := d.snapshot()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), d.restoring(backup)); err != nil {
		t.Fatal(err)
	}
	d.Ledger = d.opens(FoundInStep)
	if m := d.waitingFor("office"); m != nil || d.alarms()[0].Told != "" {
		t.Errorf("%+v waits, of %+v", m, d.alarms())
	}
	jobs, err := d.Jobs(t.Context())
	if err != nil || len(jobs) != 1 || jobs[0].Outcome != "interrupted" || jobs[0].EndedAt.IsZero() {
		t.Errorf("the jobs are %+v, %v", jobs, err)
	}
}

func TestTheListOfForgottenPayersIsNotAppliedToAnotherLedger(t *testing.T) {
	t.Parallel()
	d, backup := backedUp(t)
	opts := newOptions(t, d.clock)
	opts.KeyFile = d.opts.KeyFile
	another, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := another.Close(); err != nil {
		t.Fatal(err)
	}
	list := opts.Path + tombstonesEnding
	writeFile(t, list, []byte(tombstonesHead+"\n"))
	o := d.restoring(backup)
	o.Path, o.Another = opts.Path, true
	var refused *OpenError
	if _, err := Restore(t.Context(), o); !errors.As(err, &refused) ||
		!strings.Contains(refused.Next, "Move the list away") {
		t.Errorf("it is refused with %v", err)
	}
	remove(t, list)
	if _, err := Restore(t.Context(), o); err != nil {
		t.Errorf("without the list: %v", err)
	}
}

func TestADryRunLeavesARestoreThatWasCutOffAsItIs(t *testing.T) {
	t.Parallel()
	d, backup := backedUp(t)
	o := d.restoring(backup)
	o.Step = func(stage string) error {
		if stage == stageDecided {
			return errors.New("cut off")
		}
		return nil
	}
	if _, err := Restore(t.Context(), o); err == nil {
		t.Fatal("it was not cut off")
	}
	dry := d.restoring(backup)
	dry.DryRun = true
	for range 2 {
		if _, err := Restore(t.Context(), dry); !errors.Is(err, ErrUnfinished) {
			t.Errorf("a dry run says %v", err)
		}
	}
	if res, err := Restore(t.Context(), d.restoring(backup)); err != nil || !res.Finished {
		t.Errorf("the next says %+v, %v", res, err)
	}
}
