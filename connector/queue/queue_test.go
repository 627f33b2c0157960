package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/worker"
)

// atWork counts who works on what at a time.
type atWork struct {
	mu   sync.Mutex
	now  map[Job]int
	most int
	by   [2]int
}

func (w *atWork) begin(job Job, node int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now[job]++
	w.most = max(w.most, w.now[job])
	w.by[node]++
}

func (w *atWork) end(job Job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now[job]--
}

func TestAJobIsAtWorkOnOneNodeAtATime(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const accounts = 6
	for account := range int64(accounts) {
		s.every(account, Schedule{Job: "sync", Cron: "@every 1s"})
	}
	w := &atWork{now: map[Job]int{}}
	for node := range 2 {
		cfg := s.config()
		cfg.Work = func(_ context.Context, job Job, _ string) error {
			w.begin(job, node)
			defer w.end(job)
			time.Sleep(20 * time.Millisecond) // as long as the other node needs to take it, too
			return nil
		}
		s.node(cfg)
	}
	s.until("both nodes worked, and every account's job came twice", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		both := w.by[0] > 0 && w.by[1] > 0
		for account := range int64(accounts) {
			both = both && s.noted(fmt.Sprintf("%d sync done schedule", account)) >= 2
		}
		return both
	})
	if w.most != 1 {
		t.Errorf("a job was at work %d times at once", w.most)
	}
}

// An account whose job never ends keeps no other from its turn, though there is one worker.
func TestAJobThatTakesLongGoesOnBehindAllOthers(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	cfg := s.config()
	cfg.Workers, cfg.Slice = Workers{Hooks: 1, Runs: 1, Care: 1}, 20*time.Millisecond
	begun, enough := make(chan string, 3), make(chan struct{})
	cfg.Work = func(_ context.Context, job Job, _ string) error {
		begun <- job.Name
		if job.Account == 1 {
			<-enough
		}
		return nil
	}
	var drained atomic.Bool
	drain := cfg.Drain
	cfg.Drain = func(ctx context.Context, account int64) error {
		if account == 1 && !drained.Load() {
			return ErrMore
		}
		return drain(ctx, account)
	}
	s.every(1, Schedule{Job: "sweep", Cron: daily, Care: true})
	q, _ := s.node(cfg)
	if err := q.Nudge(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	<-begun
	s.every(2, Schedule{Job: "letters", Cron: daily, Care: true})
	if err := q.Nudge(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	s.until("the other account was served", func() bool {
		return s.noted("2 letters done schedule") == 1 && s.noted("2 drain done schedule") == 1
	})
	s.exec("UPDATE river.schedules SET next_at = now()")
	s.until("the next time of what goes on was skipped", func() bool { return s.noted("1 sweep skipped") == 1 })
	drained.Store(true)
	close(enough)
	s.until("all has ended", func() bool { return s.over() })
	s.same("what took long", s.lines("1 sweep"), []string{"begun schedule", "skipped", "done schedule"})
	s.same("its drains are one", s.lines("1 drain"), []string{"begun schedule", "done schedule"})
}

// It goes on for many times what a slice, and what a node may be silent, last. Two nodes look how it stands.
//
// covers F196
func TestAJobOfAnyLengthReachesItsEndOnceOnOneNode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, want string
		end        error
	}{
		{"it is done", "done schedule", nil},
		{"it fails", "failed schedule", errors.New("the service is away")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.every(1, Schedule{Job: "sweep", Cron: daily, Care: true})
			end := make(chan struct{})
			for range 2 {
				cfg := s.config()
				cfg.Slice, cfg.pace.slice, cfg.pace.hold = 20*time.Millisecond, 200*time.Millisecond, 500*time.Millisecond
				cfg.Work = func(ctx context.Context, _ Job, _ string) error {
					select {
					case <-end:
						return tt.end
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				s.node(cfg)
			}
			s.until("its job is there", func() bool { return len(s.lines("1 sweep")) > 0 })
			s.until("it was held for much longer than a hold lasts", func() bool {
				return ask[bool](s, "SELECT coalesce(h.held_until > j.created_at + interval '2500 ms', false) FROM river.river_job j LEFT JOIN river.holds h ON h.job_id = j.id WHERE j.kind = 'slice'")
			})
			close(end)
			s.until("it is over", s.over)
			s.same("the job", s.lines("1 sweep"), []string{"begun schedule", tt.want})
			s.exec("UPDATE river.schedules SET next_at = now()")
			s.until("its next time came", func() bool { return s.over() && s.noted("1 sweep "+tt.want) == 2 })
		})
	}
}

// A node that hears nothing of the database for as long as a hold lasts ends what it has under way, because
// another begins with it.
//
// covers F196
func TestANodeWhoseHoldIsGoneStopsWhatItHasUnderWay(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.every(1, Schedule{Job: "sweep", Cron: daily, Care: true})
	cfg := s.config()
	cfg.Slice, cfg.pace.hold = 20*time.Millisecond, 400*time.Millisecond
	begun, ended := make(chan struct{}, 2), make(chan error, 1)
	var first atomic.Bool
	cfg.Work = func(ctx context.Context, _ Job, _ string) error {
		begun <- struct{}{}
		if !first.CompareAndSwap(false, true) {
			return nil
		}
		<-ctx.Done()
		ended <- errors.Join(context.Cause(ctx), connector.MayLeave(ctx))
		return ctx.Err()
	}
	s.node(cfg)
	<-begun
	s.exec("UPDATE river.holds SET holder = 'another', held_until = now() + interval '200 ms'")
	if err := <-ended; !errors.Is(err, errHoldLost) {
		t.Errorf("it was told to stop by %v", err)
	}
	s.until("another has begun anew once the hold was over",
		func() bool { return s.noted("1 sweep done schedule") == 1 && s.over() })
	s.same("the job", s.lines("1 sweep"), []string{"begun schedule", "begun schedule", "done schedule"})
}

func TestAJobThatIsNoLongerScheduledDoesNotComeAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	cfg := s.config()
	var begun atomic.Int32
	cfg.Work = func(context.Context, Job, string) error { begun.Add(1); return ErrMore }
	s.every(1, Schedule{Job: "sync", Cron: daily})
	s.node(cfg)
	s.until("it is at work", func() bool { return begun.Load() > 1 })
	s.every(1)
	s.until("it is over", s.over)
	if left := ask[int](s, "SELECT count(*) FROM river.holds"); left > 0 {
		t.Errorf("%d nodes hold it", left)
	}
}

