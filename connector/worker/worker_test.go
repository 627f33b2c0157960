package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"payersync/connector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// diary notes what happened when, in time since the test began.
type diary struct {
	mu    sync.Mutex
	began time.Time
	lines []string
}

func newDiary() *diary { return &diary{began: time.Now()} }

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := time.Since(d.began).Truncate(time.Second)
	d.lines = append(d.lines, fmt.Sprintf("%s %s", at, fmt.Sprintf(format, args...)))
}

func (d *diary) report(e JobEvent) {
	if e.Job == DrainName && e.Outcome == Done || e.Outcome == Begun {
		return
	}
	d.note("%s %s %s", e.Job, e.Outcome, e.Trigger)
}

func (d *diary) check(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	var got []string
	for _, line := range d.lines {
		got = append(got, strings.TrimSpace(line))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("diary (-want +got):\n%s", diff)
	}
}

// run runs a worker for a span of fake time and returns when it has stopped.
func run(t *testing.T, span time.Duration, cfg Config) {
	t.Helper()
	w := start(t, cfg)
	time.Sleep(span)
	w.stop()
}

type running struct {
	*Worker
	stop func()
}

func start(t *testing.T, cfg Config) running {
	t.Helper()
	if cfg.Drain == nil {
		cfg.Drain = func(context.Context) error { return nil }
	}
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return running{w, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}}
}

// nothing is the work of a job whose ticks alone matter.
func nothing(context.Context, string) error { return nil }

// justNow is the Last of a job that is not overdue.
func justNow(context.Context) (time.Time, error) { return time.Now(), nil }

func TestJobRunsAtItsTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		run(t, 61*time.Minute, Config{Report: d.report, Jobs: []Job{
			{Name: "sync", Schedule: "*/15 * * * *", Last: justNow, Run: nothing},
			{Name: "sweep", Schedule: "7 * * * *", Run: nothing},
		}})
		d.check(t, "7m0s sweep done schedule", "15m0s sync done schedule", "30m0s sync done schedule",
			"45m0s sync done schedule", "1h0m0s sync done schedule")
	})
}

func TestDailyJobRunsOncePerDay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		run(t, 7*24*time.Hour, Config{Report: d.report, DrainEvery: time.Hour,
			Jobs: []Job{{Name: "backup", Schedule: "30 3 * * *", Run: nothing}}})
		if len(d.lines) != 7 {
			t.Errorf("a daily job ran %d times in 7 days: %q", len(d.lines), d.lines)
		}
	})
}

// covers F61
func TestTickIsSkippedWhileTheJobRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		run(t, 46*time.Minute, Config{Report: d.report,
			Jobs: []Job{{Name: "sync", Schedule: "*/15 * * * *", Run: func(context.Context, string) error {
				time.Sleep(20 * time.Minute)
				return nil
			}}}})
		d.check(t, "30m0s sync skipped", "35m0s sync done schedule", "1h5m0s sync done schedule")
	})
}

func TestWhatAPersonAsksForIsNeverAtWorkBesideItsJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		slow := func(context.Context) error { time.Sleep(20 * time.Minute); return nil }
		w := start(t, Config{Report: d.report, DrainEvery: time.Hour,
			Jobs: []Job{{Name: "sync", Schedule: "*/15 * * * *",
				Run: func(ctx context.Context, _ string) error { return slow(ctx) }}}})
		time.Sleep(time.Minute)
		d.note("asked: %v", w.Now("sync", slow))
		d.note("asked again: %v", w.Now("sync", slow))
		d.note("asked for another: %v",
			w.Now("no schedule", func(context.Context) error { return throttledUntil(time.Now().Add(time.Hour)) }))
		time.Sleep(31 * time.Minute) // the tick of 15 is skipped, the one of 30 is at work
		d.note("asked beside a tick: %v", w.Now("sync", slow))
		w.stop()
		d.note("asked after the end: %v", w.Now("sync", slow))
		d.check(t, "1m0s asked: <nil>", "1m0s asked again: "+ErrBusy.Error(), "1m0s asked for another: <nil>",
			"1m0s no schedule failed manual",
			"15m0s sync skipped", "21m0s sync done manual", "32m0s asked beside a tick: "+ErrBusy.Error(),
			"50m0s sync done schedule", "50m0s asked after the end: "+ErrStopped.Error())
	})
}

