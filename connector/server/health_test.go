package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/state"
)

func (e *endpoint) getReady() (int, readiness) {
	e.t.Helper()
	w := e.serve(httptest.NewRequestWithContext(e.t.Context(), http.MethodGet, ReadyPath, nil))
	var got readiness
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		e.t.Fatalf("%s answered %q: %v", ReadyPath, w.Body, err)
	}
	return w.Code, got
}

func (e *endpoint) expectReady(status int, want readiness) {
	e.t.Helper()
	gotStatus, got := e.getReady()
	if gotStatus != status {
		e.t.Errorf("status %d, want %d", gotStatus, status)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		e.t.Errorf("readiness (-want +got):\n%s", diff)
	}
}

func (e *endpoint) do(fn func(*state.Tx) error) {
	e.t.Helper()
	if err := e.ledger.Do(e.t.Context(), fn); err != nil {
		e.t.Fatal(err)
	}
}

// sweep writes what a complete list pass over no customers leaves.
func (e *endpoint) sweep() {
	e.t.Helper()
	e.do(func(tx *state.Tx) error {
		list, err := tx.BeginPass()
		if err != nil {
			return err
		}
		return tx.FinishPass(list)
	})
}

// run writes a run of a connection that ended as said.
func (e *endpoint) run(connection string, outcome connector.RunOutcome) {
	e.t.Helper()
	e.do(func(tx *state.Tx) error {
		if err := tx.PinConnection(state.Connection{Name: connection, Info: connector.SourceInfo{Kind: "csv"}}); err != nil {
			return err
		}
		if err := tx.SaveMapping("v1", "version: 1", "test"); err != nil {
			return err
		}
		id, err := tx.OpenRun(state.NewRun{Connection: connection, Kind: connector.RunSync, Trigger: "schedule",
			Mapping: "v1", Holder: "test"})
		if err != nil {
			return err
		}
		_, _, err = tx.CloseRun(id, connection, outcome, "", connector.NewIDs())
		return err
	})
}

func seconds(n int64) *int64 { return &n }

// covers V4
func TestReadinessSaysHowFreshTheLedgerIs(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly())
	e.expectReady(200, readiness{State: "degraded", Degraded: []string{sweepNever}, Jobs: []JobTimes{}})

	e.run("acme", connector.RunComplete)
	e.pass(time.Minute)
	e.run("brook", connector.RunComplete)
	e.sweep()
	e.expect(200, delivery(sampleBody))
	e.pass(2 * time.Minute)
	e.expectReady(200, readiness{State: "ok", Degraded: []string{}, Jobs: []JobTimes{}, SweepAge: seconds(120),
		RunAge: seconds(180), DeliveryAge: seconds(120)})

	e.run("acme", connector.RunFailed)
	e.pass(4 * time.Hour)
	e.expectReady(200, readiness{
		State: "degraded", Degraded: []string{sweepOverdue, runFailed}, Jobs: []JobTimes{},
		SweepAge: seconds(4*3600 + 120), RunAge: seconds(4*3600 + 120), DeliveryAge: seconds(4*3600 + 120),
	})
}

func TestReadinessIsDegradedWhileAMappingIsWrong(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly())
	e.run("acme", connector.RunComplete)
	e.sweep()
	for problem, degraded := range map[string][]string{"line 3 is wrong": {mappingWrong}, "": {}} {
		e.do(func(tx *state.Tx) error {
			_, err := tx.SetMappingProblem("acme", problem)
			return err
		})
		e.pass(2 * time.Second)
		if status, got := e.getReady(); status != 200 || !cmp.Equal(degraded, got.Degraded) {
			t.Errorf("with the problem %q: %d, degraded %v, want %v", problem, status, got.Degraded, degraded)
		}
	}
}

