package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"payersync/internal/longtest"
	"payersync/state"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// stopWithin is what a supervisor allows: TimeoutStopSec= of the unit has ten seconds more.
const stopAtMost = 25 * time.Second // 20 s for what is in flight, and what a busy machine adds

// serve is told to stop while a request of each phase is at the service, which answers it
// then, or never does. It ends in time, and what it began is whole or taken up by the next.
//
// covers F01, F67, S1, S2, S3
func TestSIGTERMInEveryPhaseLeavesNoHalfStep(t *testing.T) {
	t.Parallel()
	const scheduled, unscheduled = true, false
	get := func(path string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, path) }
	}
	write := func(ending string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.Method != http.MethodGet && strings.HasSuffix(r.URL.Path, ending) }
	}
	phases := []struct {
		name     string
		sync     bool // serve has a sync to make up for, beside the sweep
		synced   bool // the customers are there before, and a delivery comes
		at       func(*http.Request) bool
		answered bool // once serve is stopping
	}{
		{"token", scheduled, false, write("/oauth2/token"), false},
		{"token, answered", scheduled, false, write("/oauth2/token"), true},
		{"list of a run", scheduled, false, get("/api/customers"), false},
		{"list of a run, answered", scheduled, false, get("/api/customers"), true},
		{"create", scheduled, false, write("/api/customers"), false},
		{"create, answered", scheduled, false, write("/api/customers"), true},
		{"signing link", scheduled, false, write("/directdebitmandates"), false},
		{"signing link, answered", scheduled, false, write("/directdebitmandates"), true},
		{"sweep", unscheduled, false, get("/api/customers"), false},
		{"sweep, answered", unscheduled, false, get("/api/customers"), true},
		{"drain", unscheduled, true, get("/api/customers/"), false},
		{"drain, answered", unscheduled, true, get("/api/customers/"), true},
	}
	for _, phase := range phases {
		t.Run(phase.name, func(t *testing.T) {
			t.Parallel()
			rows := people(3)
			w := newWorld(t, rows)
			if phase.synced {
				w.expect(exitDone, "sync")
				w.expect(exitDone, "sweep")
			}
			if phase.sync {
				w.edit("payersync.yaml", "mapping: mapping.yaml}\n", "mapping: mapping.yaml, schedule: \"@yearly\"}\n")
			}
			held, answer := make(chan struct{}), make(chan struct{})
			var armed, first atomic.Bool
			armed.Store(!phase.synced)
			hold := func(_ http.ResponseWriter, r *http.Request) bool {
				if !armed.Load() || !phase.at(r) || !first.CompareAndSwap(false, true) {
					return false
				}
				if !phase.answered {
					_, _ = io.Copy(io.Discard, r.Body) // a server that has read all sees its client go
				}
				close(held)
				select {
				case <-answer:
					return false
				case <-r.Context().Done():
					return true
				}
			}
			w.front.Store(&hold)
			serve := w.serve()
			if phase.synced {
				armed.Store(true)
				if status, _ := post(t, w.delivery(event("one", w.mandateOf("A00001").CustomerID))); status != http.StatusOK {
					t.Fatalf("a delivery was answered %d", status)
				}
			}
			await(t, "the request", held)
			began := time.Now()
			serve.signal(syscall.SIGTERM)
			eventually(t, "the notice of the signal",
				func() bool { return strings.Contains(serve.errOut.String(), "Stopping: ") })
			if phase.answered {
				close(answer)
			}
			r := serve.wait()
			if took := time.Since(began); r.code != exitDone || took > stopAtMost {
				t.Errorf("it ended with %d after %s:\n%s", r.code, took, r.errOut)
			}
			w.front.Store(nil)
			w.finish("sync")
			w.expectOnePerRow(rows)
			w.expectIdenticalCreates()
			w.expectOneMandateEach()
			w.expectLinked(rows)
			w.expectWholeLedger()
			w.expectNothingLeftToSend()
		})
	}
}

