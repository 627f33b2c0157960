package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"payersync/connector/queue"
	"payersync/connector/worker"
	"payersync/state"
)

// nodeJobs are an account's on a node whose queue nobody asks.
func nodeJobs(t *testing.T) *accountJobs {
	t.Helper()
	w := newWorld(t, people(1))
	l, err := state.Open(t.Context(), state.Options{Path: w.path("payersync.db"), KeyFile: w.path("payersync.key")})
	if err != nil {
		t.Fatal(err)
	}
	j := &accountJobs{ledger: l, slices: patience, places: make(chan struct{}, 1), life: t.Context(), runs: map[string]*nodeRun{}, nudges: make(chan struct{}, 1)}
	t.Cleanup(func() { j.going.Wait(); _ = l.Close() })
	return j
}

// untilStopped is a run that goes on until it is told to stop.
func untilStopped(begun chan<- struct{}) worker.Job {
	return worker.Job{Name: syncJob("acme"), Run: func(ctx context.Context, _ string) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}}
}

func TestARunThatIsToldToStopIsHandedOnAndItsPlaceIsFree(t *testing.T) {
	t.Parallel()
	j, begun, ended := nodeJobs(t), make(chan struct{}), make(chan error, 1)
	go func() { ended <- j.slice(context.Background(), "acme", untilStopped(begun), worker.TriggerSchedule) }()
	await(t, "the run", begun)
	j.ofNode(syncJob("acme")).stop()
	if err := await(t, "its end", ended); !errors.Is(err, queue.ErrMore) {
		t.Errorf("got %v, want that others go on", err)
	}
	j.going.Wait()
	if len(j.places) > 0 || j.ofNode(syncJob("acme")) != nil {
		t.Error("the run that has ended keeps its place")
	}
}

func TestARunOfAnAccountThatIsPausedMeanwhileEndsAtOnce(t *testing.T) {
	t.Parallel()
	j := nodeJobs(t)
	j.paused = true
	if err := j.slice(t.Context(), "acme", untilStopped(make(chan struct{})), worker.TriggerSchedule); !errors.Is(err, queue.ErrMore) {
		t.Errorf("got %v, want that it stands in line, where nothing takes it", err)
	}
}

// A sweep, a letter's turn or what somebody asked for on a page ends as a run does.
func TestAChoreOfAnAccountThatIsPausedEndsAndIsDoneAfterwards(t *testing.T) {
	t.Parallel()
	j, begun, ended := nodeJobs(t), make(chan struct{}), make(chan error, 1)
	chore := untilStopped(begun)
	chore.Name = "sweep"
	pause := func(paused bool) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.put([]worker.Job{chore}, paused)
	}
	pause(false)
	go func() { ended <- j.run(t.Context(), "sweep", worker.TriggerSchedule) }()
	await(t, "the chore", begun)
	pause(true)
	if err := await(t, "its end", ended); !errors.Is(err, queue.ErrMore) {
		t.Errorf("got %v, want that it stands in line", err)
	}
	chore.Run = func(context.Context, string) error { t.Error("it began for an account that is paused"); return nil }
	pause(true)
	if err := j.run(t.Context(), "sweep", worker.TriggerSchedule); !errors.Is(err, queue.ErrMore) {
		t.Errorf("got %v, want that it stands in line", err)
	}
	if err := j.untilPaused(t.Context(), func(context.Context) error { return nil }); !errors.Is(err, errPaused) {
		t.Errorf("got %v, want why nothing begins", err)
	}
	broken := errors.New("a service that is away")
	chore.Run = func(context.Context, string) error { return broken }
	pause(false)
	if err := j.run(t.Context(), "sweep", worker.TriggerSchedule); !errors.Is(err, broken) {
		t.Errorf("after it was resumed: %v, want what its own work says", err)
	}
}

// A run goes on behind its job, which stands in line again, and the next slice finds it.
func TestARunGoesOnWhileItsJobStandsInLine(t *testing.T) {
	t.Parallel()
	j, begun := nodeJobs(t), make(chan struct{})
	j.slices = time.Millisecond
	first := j.slice(t.Context(), "acme", untilStopped(begun), worker.TriggerSchedule)
	for tries := 0; j.ofNode(syncJob("acme")) == nil && tries < 1000; tries++ { // a slice so short may end before its run begins
		first = j.slice(t.Context(), "acme", untilStopped(begun), worker.TriggerSchedule)
	}
	await(t, "the run", begun)
	again := j.slice(t.Context(), "acme", worker.Job{Name: syncJob("acme"), Run: func(context.Context, string) error {
		t.Error("a second run began beside the first")
		return nil
	}}, worker.TriggerSchedule)
	if !errors.Is(first, queue.ErrMore) || !errors.Is(again, queue.ErrMore) {
		t.Errorf("the slices ended with %v and %v, want that both go behind others", first, again)
	}
	j.ofNode(syncJob("acme")).stop()
}