func TestReadinessIsDegradedWhileTheConfigurationIsWrong(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly())
	e.sweep()
	for problem, degraded := range map[string][]string{"line 3 is wrong": {configWrong}, "": {}} {
		e.do(func(tx *state.Tx) error { return tx.SetServing(problem, []string{"server.webhooks"}) })
		e.pass(2 * time.Second)
		if status, got := e.getReady(); status != 200 || !cmp.Equal(degraded, got.Degraded) {
			t.Errorf("with the problem %q: %d, degraded %v, want %v", problem, status, got.Degraded, degraded)
		}
	}
}

func TestReadinessShowsWhenEachJobWasDoneAndComesNext(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	want := []JobTimes{{Name: "sweep", EndedAt: now, DoneAt: now.Add(-time.Hour), Outcome: "failed",
		NextAt: now.Add(time.Hour)}, {Name: "sync", NextAt: now}}
	var broken error
	e := newEndpoint(t, bodyOnly(),
		func(c *Config) { c.Jobs = func(context.Context) ([]JobTimes, error) { return want, broken } })
	if _, got := e.getReady(); !cmp.Equal(want, got.Jobs) {
		t.Errorf("jobs: %s", cmp.Diff(want, got.Jobs))
	}
	broken = errors.New("disk I/O error")
	e.pass(2 * time.Second)
	if status, got := e.getReady(); status != 503 || got.State != "failing" {
		t.Errorf("while the ledger says nothing of them it is %d %+v", status, got)
	}
}

// covers F109
func TestReadinessIsDegradedWhileAConnectionStandsStill(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly())
	e.run("acme", connector.RunComplete)
	e.sweep()
	for _, standing := range []bool{true, false} {
		e.do(func(tx *state.Tx) error {
			if !standing {
				return tx.EndMissing("acme")
			}
			id, err := tx.OpenRun(state.NewRun{Connection: "acme", Kind: connector.RunSync, Trigger: "schedule", Mapping: "v1",
				Holder: "test"})
			if err != nil {
				return err
			}
			_, err = tx.HoldMissing(id, "acme", "v1", 12, "too many are missing")
			return err
		})
		e.pass(2 * time.Second)
		if status, got := e.getReady(); status != 200 || slices.Contains(got.Degraded, standstill) != standing {
			t.Errorf("%d, degraded %v; at a standstill: %t", status, got.Degraded, standing)
		}
	}
}

// covers F113
func TestReadinessIsDegradedWhileTheSubscriptionIsNotOurs(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly())
	for _, problem := range []state.SubscriptionProblem{state.SubscriptionDeleted, ""} {
		if err := e.ledger.Do(t.Context(), func(tx *state.Tx) error {
			_, err := tx.SaveSubscription(state.SubscriptionFacts{Problem: problem})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		e.pass(2 * time.Second)
		if status, got := e.getReady(); status != 200 ||
			slices.Contains(got.Degraded, subscriptionChanged) != (problem != "") {
			t.Errorf("with the problem %q: %d, degraded %v", problem, status, got.Degraded)
		}
	}
}

func TestReadinessIsAskedOfTheLedgerOncePerSecond(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly())
	_, before := e.getReady()
	e.sweep()
	if _, got := e.getReady(); !cmp.Equal(got, before) {
		t.Errorf("at the same moment: %+v, want the answer of before %+v", got, before)
	}
	e.pass(time.Second)
	if _, got := e.getReady(); cmp.Equal(got, before) {
		t.Errorf("a second later still %+v", got)
	}
}

// covers F59, V4
func TestReadinessFailsWithTheLedgerAndHealthDoesNot(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly())
	if err := e.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	e.expectReady(503, readiness{State: "failing", Reason: failing(state.ErrClosed), Degraded: []string{}, Jobs: []JobTimes{}})
	if got := e.lastEvent(); got.Outcome != NotReady || got.Err == nil {
		t.Errorf("reported %+v, want not_ready with its cause", got)
	}
	e.expect(200, httptest.NewRequestWithContext(e.t.Context(), http.MethodGet, HealthPath, nil))
}

