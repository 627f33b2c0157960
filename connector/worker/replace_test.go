package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Each story begins with a sync every quarter of an hour, and replaces it after a while.
func TestJobsAreReplacedWhileTheWorkerRuns(t *testing.T) {
	t.Parallel()
	const quarterly = "*/15 * * * *"
	type story struct {
		name  string
		first func(d *diary) Job // what there is from the start
		after time.Duration      // when it is replaced
		then  func(d *diary) []Job
		span  time.Duration // of the whole story
		want  []string
	}
	says := func(d *diary, what string, takes time.Duration) func(context.Context, string) error {
		return func(context.Context, string) error {
			time.Sleep(takes)
			d.note("%s", what)
			return nil
		}
	}
	sync := func(d *diary, what string, takes time.Duration) Job {
		return Job{Name: "sync", Schedule: quarterly, Last: justNow, Run: says(d, what, takes)}
	}
	stories := []story{{
		name: "the next run is another", after: 20 * time.Minute, span: 46 * time.Minute,
		first: func(d *diary) Job { return sync(d, "old", 0) },
		then:  func(d *diary) []Job { return []Job{sync(d, "new", 0)} },
		want: []string{"15m0s old", "15m0s sync done schedule", "30m0s new", "30m0s sync done schedule", "45m0s new",
			"45m0s sync done schedule"},
	}, {
		name: "a run at work finishes, and the next is another", after: 20 * time.Minute, span: 46 * time.Minute,
		first: func(d *diary) Job { return sync(d, "old", 20*time.Minute) },
		then:  func(d *diary) []Job { return []Job{sync(d, "new", 0)} },
		want: []string{"30m0s sync skipped", "35m0s old", "35m0s sync done schedule", "45m0s new",
			"45m0s sync done schedule"},
	}, {
		name: "what is removed finishes and does not start again", after: 20 * time.Minute, span: 61 * time.Minute,
		first: func(d *diary) Job { return sync(d, "old", 8*time.Minute) },
		then:  func(*diary) []Job { return nil },
		want:  []string{"23m0s old", "23m0s sync done schedule"},
	}, {
		name: "what comes back while it is at work is not at work twice", after: 20 * time.Minute, span: 46 * time.Minute,
		first: func(d *diary) Job { return sync(d, "old", 20*time.Minute) },
		then:  func(d *diary) []Job { j := sync(d, "new", 0); j.Last = nil; return []Job{j} },
		want: []string{"30m0s sync skipped", "35m0s old", "35m0s sync done schedule", "45m0s new",
			"45m0s sync done schedule"},
	}, {
		name: "what is new and never ran runs at once", after: 20 * time.Minute, span: 31 * time.Minute,
		first: func(d *diary) Job { return sync(d, "old", 0) },
		then: func(d *diary) []Job {
			added := Job{Name: "added", Schedule: "@yearly", Run: says(d, "new", 0),
				Last: func(context.Context) (time.Time, error) { return time.Time{}, nil }}
			return []Job{sync(d, "old", 0), added}
		},
		want: []string{"15m0s old", "15m0s sync done schedule", "20m0s new", "20m0s added done catch_up", "30m0s old",
			"30m0s sync done schedule"},
	}, {
		name: "what is kept is not made up for, whatever the ledger says", after: 20 * time.Minute, span: 31 * time.Minute,
		first: func(d *diary) Job { return sync(d, "old", 0) },
		then: func(d *diary) []Job {
			j := sync(d, "new", 0)
			j.Last = func(context.Context) (time.Time, error) { return time.Time{}, nil }
			return []Job{j}
		},
		want: []string{"15m0s old", "15m0s sync done schedule", "30m0s new", "30m0s sync done schedule"},
	}, {
		name: "another schedule counts from then on", after: 20 * time.Minute, span: 31 * time.Minute,
		first: func(d *diary) Job { return sync(d, "old", 0) },
		then:  func(d *diary) []Job { j := sync(d, "new", 0); j.Schedule = "*/5 * * * *"; return []Job{j} },
		want: []string{"15m0s old", "15m0s sync done schedule", "25m0s new", "25m0s sync done schedule", "30m0s new",
			"30m0s sync done schedule"},
	}, {
		name: "what is parked goes on as it is now", after: 20 * time.Minute, span: 41 * time.Minute,
		first: func(*diary) Job {
			return Job{Name: "sync", Schedule: quarterly, Last: justNow,
				Run: func(context.Context, string) error { return throttledUntil(time.Now().Add(10 * time.Minute)) }}
		},
		then: func(d *diary) []Job { return []Job{sync(d, "new", 0)} },
		want: []string{"15m0s sync parked schedule", "25m0s new", "25m0s sync done schedule", "30m0s new",
			"30m0s sync done schedule"},
	}, {
		name: "what is parked and removed waits no longer", after: 20 * time.Minute, span: 61 * time.Minute,
		first: func(*diary) Job {
			return Job{Name: "sync", Schedule: quarterly, Last: justNow,
				Run: func(context.Context, string) error { return throttledUntil(time.Now().Add(10 * time.Minute)) }}
		},
		then: func(*diary) []Job { return nil },
		want: []string{"15m0s sync parked schedule"},
	}}
	for _, tt := range stories {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDiary()
				w := start(t, Config{Report: d.report, DrainEvery: time.Hour, Jobs: []Job{tt.first(d)}})
				time.Sleep(tt.after)
				then := tt.then(d)
				if strings.Contains(tt.name, "comes back") {
					if err := w.Replace(t.Context(), nil); err != nil {
						t.Fatal(err)
					}
				}
				if err := w.Replace(t.Context(), then); err != nil {
					t.Fatal(err)
				}
				time.Sleep(tt.span - tt.after)
				w.stop()
				d.check(t, tt.want...)
			})
		})
	}
}

