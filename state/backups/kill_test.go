//go:build unix

package backups

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"payersync/state"
)

// The environment for starting the test's own binary as a backup to be killed.
const (
	childStage  = "PAYERSYNC_BACKUPS_STAGE"
	childLedger = "PAYERSYNC_BACKUPS_LEDGER"
	childTarget = "PAYERSYNC_BACKUPS_TARGET"
)

func TestMain(m *testing.M) {
	stage, killed := os.LookupEnv(childStage)
	if !killed {
		os.Exit(m.Run())
	}
	if err := dieAt(stage); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(1)
}

func dieAt(at string) error {
	path := os.Getenv(childLedger)
	l, err := state.Open(context.Background(), state.Options{Path: path, KeyFile: path + ".key"})
	if err != nil {
		return err
	}
	_, err = Make(context.Background(), l, Config{
		Target: os.Getenv(childTarget), KeyFile: path + ".key", Now: time.Now,
		Step: func(stage string) error {
			if stage == at {
				return errors.Join(syscall.Kill(os.Getpid(), syscall.SIGKILL), errors.New("the kill did not happen"))
			}
			return nil
		},
	})
	return err
}

// A backup that is killed at any of its steps leaves a whole one or none, and what it left
// otherwise is cleared away by the next.
//
// covers F67
func TestABackupKilledAtAnyStepLeavesAWholeOneOrNone(t *testing.T) {
	t.Parallel()
	for stage, whole := range map[string]int{stageMade: 0, stageWritten: 0, stageChecked: 0, stagePublished: 1} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			b := newBooks(t)
			b.t = t
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), self)
			cmd.Env = append(os.Environ(), childStage+"="+stage, childLedger+"="+b.path, childTarget+"="+b.folder)
			out, err := cmd.CombinedOutput()
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				t.Fatalf("it was not killed: %v\n%s", err, out)
			}
			b.make()
			if got := b.names(); len(got) != whole+1 {
				t.Errorf("there are %v", got)
			}
			for _, name := range b.names() {
				b.verify(filepath.Join(b.folder, name))
			}
		})
	}
}

// A kill between the two names of a file leaves both; the next backup takes the first away.
//
// covers F67
func TestAFileWithBothOfItsNamesKeepsTheRightOne(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	first := b.make().Path
	if err := os.Link(first, filepath.Join(b.folder, partialStart+"X"+partialEnd)); err != nil {
		t.Fatal(err)
	}
	b.make()
	for _, name := range b.names() {
		if strings.HasSuffix(name, partialEnd) {
			t.Errorf("%s is left", name)
		}
		b.verify(filepath.Join(b.folder, name))
	}
	if len(b.names()) != 2 {
		t.Errorf("there are %v", b.names())
	}
}
