package server

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"payersync/state"
)

// refusing returns an endpoint that counts what it refuses.
func refusing(t *testing.T, edit ...func(*Config)) (*endpoint, *Refusals) {
	r := &Refusals{}
	var e *endpoint
	e = newEndpoint(t, bodyOnly(),
		append(edit, func(c *Config) { c.Report = func(ev Event) { r.Count(ev.Outcome, e.clock()) } })...)
	return e, r
}

func (e *endpoint) refusals(l *state.Ledger) map[string]int {
	e.t.Helper()
	rows, err := l.Refusals(e.t.Context(), noon.Add(-time.Hour))
	if err != nil {
		e.t.Fatal(err)
	}
	got := map[string]int{}
	for _, row := range rows {
		got[row.Day+" "+row.Reason] += row.Count
	}
	return got
}

func expect(t *testing.T, got, want map[string]int) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("the ledger holds %v, want %v", got, want)
		return
	}
	for what, n := range want {
		if got[what] != n {
			t.Errorf("of %s the ledger holds %d, want %d", what, got[what], n)
		}
	}
}

// A flood of false requests costs the ledger one write, and every one of them is counted.
//
// covers F179
func TestTenThousandRefusedRequestsAreOneWriteAndAllCounted(t *testing.T) {
	t.Parallel()
	const senders, each = 8, 1250
	var commits int
	var counting sync.Mutex
	e, r := refusing(t)
	counted, err := state.Open(t.Context(), func() state.Options {
		o := e.files
		o.Committing = func() func(error) {
			return func(error) { counting.Lock(); commits++; counting.Unlock() }
		}
		return o
	}())
	if err != nil {
		t.Fatal(err)
	}
	defer counted.Close()
	e.cfg.Ledger = counted
	var sending sync.WaitGroup
	for range senders {
		sending.Go(func() {
			for range each {
				forged := delivery(sampleBody)
				forged.Header.Set("X-Signature", mac("another secret", sampleBody))
				w := httptest.NewRecorder()
				e.Handler().ServeHTTP(w, forged)
				if w.Code != http.StatusUnauthorized {
					t.Errorf("a forged delivery was answered %d", w.Code)
				}
			}
		})
	}
	sending.Wait()
	if commits != 0 {
		t.Errorf("refusing cost %d commits, want none", commits)
	}
	if err := r.Write(t.Context(), counted); err != nil {
		t.Fatal(err)
	}
	if err := r.Write(t.Context(), counted); err != nil { // with nothing new
		t.Fatal(err)
	}
	if commits != 1 {
		t.Errorf("counting cost %d commits, want one", commits)
	}
	expect(t, e.refusals(counted), map[string]int{"2026-11-20 signature_failed": senders * each})
}

func TestEachWayToBeRefusedIsCountedByItself(t *testing.T) {
	t.Parallel()
	e, r := refusing(t, func(c *Config) { c.MaxBody = 1 << 10 })
	ask := func(edit func(*http.Request), body string) {
		req := delivery(body)
		edit(req)
		e.Handler().ServeHTTP(httptest.NewRecorder(), req)
	}
	ask(func(*http.Request) {}, sampleBody)
	ask(func(*http.Request) {}, sampleBody) // once more
	ask(func(r *http.Request) { r.Method = http.MethodGet }, sampleBody)
	ask(func(r *http.Request) { r.URL.Path = "/elsewhere" }, sampleBody)
	ask(func(r *http.Request) { r.URL.Path = HealthPath }, sampleBody)
	ask(func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, sampleBody)
	ask(func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }, sampleBody)
	ask(func(*http.Request) {}, strings.Repeat("x", 2<<10))
	e.pass(24 * time.Hour)
	ask(func(r *http.Request) { r.Header.Del("X-Signature") }, sampleBody)
	if err := r.Write(t.Context(), e.ledger); err != nil {
		t.Fatal(err)
	}
	expect(t, e.refusals(e.ledger), map[string]int{
		"2026-11-20 wrong_method": 1, "2026-11-20 wrong_path": 1, "2026-11-20 wrong_type": 1, "2026-11-20 wrong_encoding": 1,
		"2026-11-20 too_large":        1,
		"2026-11-21 signature_failed": 1,
	})
}

// The ledger takes every outcome that can be counted, or one that it does not know would keep
// all others from it.
//
// covers F179
func TestTheLedgerKnowsEveryReasonToRefuse(t *testing.T) {
	t.Parallel()
	e, r := refusing(t)
	want := map[string]int{}
	for _, o := range Outcomes() {
		if !slices.Contains([]RequestOutcome{Accepted, Repeated, NotReady}, o) {
			r.Count(o, noon)
			want["2026-11-20 "+string(o)] = 1
		}
	}
	if err := r.Write(t.Context(), e.ledger); err != nil {
		t.Fatal(err)
	}
	expect(t, e.refusals(e.ledger), want)
}

// covers F179
func TestCountsThatTheLedgerDidNotTakeAreWrittenLaterAndTwoProcessesAddUp(t *testing.T) {
	t.Parallel()
	e, r := refusing(t)
	other := &Refusals{}
	count := func(r *Refusals, n int) {
		for range n {
			r.Count(SignatureFailed, e.clock())
		}
	}
	count(r, 3)
	closed := e.open()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Write(t.Context(), closed); !errors.Is(err, state.ErrClosed) {
		t.Errorf("a ledger that is closed said %v", err)
	}
	count(r, 2)
	count(other, 4)
	if err := errors.Join(r.Write(t.Context(), e.ledger), other.Write(t.Context(), e.open())); err != nil {
		t.Fatal(err)
	}
	expect(t, e.refusals(e.ledger), map[string]int{"2026-11-20 signature_failed": 9})
}

// A failed write is reported once, and the remaining counts are written at the end.
func TestRefusalsAreWrittenEveryFewSecondsAndAtTheEnd(t *testing.T) {
	t.Parallel()
	e, r := refusing(t)
	closed := e.open()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	told := 0
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		r.Count(TooLarge, noon)
		go r.Run(ctx, closed, func(error) { told++ })
		time.Sleep(3*refusalsEvery + time.Second) // on the clock of this bubble
		stop()
		synctest.Wait()
	})
	if told != 1 {
		t.Errorf("the ledger that took nothing was told of %d times, want once", told)
	}
	if err := r.Close(e.ledger); err != nil {
		t.Fatal(err)
	}
	expect(t, e.refusals(e.ledger), map[string]int{"2026-11-20 too_large": 1})
}