func TestJobsThatCannotBeUsedReplaceNothing(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk I/O error")
	noted := func(d *diary) Job {
		return Job{Name: "sync", Schedule: "*/15 * * * *",
			Run: func(context.Context, string) error { d.note("old"); return nil }}
	}
	for name, jobs := range map[string][]Job{
		"a schedule that is none": {{Name: "sync", Schedule: "often", Run: nothing}},
		"a name twice": {{Name: "a", Schedule: "@daily", Run: nothing},
			{Name: "a", Schedule: "@daily", Run: nothing}},
		"nothing to run": {{Name: "a", Schedule: "@daily"}},
		"the ledger is away": {{Name: "a", Schedule: "@daily", Run: nothing, Last: func(context.Context) (time.Time, error) {
			return time.Time{}, broken
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDiary()
				w := start(t, Config{Report: d.report, DrainEvery: time.Hour, Jobs: []Job{noted(d)}})
				if err := w.Replace(t.Context(), jobs); err == nil {
					t.Error("they were taken")
				}
				time.Sleep(16 * time.Minute)
				w.stop()
				d.check(t, "15m0s old", "15m0s sync done schedule")
			})
		})
	}
}

// The delay of a job is drawn once, so that a change just before its time does not make it
// lose a turn.
func TestAReplacedJobKeepsItsDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var times []time.Duration
		began := time.Now()
		job := func() Job {
			return Job{Name: "sync", Schedule: "*/15 * * * *", Last: justNow, Run: func(context.Context, string) error {
				times = append(times, time.Since(began)%(15*time.Minute))
				return nil
			}}
		}
		w := start(t, Config{DrainEvery: time.Hour, Jitter: 10 * time.Second, Rand: rand.New(rand.NewPCG(1, 2)),
			Jobs: []Job{job()}})
		for range 3600 { // at every second of an hour
			time.Sleep(time.Second)
			if err := w.Replace(t.Context(), []Job{job()}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		w.stop()
		if len(times) != 5 || times[0] != times[4] {
			t.Errorf("in an hour and ten seconds from a full one on it ran %d times, so late: %v", len(times), times)
		}
	})
}

func TestAWorkerIsAliveWhileItLooksAtItsSchedules(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Config{DrainEvery: time.Hour})
		for range 10 {
			time.Sleep(time.Hour)
			synctest.Wait()
			if !w.Alive() {
				t.Error("a worker that runs is not alive")
			}
		}
		w.stop()
		if w.Alive() {
			t.Error("a worker that has stopped is alive")
		}
	})
}