// A new ledger is made, checked and migrated while the signal comes, at moments that differ
// from round to round.
//
// covers F67, F70
func TestSIGTERMDuringTheStartLeavesALedgerThatOpens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	for round := range 12 {
		serve := w.start("serve")
		time.Sleep(time.Duration(round) * 7 * time.Millisecond) // the moment is what is tried
		serve.signal(syscall.SIGTERM)
		if r := serve.wait(); r.code != exitDone && r.code != -1 { // ended by the signal, before it was listened to
			t.Fatalf("round %d: it ended with %d:\n%s", round, r.code, r.errOut)
		}
	}
	w.serve().stop()
	w.expectWholeLedger()
}

// answers waits until a delivery is answered so.
func (w *world) answers(status int, id string) {
	w.t.Helper()
	last := 0
	eventually(w.t, fmt.Sprintf("a delivery to be answered %d", status), func() bool {
		last, _ = post(w.t, w.delivery(event(id, "nobody")))
		return last == status
	})
}

func (w *world) page(path string) int {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+w.hooks+path, nil)
	w.must(err)
	status, _ := post(w.t, req)
	return status
}

// Another process holds the ledger's write lock for as long as it likes.
//
// covers F59, F60, V4
func TestALockedLedgerIsAnswered503AndServedAgainWithoutARestart(t *testing.T) {
	longtest.Story(t, longtest.Waiting)
	t.Parallel()
	w := newWorld(t, people(1))
	w.expect(exitDone, "sync")
	serve := w.serve()
	w.answers(http.StatusOK, "before")
	other, err := state.Open(t.Context(), state.Options{Path: w.path("payersync.db"), KeyFile: w.path("payersync.key")})
	w.must(err)
	t.Cleanup(func() { w.must(other.Close()) }) // after the gate's own, which lets its writer go on
	locked, ended := make(chan struct{}), make(chan error, 1)
	release, goOn := gate(t)
	go func() {
		ended <- other.Do(t.Context(), func(*state.Tx) error {
			close(locked)
			<-release
			return nil
		})
	}()
	await(t, "the lock", locked)
	w.answers(http.StatusServiceUnavailable, "while it is locked")
	if status := w.page("/healthz"); status != http.StatusOK {
		t.Errorf("/healthz answers %d", status)
	}
	if status := w.page("/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz answers %d", status)
	}
	goOn()
	w.must(await(t, "the lock to be given back", ended))
	w.answers(http.StatusOK, "while it is locked") // the service sends it again
	eventually(t, "readiness", func() bool { return w.page("/readyz") == http.StatusOK })
	serve.stop()
	w.expectWholeLedger()
}

// covers F59, V4
func TestAFullDiskIsAnswered503AndServedAgainWithoutARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	disk := w.path("disk")
	w.must(os.Mkdir(disk, 0o700))
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=4m,mode=700"); err != nil {
		t.Skipf("this machine lets no test make a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	w.edit("payersync.yaml", "guards:", "ledger: {path: disk/payersync.db}\nguards:")
	w.expect(exitDone, "sync")
	systemd := w.supervise()
	w.env["WATCHDOG_USEC"] = "300000"
	serve := w.serve()
	systemd.told("READY=1")
	fill := w.path("disk/fill")
	if err := os.WriteFile(fill, make([]byte, 4<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	w.answers(http.StatusServiceUnavailable, "while it is full")
	if status := w.page("/healthz"); status != http.StatusOK {
		t.Errorf("/healthz answers %d", status)
	}
	eventually(t, "the notice that it is not ready",
		func() bool { return w.page("/readyz") == http.StatusServiceUnavailable })
	systemd.told("STATUS=the ledger cannot be written to")
	systemd.told("WATCHDOG=1") // a restart would mend nothing
	w.edit("payersync.yaml", "log: {level: debug", "log: {level: info")
	serve.reload(inForce)
	w.must(os.Remove(fill))
	w.answers(http.StatusOK, "while it is full")
	systemd.told("STATUS=at work")
	eventually(t, "readiness", func() bool { return w.page("/readyz") == http.StatusOK })
	serve.stop()
	if r := w.run("check"); !strings.Contains(r.out, "whole, both hash chains hold") { // which finds little room there
		t.Errorf("check says:\n%s", r.out)
	}
}