func TestAPanicOfWhatAPersonAskedForLeavesTheJobFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		w := start(t, Config{Report: d.report, DrainEvery: time.Hour})
		time.Sleep(time.Second)
		for range 2 {
			d.note("asked: %v", w.Now("sync", func(context.Context) error { panic("no") }))
			time.Sleep(time.Second)
		}
		w.stop()
		d.check(t, "1s asked: <nil>", "1s sync panicked", "2s asked: <nil>", "2s sync panicked")
	})
}

// covers F72
func TestMissedJobCatchesUpOnceHoweverOftenItWasMissed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		last func(now time.Time) time.Time
		want []string
	}{
		{"down for a week", func(now time.Time) time.Time { return now.Add(-7 * 24 * time.Hour) },
			[]string{"0s sync done catch_up", "15m0s sync done schedule"}},
		{"missed by a moment", func(now time.Time) time.Time { return now.Add(-15*time.Minute - time.Millisecond) },
			[]string{"0s sync done catch_up", "15m0s sync done schedule"}},
		{"never finished", func(time.Time) time.Time { return time.Time{} },
			[]string{"0s sync done catch_up", "15m0s sync done schedule"}},
		{"finished since its last time", func(now time.Time) time.Time { return now },
			[]string{"15m0s sync done schedule"}},
		{"the clock was set back", func(now time.Time) time.Time { return now.Add(24 * time.Hour) },
			[]string{"15m0s sync done schedule"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDiary()
				last := tt.last(time.Now())
				run(t, 16*time.Minute, Config{Report: d.report, Jobs: []Job{{
					Name: "sync", Schedule: "*/15 * * * *", Run: nothing,
					Last: func(context.Context) (time.Time, error) { return last, nil },
				}}})
				d.check(t, tt.want...)
			})
		})
	}
}

func TestRunStartsNothingWhenTheLedgerCannotSayWhatRanLast(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk I/O error")
	w, err := New(Config{
		Drain: func(context.Context) error { t.Error("drained"); return nil },
		Jobs: []Job{{
			Name: "sync", Schedule: "* * * * *", Last: func(context.Context) (time.Time, error) { return time.Time{}, broken },
			Run: func(context.Context, string) error { t.Error("ran"); return nil },
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); !errors.Is(err, broken) {
		t.Errorf("Run: %v, want %v", err, broken)
	}
}

func TestJobGoesOnAfterAPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var events []JobEvent
		runs := 0
		run(t, 200*time.Second, Config{
			Report: func(e JobEvent) {
				if e.Job == "sync" {
					events = append(events, e)
				}
			},
			Jobs: []Job{{Name: "sync", Schedule: "* * * * *", Run: func(context.Context, string) error {
				switch runs++; runs {
				case 1:
					panic("secret-7f3a")
				case 2:
					_ = make([]int, 2)[runs]
				}
				return nil
			}}},
		})
		var outcomes []Outcome
		for _, e := range events {
			outcomes = append(outcomes, e.Outcome)
		}
		if want := []Outcome{Begun, Panicked, Begun, Panicked, Begun, Done}; !slices.Equal(outcomes, want) {
			t.Fatalf("outcomes %v, want %v", outcomes, want)
		}
		if text := fmt.Sprintf("%v", events[1].Err); strings.Contains(text, "secret") {
			t.Errorf("the report shows what was thrown: %s", text)
		}
		var p *connector.PanicError
		if !errors.As(events[3].Err, &p) || !strings.Contains(p.What, "index out of range") ||
			!strings.Contains(p.Stack, "worker_test.go") {
			t.Errorf("got %v, want the runtime's error and a stack", events[3].Err)
		}
	})
}