// Who asks meanwhile waits for the same answer, and nobody until the ledger has it.
//
// covers F60, V4
func TestReadinessIsAnsweredInTimeWhileTheLedgerIsNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(t, bodyOnly())
		writing, release, written := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			written <- e.ledger.Do(t.Context(), func(*state.Tx) error {
				close(writing)
				<-release
				return nil
			})
		}()
		<-writing
		began := time.Now()
		answers := make(chan readiness)
		for range 20 {
			go func() { answers <- e.readiness() }()
		}
		for range 20 {
			if got := <-answers; got.State != failed || !strings.Contains(got.Reason, "no write for 5s") {
				t.Errorf("while it is not answered it says %+v", got)
			}
		}
		if took := time.Since(began); took != lookWait {
			t.Errorf("the answers came after %s, want %s", took, lookWait)
		}
		close(release)
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		e.expectReady(200, readiness{State: "degraded", Degraded: []string{sweepNever}, Jobs: []JobTimes{}})
	})
}

// covers F103, V4
func TestALedgerThatWasMovedAwayIsNotReadyAndTakesNoDelivery(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly())
	e.expect(200, delivery(sampleBody))
	if err := os.Rename(e.files.Path, e.files.Path+".away"); err != nil {
		t.Fatal(err)
	}
	e.expectReady(503, readiness{State: "failing", Reason: failing(state.ErrMoved), Degraded: []string{}, Jobs: []JobTimes{}})
	nudges := e.nudges
	w := e.expect(503, delivery(strings.ReplaceAll(sampleBody, "a", "b")))
	if got := e.lastEvent(); got.Outcome != NotStored || !errors.Is(got.Err, state.ErrMoved) ||
		w.Header().Get("Retry-After") == "" {
		t.Errorf("reported %+v with %v, want not_stored with its cause, to be sent again", got, w.Header())
	}
	e.expectNudges(nudges)
}

// looking lets the endpoint's ledger be looked through, as at a start, until the returned
// function is called.
func (e *endpoint) looking() (done func()) {
	e.t.Helper()
	if err := e.ledger.Close(); err != nil {
		e.t.Fatal(err)
	}
	now := time.Now()
	if err := os.Chtimes(e.files.Path, now, now); err != nil { // so that it is not as it was left
		e.t.Fatal(err)
	}
	looked := make(chan struct{})
	e.files.Look = func(ctx context.Context) {
		select {
		case <-looked:
		case <-ctx.Done():
		}
	}
	e.ledger = e.open()
	e.cfg.Ledger, e.cfg.Expected.Jobs[0].Last = e.ledger, e.ledger.LastPass
	return func() { close(looked) }
}

// covers F63, F39
func TestADeliveryWaitsUntilTheLedgerWasLookedThrough(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly())
	done := e.looking()
	for range 2 {
		if status, got := e.getReady(); status != 503 || got.State != checking {
			t.Errorf("before: %d, %s", status, got.State)
		}
	}
	hurried, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	e.expect(503, delivery(sampleBody).WithContext(hurried))
	answered := make(chan int)
	go func() { answered <- e.serve(delivery(sampleBody)).Code }()
	done()
	if status := <-answered; status != 200 {
		t.Errorf("a delivery that waited is answered %d", status)
	}
	if status, got := e.getReady(); status != 200 || got.State != "degraded" {
		t.Errorf("afterwards: %d, %s", status, got.State)
	}
}

// covers F63
func TestADamagedLedgerTakesNoDelivery(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, bodyOnly())
	if err := e.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(e.files.Path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	const page, leaf = 4096, 0x0d
	at := len(data) - page
	for data[at] != leaf || bytes.Contains(data[at:at+page], []byte("CREATE ")) { // the schema is read at once
		at -= page
	}
	_, err = f.WriteAt(bytes.Repeat([]byte{0xA5}, page), int64(at))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	e.ledger = e.open()
	e.cfg.Ledger = e.ledger
	e.expect(503, delivery(sampleBody))
	if status, got := e.getReady(); status != 503 || got.State != failed || !strings.Contains(got.Reason, "damaged") {
		t.Errorf("%d, %s: %s", status, got.State, got.Reason)
	}
}
