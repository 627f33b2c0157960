package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"payersync/connector/queue"
	"payersync/connector/worker"
	"payersync/state"
)

// holdBack keeps the service from answering what is written after the first customers, until giveUp: then it arrives, or
// is answered with nothing. begun is told of each request.
func (w *world) holdBack(arrives bool) (begun <-chan struct{}, giveUp func()) {
	requests, given := make(chan struct{}, 1000), make(chan struct{})
	giveUp = sync.OnceFunc(func() { close(given) })
	w.t.Cleanup(giveUp)
	held := func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet || !strings.HasPrefix(r.URL.Path, "/api/") || len(w.box.Customers()) < 5 {
			return false
		}
		requests <- struct{}{}
		<-given
		return !arrives
	}
	w.front.Store(&held)
	return requests, giveUp
}

// A running run ends soon after a pause of its account, and continues after the resume.
func TestAPauseStopsTheRunAtWorkWhichGoesOnAfterResume(t *testing.T) {
	t.Parallel()
	payers := map[string]int{"acme": 60}
	c := newCluster(t, 1, payers)
	c.apply()
	w := c.accounts["acme"]
	begun, giveUp := w.holdBack(false)
	c.serve(0)
	await(t, "requests of the run", begun)
	c.expect(exitDone, "accounts", "pause", "acme", "--reason", "a holiday")
	latest := func() state.RunRow {
		runs := decode[statusReport](t, c.expect(exitDone, "status", "--account", "acme", "--output", "json")).Runs
		if len(runs) != 1 {
			t.Fatalf("%d connections had runs", len(runs))
		}
		return runs[0]
	}
	patiently(t, "the end of the run", func() bool { return latest().FinishedAt != nil })
	w.front.Store(nil)
	giveUp()
	stopped := latest()
	if made := len(w.box.Customers()); made >= payers["acme"] {
		t.Errorf("%d customers were made before the account went on", made)
	}
	c.expect(exitDone, "accounts", "pause", "--undo", "acme")
	patiently(t, "all payers", func() bool { return len(w.box.Customers()) == payers["acme"] })
	c.awaitMandates(payers)
	c.expectOnce(payers)
	if again := latest(); again.RunID <= stopped.RunID {
		t.Errorf("run %d went on, want one after %d", again.RunID, stopped.RunID)
	}
}

// A running command ends like an interrupted one soon after a pause of its account, and says why.
func TestAPauseStopsTheCommandAtWorkAsCtrlCDoes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, map[string]int{"acme": 60})
	c.apply()
	w := c.accounts["acme"]
	begun, giveUp := w.holdBack(true)
	p := w.start("backfill", "--yes")
	await(t, "requests of the backfill", begun)
	c.expect(exitDone, "accounts", "pause", "acme", "--reason", "a holiday")
	eventually(t, "the notice of the pause",
		func() bool { return strings.Contains(p.errOut.String(), "Stopping: account acme is paused now, said ") })
	if p.over() {
		t.Error("it did not wait for requests in flight")
	}
	giveUp()
	if r := p.wait(); r.code != exitInterrupted {
		t.Errorf("it ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	w.front.Store(nil)
	if made := len(w.box.Customers()); made >= 60 {
		t.Errorf("%d customers were made before the account went on", made)
	}
	says(t, c.expect(exitFailed, "backfill", "--yes"), "it is paused")
	c.expect(exitDone, "accounts", "pause", "--undo", "acme")
	c.expect(exitDone, "backfill", "--yes")
	c.expectOnce(map[string]int{"acme": 60})
}

// Work for an account not open yet returns to the queue after a while, and other nodes may take it.
func TestWorkForAnAccountThatIsNotOpenYetIsNotUsedUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{known: newAccountIndex()}
		f.known.put(state.AccountInfo{ID: 1, State: state.AccountActive, KeyID: "k"})
		f.known.put(state.AccountInfo{ID: 2, State: state.AccountPaused, KeyID: "k"})
		for account, want := range map[int64]error{1: queue.ErrMore, 2: errNotHere, 3: errNotHere} {
			began := time.Now()
			if err := f.work(t.Context(), queue.Job{Account: account, Name: syncJob("acme")},
				worker.TriggerSchedule); !errors.Is(err, want) {
				t.Errorf("work for account %d: %v, want %v", account, err, want)
			}
			if took := time.Since(began); took > rowsEvery || account == 1 && took < rowsEvery {
				t.Errorf("work for account %d stood in line again after %v", account, took)
			}
		}
		// those that are paused or gone have nothing to drain
		for account, want := range map[int64]error{1: errNotHere, 2: nil, 3: nil} {
			if err := f.drain(t.Context(), account); !errors.Is(err, want) {
				t.Errorf("deliveries of account %d: %v, want %v", account, err, want)
			}
		}
	})
}

// The files of an account, secrets among them, lie on a node as long as the account is open there.
func TestFilesOfAnAccountLieOnANodeAsLongAsItIsOpen(t *testing.T) {
	t.Parallel()
	_, port, _ := strings.Cut(freeAddress(t), ":")
	stays, goes := "acme-"+port, "beta-"+port
	c := newCluster(t, 1, map[string]int{stays: 1, goes: 1})
	c.apply()
	lie := func(name string) (found []string) {
		for _, place := range []string{os.Getenv("XDG_RUNTIME_DIR"), "/dev/shm", os.TempDir()} {
			left, _ := filepath.Glob(filepath.Join(place, "payersync-account-"+name+"-*"))
			found = append(found, left...)
		}
		return found
	}
	p := c.serve(0)
	left := append(lie(stays), lie(goes)...)
	if len(left) != 2 {
		t.Fatalf("the files of two accounts lie in %v", left)
	}
	p.signal(syscall.SIGKILL)
	p.wait()
	p = c.serve(0)
	for _, folder := range left {
		if _, err := os.Lstat(folder); err == nil {
			t.Errorf("%s was left by a node that was killed, and stays", folder)
		}
	}
	for _, name := range c.names { // their webhooks open them again
		if got := c.deliver(0, c.token(name), c.accounts[name].delivery(event("evt-"+name, "nobody"))); got != http.StatusOK {
			t.Errorf("a webhook of %s was answered %d", name, got)
		}
	}
	if len(lie(goes)) == 0 {
		t.Error("an account that has work has no files")
	}
	c.expect(exitDone, "accounts", "erase", goes, "--confirm", goes)
	eventually(t, "the files of an account that was erased are gone", func() bool { return len(lie(goes)) == 0 })
	if len(lie(stays)) == 0 {
		t.Error("the files of the other account are gone, too")
	}
	p.signal(syscall.SIGTERM)
	p.wait()
	if found := lie(stays); len(found) > 0 {
		t.Errorf("a node that has stopped left %v", found)
	}
}
