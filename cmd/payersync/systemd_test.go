package main

import (
	"context"
	"io"
	"net"
	"os"
	"payersync/cmd/payersync/internal/session"
	"payersync/connector/worker"
	"payersync/state"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// supervisor is a service manager as systemd is one: a socket that it is told things on.
type supervisor struct {
	t    testing.TB
	conn *net.UnixConn
	past []string
}

func (w *world) supervise() *supervisor {
	w.t.Helper()
	dir, err := os.MkdirTemp("", "notify") // the path of a socket is short
	w.must(err)
	w.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: dir + "/s", Net: "unixgram"})
	w.must(err)
	w.t.Cleanup(func() { _ = conn.Close() })
	w.env["NOTIFY_SOCKET"] = dir + "/s"
	return &supervisor{t: w.t, conn: conn}
}

// told waits until the manager was told something that begins so, and returns it.
func (s *supervisor) told(what string) string {
	s.t.Helper()
	buffer := make([]byte, 4096)
	if err := s.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	for {
		n, err := s.conn.Read(buffer)
		if err != nil {
			s.t.Fatalf("waited in vain for %s: %v; it was told %q", what, err, s.past)
		}
		got := string(buffer[:n])
		s.past = append(s.past, got)
		if strings.HasPrefix(got, what) {
			return got
		}
	}
}

func TestTheServiceManagerIsToldHowServeIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	systemd := w.supervise()
	w.env["WATCHDOG_USEC"] = "300000"
	serve := w.start("serve")
	systemd.told("READY=1")
	if ready := w.ready(); ready.State == "failing" { // it listens
		t.Errorf("when it says that it is ready, /readyz says %+v", ready)
	}
	systemd.told("WATCHDOG=1")
	serve.signal(syscall.SIGHUP)
	if told := systemd.told("RELOADING=1"); !regexp.MustCompile(`^RELOADING=1\nMONOTONIC_USEC=[1-9]\d*$`).MatchString(told) {
		t.Errorf("of the reload it was told %q", told)
	}
	systemd.told("READY=1")
	w.edit("payersync.yaml", "log:", "logs:")
	serve.signal(syscall.SIGHUP)
	systemd.told("RELOADING=1")
	if status := systemd.told("STATUS="); !strings.Contains(status, "the file has a mistake") {
		t.Errorf("of a wrong file it was told %q", status)
	}
	systemd.told("READY=1")
	systemd.told("WATCHDOG=1")
	serve.signal(syscall.SIGTERM)
	systemd.told("STOPPING=1")
	if r := serve.wait(); r.code != exitDone {
		t.Errorf("it ended with %d:\n%s", r.code, r.errOut)
	}
}

// A ledger that refuses writes is alive: a restart would not help. A hanging one is not.
func TestTheWatchdogIsFedWhileTheLedgerAnswers(t *testing.T) {
	w := newWorld(t, nil)
	systemd := w.supervise()
	t.Setenv("NOTIFY_SOCKET", w.env["NOTIFY_SOCKET"])
	t.Setenv("WATCHDOG_USEC", "30000")
	var full, hang atomic.Bool
	hangs := make(chan struct{})
	goOn, open := gate(t)
	full.Store(true)
	ledger, err := state.Open(t.Context(), state.Options{
		Path: w.path("payersync.db"), KeyFile: w.path("payersync.key"),
		Commit: func(done bool) error {
			if !done && hang.CompareAndSwap(true, false) {
				close(hangs)
				<-goOn
			}
			if !done && full.Load() {
				return syscall.ENOSPC
			}
			return nil
		},
	})
	w.must(err)
	defer ledger.Close()
	log, err := session.NewLog(io.Discard, "info", "json", nil)
	w.must(err)
	svc := &service{log: log, manager: &manager{log: log}}
	svc.worker, err = worker.New(worker.Config{Drain: func(context.Context) error { return nil }})
	w.must(err)
	ctx, stop := context.WithCancel(t.Context())
	var under sync.WaitGroup
	under.Go(func() { _ = svc.worker.Run(ctx) })
	under.Go(func() { svc.attend(ctx, ledger) })
	defer under.Wait()
	defer stop()

	systemd.told("STATUS=the ledger cannot be written to")
	full.Store(false)
	systemd.told("STATUS=at work")
	systemd.told("READY=1")
	systemd.told("WATCHDOG=1")
	full.Store(true)
	systemd.told("STATUS=the ledger cannot be written to")
	systemd.told("WATCHDOG=1")
	systemd.told("WATCHDOG=1")
	full.Store(false)
	systemd.told("STATUS=at work")
	hang.Store(true)
	await(t, "the ledger to hang", hangs)
	systemd.toldNoMore()
	open()
	systemd.told("WATCHDOG=1")
}

// toldNoMore fails when the manager is told that serve is alive beyond what is on its way.
func (s *supervisor) toldNoMore() {
	s.t.Helper()
	buffer := make([]byte, 4096)
	for range 3 { // of which two may have been on their way
		if err := s.conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			s.t.Fatal(err)
		}
		if _, err := s.conn.Read(buffer); err != nil {
			return
		}
	}
	s.t.Error("the manager is told that serve is alive while the ledger hangs")
}