func TestAThrottledJobWaitsUntilTheNamedTime(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	cfg := s.config()
	named := time.Now().Add(2 * time.Hour)
	var asked atomic.Int32
	cfg.Work = func(context.Context, Job, string) error {
		if asked.Add(1) == 1 {
			return fmt.Errorf("list the invoices: %w", &connector.RemoteError{Fault: connector.FaultThrottled, RetryAt: named})
		}
		return nil
	}
	var until [2]atomic.Pointer[time.Time] // parked and skipped
	cfg.Report = func(account int64, e worker.JobEvent) {
		switch e.Outcome {
		case worker.Parked:
			until[0].Store(&e.Until)
		case worker.Skipped:
			until[1].Store(&e.Until)
		}
		s.note(account, e)
	}
	s.every(1, Schedule{Job: "sync", Cron: daily})
	s.node(cfg)
	s.until("it is parked", func() bool {
		return s.noted("1 sync parked schedule") == 1 &&
			ask[int](s, "SELECT count(*) FROM river.river_job WHERE state = 'scheduled'") == 1
	})
	s.exec("UPDATE river.schedules SET next_at = now()")
	s.until("its next time was skipped", func() bool { return s.noted("1 sync skipped") == 1 })
	for i, at := range []time.Time{*until[0].Load(), *until[1].Load(),
		ask[time.Time](s, "SELECT scheduled_at FROM river.river_job WHERE kind = 'slice'")} {
		if off := at.Sub(named).Abs(); off > time.Second {
			t.Errorf("%d: it waits until %s, want %s", i, at, named)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("it was at work %d times before the time came", asked.Load())
	}
	s.exec("UPDATE river.holds SET again_at = now()")
	s.exec("UPDATE river.river_job SET scheduled_at = now() WHERE kind = 'slice'")
	s.until("it went on", s.over)
	s.same("the job", s.lines("1 sync"),
		[]string{"begun schedule", "parked schedule", "skipped", "begun schedule", "done schedule"})
}

// A panic's text may contain a name. It is never shown, and the job ends.
func TestAJobThatPanicsOrFailsWaitsForItsNextTime(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	cfg := s.config()
	var events sync.Map
	cfg.Work = func(_ context.Context, job Job, _ string) error {
		if job.Name == "panics" {
			panic("Jane Doe")
		}
		return errors.New("the books of Jane Doe cannot be read")
	}
	cfg.Report = func(account int64, e worker.JobEvent) {
		if e.Outcome != worker.Begun {
			events.Store(e.Job, e)
		}
		s.note(account, e)
	}
	s.every(1, Schedule{Job: "panics", Cron: daily}, Schedule{Job: "fails", Cron: daily})
	s.node(cfg)
	both := func(n int) func() bool {
		return func() bool {
			return s.noted("1 panics panicked schedule") == n && s.noted("1 fails failed schedule") == n && s.over()
		}
	}
	s.until("both ended", both(1))
	last, _ := events.Load("panics")
	var broken *connector.PanicError
	if e := last.(worker.JobEvent); !errors.As(e.Err, &broken) ||
		!strings.HasPrefix(broken.Where(), "queue/queue_test.go:") || strings.Contains(e.Err.Error(), "Jane") {
		t.Errorf("the panic is reported as %+v", e)
	}
	s.exec("UPDATE river.schedules SET next_at = now()")
	s.until("both came again", both(2))
	rows, err := s.queue().Schedules(t.Context(), 1)
	if err != nil || len(rows) != 2 || rows[0].Outcome != worker.Failed || rows[1].Outcome != worker.Panicked ||
		time.Since(rows[1].EndedAt).Abs() > time.Minute {
		t.Errorf("the schedules say %+v, %v", rows, err)
	}
	kept := ask[string](s, "SELECT string_agg(j::text, ' ') FROM river.river_job j")
	s.mu.Lock()
	defer s.mu.Unlock()
	if said := kept + strings.Join(s.logged, " "); strings.Contains(said, "Jane") {
		t.Errorf("somebody's name is in %s", said)
	}
}

func TestANodeThatStopsGivesItsJobsToAnother(t *testing.T) {
	t.Parallel()
	for name, slice := range map[string]time.Duration{"in its slice": time.Minute,
		"after its slice": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.every(1, Schedule{Job: "sync", Cron: daily})
			first, second := s.config(), s.config()
			first.Slice = slice
			begun := make(chan struct{})
			first.Work = func(ctx context.Context, _ Job, _ string) error {
				close(begun)
				<-ctx.Done()
				return fmt.Errorf("read the books: %w", ctx.Err())
			}
			q, stop := s.node(first)
			<-begun
			if slice < time.Second {
				s.until("its row stands in line again", func() bool {
					return ask[int](s, "SELECT count(*) FROM river.river_job WHERE kind = 'slice' AND metadata ? 'snoozes'") == 1
				})
			}
			if !q.Alive() {
				t.Error("a node at work is not alive")
			}
			s.node(second)
			stop()
			if q.Alive() {
				t.Error("a node that has stopped is alive")
			}
			s.until("the job was done elsewhere", func() bool { return s.noted("1 sync done schedule") == 1 })
			s.same("the job", s.lines("1 sync"),
				[]string{"begun schedule", "interrupted schedule", "begun schedule", "done schedule"})
			s.until("it is over", s.over)
			if attempt := ask[int](s, "SELECT attempt FROM river.river_job WHERE kind = 'slice'"); attempt != 1 {
				t.Errorf("being told to stop counts as an attempt: %d", attempt)
			}
		})
	}
}

func TestSweepsAndChoresWaitInALineOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.every(1, Schedule{Job: "sync", Cron: daily}, Schedule{Job: "sweep", Cron: daily, Care: true})
	s.node(s.config())
	s.until("all are done", func() bool {
		return s.over() && s.noted("1 sync done schedule") == 1 && s.noted("1 sweep done schedule") == 1
	})
	if queues := ask[string](s,
		"SELECT string_agg(args->>'job' || ': ' || queue, ', ' ORDER BY args->>'job') FROM river.river_job WHERE kind <> 'tick'"); queues != "sweep: care, sync: runs" {
		t.Errorf("they wait in %s", queues)
	}
}

// A leading node with a clock ten minutes wrong parks jobs, resumes them, and hands them over at its stop,
// like any other.
func TestTheDatabasesClockSaysWhenAJobComesAgain(t *testing.T) {
	t.Parallel()
	for _, wrong := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		t.Run(wrong.String(), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			named := time.Now().Add(2 * time.Hour)
			var asked atomic.Int32
			begun := make(chan struct{})
			cfg := s.config()
			cfg.Now, cfg.pace.now = time.Now, func() time.Time { return time.Now().Add(wrong) }
			cfg.Work = func(ctx context.Context, _ Job, _ string) error {
				switch asked.Add(1) {
				case 1, 2:
					return ErrMore
				case 3:
					return &connector.RemoteError{Fault: connector.FaultThrottled, RetryAt: named}
				}
				close(begun)
				<-ctx.Done()
				return ctx.Err()
			}
			cfg.Report = func(account int64, e worker.JobEvent) {
				if e.Took.Abs() > time.Minute {
					t.Errorf("it is %s and took %s", e.Outcome, e.Took)
				}
				s.note(account, e)
			}
			s.every(1, Schedule{Job: "sync", Cron: daily})
			_, stop := s.node(cfg)
			s.until("it is parked", func() bool {
				return s.noted("1 sync parked schedule") == 1 &&
					ask[int](s, "SELECT count(*) FROM river.river_job WHERE state = 'scheduled'") == 1
			})
			if at := ask[time.Time](s,
				"SELECT scheduled_at FROM river.river_job WHERE kind = 'slice'"); at.Sub(named).Abs() > time.Second {
				t.Errorf("it waits until %s, want %s", at, named)
			}
			s.exec("UPDATE river.holds SET again_at = now()")
			s.exec("UPDATE river.river_job SET scheduled_at = now() WHERE kind = 'slice'")
			s.until("it begins again", func() bool {
				select {
				case <-begun:
					return true
				default:
					return false
				}
			})
			stop()
			s.node(s.config())
			s.until("another node has done it", func() bool { return s.noted("1 sync done schedule") == 1 })
		})
	}
}

// A fast clock on the checking node must not make running jobs look lost.
func TestAFastNodeTakesNoJobForLostThatIsAtWork(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for wrong, want := range map[time.Duration]time.Duration{0: rescueAfter, 10 * time.Minute: rescueAfter +
		10*time.Minute, -10 * time.Minute: SliceTime} {
		cfg := s.config()
		cfg.Pool, cfg.pace = s.pool, pace{now: func() time.Time { return time.Now().Add(wrong) }}
		q, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.river().RescueStuckJobsAfter; (got - want).Abs() > time.Second {
			t.Errorf("a clock that is wrong by %s: jobs of that age are lost: %s, want %s", wrong, got, want)
		}
	}
}

func TestAQueueThatWouldForgetSomethingIsRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for name, without := range map[string]func(*Config){
		"no database": func(c *Config) { c.Pool = nil }, "no work": func(c *Config) { c.Work = nil },
		"no drain":               func(c *Config) { c.Drain = nil },
		"no look for deliveries": func(c *Config) { c.Open = nil }, "no lost deliveries": func(c *Config) { c.Due = nil },
	} {
		cfg := s.config()
		cfg.Pool = s.pool
		without(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
}
