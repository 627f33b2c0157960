package main

import (
	"context"
	"errors"
	"testing"

	"payersync/connector/queue"
	"payersync/connector/worker"
	"payersync/state"
)

// nodeJobs are an account's jobs on a node without a running queue: one job closes begun, and runs until it
// is stopped. leave removes the account from the node.
func nodeJobs(t *testing.T, name string, begun chan<- struct{}) (j *accountJobs, leave func()) {
	t.Helper()
	w := newWorld(t, people(1))
	l, err := state.Open(t.Context(), state.Options{Path: w.path("payersync.db"), KeyFile: w.path("payersync.key")})
	if err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(t.Context())
	j = &accountJobs{ledger: l, life: life, nudges: make(chan struct{}, 1)}
	j.put([]worker.Job{{Name: name, Run: func(ctx context.Context, _ string) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}}}, false)
	t.Cleanup(func() { j.close(end); _ = l.Close() })
	return j, func() { j.close(end) }
}

// pause pauses the account of jobs.
func pause(j *accountJobs) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.put(j.jobs, true)
}

func TestAJobThatIsToldToStopIsHandedOn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{syncJob("acme"), "sweep"} {
		for what, stop := range map[string]func(j *accountJobs, leave func(), node context.CancelFunc) (want error){
			"its account is paused": func(j *accountJobs, _ func(),
				_ context.CancelFunc) error {
				pause(j)
				return queue.ErrMore
			},
			"its account leaves the node": func(_ *accountJobs, leave func(),
				_ context.CancelFunc) error {
				leave()
				return queue.ErrMore
			},
			"the node gives it up": func(_ *accountJobs, _ func(),
				node context.CancelFunc) error {
				node()
				return context.Canceled
			},
		} {
			t.Run(name+": "+what, func(t *testing.T) {
				t.Parallel()
				begun, ended := make(chan struct{}), make(chan error, 1)
				j, leave := nodeJobs(t, name, begun)
				ctx, cancel := context.WithCancel(t.Context())
				go func() { ended <- j.run(ctx, name, worker.TriggerSchedule) }()
				await(t, "the job", begun)
				want := stop(j, leave, cancel)
				if err := await(t, "its end", ended); !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
				cancel()
			})
		}
	}
}

func TestADrainThatIsToldToStopIsHandedOnUnlessItsAccountIsPaused(t *testing.T) {
	t.Parallel()
	for what, stop := range map[string]func(j *accountJobs, leave func(), node context.CancelFunc) (want error){
		"its account is paused": func(j *accountJobs, _ func(), _ context.CancelFunc) error { pause(j); return nil },
		"its account leaves the node": func(_ *accountJobs, leave func(),
			_ context.CancelFunc) error {
			leave()
			return queue.ErrMore
		},
		"the node gives it up": func(_ *accountJobs, _ func(),
			node context.CancelFunc) error {
			node()
			return context.Canceled
		},
	} {
		begun, ended := make(chan struct{}), make(chan error, 1)
		j, leave := nodeJobs(t, "sweep", nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			ended <- j.drain(ctx, func(ctx context.Context) error {
				close(begun)
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		await(t, "the drain", begun)
		want := stop(j, leave, cancel)
		if err := await(t, "its end", ended); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", what, err, want)
		}
		cancel()
	}
}

func TestNothingBeginsForAnAccountThatIsPausedOrHasLeftTheNode(t *testing.T) {
	t.Parallel()
	for what, stop := range map[string]func(j *accountJobs, leave func()){
		"paused": func(j *accountJobs, _ func()) { pause(j) },
		"left":   func(_ *accountJobs, leave func()) { leave() },
	} {
		begun := make(chan struct{})
		j, leave := nodeJobs(t, "sweep", begun)
		stop(j, leave)
		if err := j.run(t.Context(), "sweep", worker.TriggerSchedule); !errors.Is(err, queue.ErrMore) {
			t.Errorf("%s: got %v, want that others go on with it", what, err)
		}
		select {
		case <-begun:
			t.Errorf("%s: it began", what)
		default:
		}
	}
}