// covers F67
func TestStopEndsTheContextOfRunningJobsAndWaitsForThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		finish := func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(20 * time.Second) // requests in flight
			d.note("finished")
			return ctx.Err()
		}
		w := start(t, Config{Report: d.report, Drain: finish, Jobs: []Job{
			{Name: "sync", Schedule: "* * * * *", Run: func(ctx context.Context, _ string) error { return finish(ctx) }},
		}})
		time.Sleep(90 * time.Second)
		w.stop()
		d.note("stopped")
		slices.Sort(d.lines)
		d.check(t, "1m50s drain interrupted schedule", "1m50s finished", "1m50s finished", "1m50s stopped",
			"1m50s sync interrupted schedule")
	})
}

func TestStopDoesNotWaitForAParkedJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		run(t, 90*time.Second, Config{Report: d.report,
			Jobs: []Job{{Name: "sync", Schedule: "* * * * *", Run: func(context.Context, string) error {
				return throttledUntil(time.Now().Add(time.Hour))
			}}}})
		d.note("stopped")
		d.check(t, "1m0s sync parked schedule", "1m30s stopped")
	})
}

func TestDelaysStayWithinTheJitterAndRepeatFromTheirSeed(t *testing.T) {
	t.Parallel()
	const jitter = 40 * time.Second
	schedule := func(seed uint64) []time.Duration {
		cfg := Config{Jitter: jitter, Rand: rand.New(rand.NewPCG(seed, 0)), Drain: func(context.Context) error { return nil }}
		for i := range 20 {
			cfg.Jobs = append(cfg.Jobs, Job{Name: fmt.Sprint(i), Schedule: "0 * * * *", Run: nothing})
		}
		w, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		hour := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
		var delays []time.Duration
		for _, made := range cfg.Jobs {
			j := w.jobs[made.Name]
			at := times{job: j, schedule: j.work.Load().schedule}
			first := at.Next(hour.Add(30 * time.Minute))
			if second := at.Next(first); second.Sub(first) != time.Hour {
				t.Errorf("an hourly job came at %s, then at %s", first, second)
			}
			delays = append(delays, first.Sub(hour.Add(time.Hour)))
		}
		return delays
	}
	first := schedule(1)
	if least, most := slices.Min(first), slices.Max(first); least < 0 || most >= jitter || least == most {
		t.Errorf("delays from %s to %s, want them spread over [0, %s)", least, most, jitter)
	}
	if again := schedule(1); !slices.Equal(first, again) {
		t.Errorf("seed 1 gave %v, then %v", first, again)
	}
	if other := schedule(2); slices.Equal(first, other) {
		t.Errorf("seeds 1 and 2 gave the same delays %v", other)
	}
}

func TestNewReportsEveryJobThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Jitter: time.Second, Drain: func(context.Context) error { return nil }, Jobs: []Job{
		{Name: "acme", Schedule: "61 * * * *", Run: nothing},
		{Name: "sweep", Schedule: "0 0 31 2 *", Run: nothing},
		{Name: "sweep", Schedule: "@daily", Run: nothing},
		{Name: "idle", Schedule: "@daily"},
		{Name: "drain", Schedule: "@daily", Run: nothing},
	}})
	if err == nil {
		t.Fatal("New accepted five wrong jobs")
	}
	for _, want := range []string{
		"jitter needs a source of randomness", `the job acme: the schedule "61 * * * *" cannot be used: "61" is no minute`,
		"the job sweep: the schedule", `the job "sweep" is given twice`, `the job "idle" needs`,
		`the job "drain" is given twice, or has a name that is taken`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v\nwant it to say: %s", err, want)
		}
	}
	if _, err := New(Config{}); err == nil || !strings.Contains(err.Error(), "no drain") {
		t.Errorf("New without a drain: %v", err)
	}
}
