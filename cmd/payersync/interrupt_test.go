package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"payersync/internal/longtest"
)

// A backfill of 60 under a slow limit is interrupted at ten moments of its writes. Each time, the service has
// just received one and delays its answer. After the process has noticed the signal, no request leaves,
// although others wait for the limit. With one request at a time, no other is under way; with eight, seven
// more may be, and arrive late. A run to the end then creates each customer and each mandate once.
//
// covers F01, F67, S1, S2, S3
func TestAfterCtrlCNoWriteLeaves(t *testing.T) {
	longtest.Story(t, longtest.Processes)
	t.Parallel()
	rows := people(60)
	w := newWorld(t, rows)
	moments := []int64{1, 2, 3, 1, 5, 8, 13, 21, 34, 2}
	pace := "rate_per_second: 100000"
	for i, moment := range moments {
		inFlight := 1 + 7*(i%2)
		slow := fmt.Sprintf("rate_per_second: 20\n  max_in_flight: %d", inFlight)
		w.edit("payersync.yaml", pace, slow)
		pace = slow
		var writes, late atomic.Int64
		var stopping atomic.Bool
		began, process := make(chan struct{}), (*process)(nil)
		interrupt := func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, "/oauth2/token") {
				return false
			}
			if stopping.Load() {
				late.Add(1)
			}
			if writes.Add(1) == moment {
				<-began
				process.signal(syscall.SIGINT)
				eventually(t, "the notice of the interruption",
					func() bool { return strings.Contains(process.errOut.String(), "Stopping: ") })
				stopping.Store(true)
			}
			return false
		}
		w.front.Store(&interrupt)
		process = w.start("backfill", "--yes")
		close(began)
		if r := process.wait(); r.code != exitInterrupted {
			t.Fatalf("interrupted at write %d it ended with %d:\n%s%s", moment, r.code, r.out, r.errOut)
		}
		if n := late.Load(); n > int64(inFlight-1) {
			t.Errorf("%d writes came after the interruption at write %d, of %d in flight", n, moment, inFlight)
		}
	}
	w.front.Store(nil)
	w.edit("payersync.yaml", pace, "rate_per_second: 100000")
	w.finish("backfill", "--yes")
	w.expectOnePerRow(rows)
	w.expectIdenticalCreates()
	w.expectOneMandateEach()
	w.expectLinked(rows)
	w.expectWholeLedger()
	w.expectNothingLeftToSend()
}

// A second Ctrl-C ends the process while the service still thinks about a create. What was
// frozen is in the ledger, and the next run finishes it.
//
// covers F01, F67, S1, S2
func TestASecondCtrlCEndsAtOnceAndNothingIsLost(t *testing.T) {
	t.Parallel()
	rows := people(20)
	w := newWorld(t, rows)
	held := make(chan struct{})
	answer, goOn := gate(t)
	var first atomic.Bool
	hang := func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && r.URL.Path == "/api/customers" && first.CompareAndSwap(false, true) {
			close(held)
			<-answer
		}
		return false
	}
	w.front.Store(&hang)
	p := w.start("backfill", "--yes")
	await(t, "the create", held)
	p.signal(syscall.SIGINT)
	eventually(t, "the notice of the interruption",
		func() bool { return strings.Contains(p.errOut.String(), "Stopping: ") })
	if p.over() {
		t.Fatal("the first Ctrl-C did not wait for the answer")
	}
	p.signal(syscall.SIGINT)
	if r := p.wait(); r.code != exitInterrupted {
		t.Errorf("the second Ctrl-C ended it with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	goOn() // the create arrives all the same
	w.front.Store(nil)
	w.finish("backfill", "--yes")
	w.expectOnePerRow(rows)
	w.expectIdenticalCreates()
	w.expectLinked(rows)
	w.expectWholeLedger()
}

// A check prints its findings before it waits for a hanging service, so a person sees the cause of the wait.
func TestACheckSaysWhatItFindsAsItFindsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	asked := make(chan struct{})
	var once sync.Once
	hang := func(_ http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body) // a server that has read all sees its client go
		once.Do(func() { close(asked) })
		<-r.Context().Done()
		return true
	}
	w.front.Store(&hang)
	p := w.start("check")
	await(t, "the question to the service", asked)
	eventually(t, "the findings before", func() bool { return strings.Contains(p.out.String(), "its examples hold") })
	p.signal(syscall.SIGINT)
	if r := p.wait(); r.code == exitDone || !strings.Contains(r.out, "FAIL  billing service") {
		t.Errorf("it ended with %d:\n%s", r.code, r.out)
	}
}
