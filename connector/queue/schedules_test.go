package queue

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"payersync/connector/worker"
)

const daily = "30 4 * * *"

func TestATimeThatWasMissedComesOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.every(1, Schedule{Job: "sync books", Cron: "@every 1h"}, Schedule{Job: "letters", Cron: daily, OnTime: true})
	s.every(2, Schedule{Job: "sync books", Cron: "@every 1h"})
	s.exec("UPDATE river.schedules SET next_at = now() - interval '3 days' WHERE account = 1")
	s.node(s.config())
	s.node(s.config())
	s.until("all schedules have moved and all jobs ended", func() bool {
		return ask[int](s, "SELECT count(*) FROM river.schedules WHERE next_at <= now()") == 0 && s.over() &&
			len(s.lines("2 sync books")) == 2
	})
	s.same("what no node was there for", s.lines("1 sync books"), []string{"begun catch_up", "done catch_up"})
	s.same("what is no use later", s.lines("1 letters"), nil)
	s.same("what is new", s.lines("2 sync books"), []string{"begun schedule", "done schedule"})
	if late := ask[time.Duration](s,
		"SELECT max(next_at) FILTER (WHERE job = 'sync books') - now() FROM river.schedules"); late > time.Hour+maxDelay {
		t.Errorf("the next time is %s away", late)
	}
}

func TestSchedulesOfAnAccountAreReplaced(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const never = "0 0 29 2 *" // as good as
	s.every(1, Schedule{Job: "kept", Cron: never}, Schedule{Job: "given another time", Cron: never},
		Schedule{Job: "removed", Cron: never}, Schedule{Job: "turned", Cron: never})
	s.every(2, Schedule{Job: "removed", Cron: never})
	s.exec("UPDATE river.schedules SET next_at = '2026-01-02 03:04:05Z'")
	s.every(1, Schedule{Job: "kept", Cron: never}, Schedule{Job: "given another time", Cron: daily},
		Schedule{Job: "turned", Cron: never, Care: true},
		Schedule{Job: "new", Cron: never}, Schedule{Job: "new, on time", Cron: daily, OnTime: true},
		Schedule{Job: "new, done lately", Cron: "@every 2h", Last: time.Now().Add(-time.Hour)},
		Schedule{Job: "new, done long ago", Cron: "@every 1h", Last: time.Now().Add(-240 * time.Hour)})
	rows, err := s.queue().Schedules(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	day := 24*time.Hour + maxDelay
	for name, want := range map[string]struct{ from, to time.Duration }{
		"given another time": {0, day}, "new": {-time.Minute, 0}, "new, on time": {0, day},
		"new, done lately":   {50 * time.Minute, time.Hour + maxDelay},
		"new, done long ago": {-240 * time.Hour, -238 * time.Hour},
	} {
		for _, r := range rows {
			if in := time.Until(r.NextAt); r.Job == name && (in < want.from || in > want.to) {
				t.Errorf("%s comes in %s, want between %s and %s", name, in, want.from, want.to)
			}
		}
	}
	var names, kept []string
	for _, r := range rows {
		names = append(names, r.Job)
		if r.NextAt.UTC().Format(time.RFC3339) == "2026-01-02T03:04:05Z" {
			kept = append(kept, r.Job)
		}
	}
	s.same("the account's", names,
		[]string{"given another time", "kept", "new", "new, done lately", "new, done long ago", "new, on time", "turned"})
	s.same("those that keep their time", kept, []string{"kept", "turned"})
	if n := ask[int](s, "SELECT count(*) FROM river.schedules WHERE account = 2"); n != 1 {
		t.Errorf("another account has %d schedules", n)
	}
}

func TestSchedulesThatCannotBeUsedReplaceNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.every(1, Schedule{Job: "sync", Cron: daily})
	err := s.queue().Every(t.Context(), 1,
		[]Schedule{{Job: "a", Cron: "soon"}, {Job: "", Cron: daily}, {Job: "drain", Cron: daily}, {Job: "b", Cron: daily},
			{Job: "b", Cron: daily}})
	for _, want := range []string{`the job a: the schedule "soon" cannot be used`, `the job "" is`, `the job "drain" is`,
		`the job "b" is given twice`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %s", err, want)
		}
	}
	if job := ask[string](s, "SELECT string_agg(job, ' ') FROM river.schedules"); job != "sync" {
		t.Errorf("the schedules are %s", job)
	}
}

func TestAScheduleThatThisNodeCannotReadHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.every(1, Schedule{Job: "a", Cron: daily}, Schedule{Job: "b", Cron: daily})
	s.exec("UPDATE river.schedules SET cron = 'CRON_TZ=Mars/Olympus 30 4 * * *' WHERE job = 'a'")
	s.node(s.config())
	s.until("the other was done", func() bool { return s.noted("1 b done schedule") == 1 })
	s.same("the one", s.lines("1 a"), []string{"failed"})
}

func TestAnAccountsDelayIsAlwaysTheSame(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	delays := map[time.Duration]bool{}
	for account := range int64(200) {
		first, err := next(account, daily, at)
		if err != nil {
			t.Fatal(err)
		}
		second, _ := next(account, daily, first)
		delay := first.Sub(time.Date(2026, 1, 2, 4, 30, 0, 0, time.UTC))
		if delay < 0 || delay >= maxDelay || second.Sub(first) != 24*time.Hour {
			t.Fatalf("account %d comes at %s, then at %s", account, first, second)
		}
		delays[delay.Truncate(time.Second)] = true
	}
	if len(delays) != 10 {
		t.Errorf("200 accounts have only these delays: %v", delays)
	}
}

// Nodes that start together make the tables once.
func TestNodesMigrateInTurns(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.exec("DROP SCHEMA river CASCADE")
	var nodes sync.WaitGroup
	for range 4 {
		nodes.Go(func() {
			pool := newPool(t, s.dsn)
			defer pool.Close()
			if err := Migrate(context.Background(), pool); err != nil {
				t.Error(err)
			}
		})
	}
	nodes.Wait()
	s.every(1, Schedule{Job: "sync", Cron: daily})
}

// A queue that an earlier version made goes on with this one, and with both at once.
func TestAQueueOfAnEarlierVersionGoesOn(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.exec("ALTER TABLE river.schedules ALTER COLUMN long DROP DEFAULT")
	s.exec("INSERT INTO river.schedules (account, job, cron, on_time, long, care, next_at) VALUES (1, 'sweep', $1, true, true, true, now() + interval '1 day')", daily)
	_, err := s.queue().client.Insert(t.Context(), sliceArgs{Account: 1, Name: "sweep", Trigger: worker.TriggerSchedule},
		&river.InsertOpts{Queue: care})
	if err != nil {
		t.Fatal(err)
	}
	s.exec("UPDATE river.river_job SET kind = 'long'")
	if err := Migrate(t.Context(), s.pool); err != nil {
		t.Fatal(err)
	}
	s.every(2, Schedule{Job: "sync", Cron: daily})
	s.node(s.config())
	s.until("what an earlier version left is done", func() bool { return s.noted("1 sweep done schedule") == 1 })
	s.exec("INSERT INTO river.schedules (account, job, cron, on_time, long, care, next_at) VALUES (3, 'sweep', $1, true, true, true, now())", daily)
	s.until("what it schedules meanwhile is done", func() bool { return s.noted("3 sweep done schedule") == 1 })
}

// A person starts a job on the first node that is free, and not twice.
func TestAPersonStartsAScheduledJob(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.every(1, Schedule{Job: "sync books", Cron: "0 0 29 2 *", OnTime: true})
	cfg := s.config()
	people, goOn := make(chan string, 10), make(chan struct{})
	cfg.Work = func(ctx context.Context, _ Job, trigger string) error {
		people <- trigger + " for " + worker.Person(ctx)
		<-goOn
		return nil
	}
	s.node(cfg)
	pages := s.queue() // of a process that makes no runs
	for _, want := range []bool{true, false} {
		if news, err := pages.Start(t.Context(), 1, "sync books", "anna"); err != nil || news != want {
			t.Errorf("the request is new: %t, %v; want %t", news, err, want)
		}
		if want {
			if got := <-people; got != "manual for anna" {
				t.Errorf("the job is done %s", got)
			}
			asked, err := pages.Requests(t.Context(), 1)
			if err != nil || len(asked) != 1 || asked[0].Job != "sync books" || asked[0].By != "anna" ||
				time.Since(asked[0].At) > time.Hour {
				t.Errorf("the requests are %v, %v", asked, err)
			}
		}
	}
	for _, job := range []Job{{1, "sync others"}, {2, "sync books"}} {
		if _, err := pages.Start(t.Context(), job.Account, job.Name, "anna"); !errors.Is(err, ErrNotScheduled) {
			t.Errorf("%v without a schedule: %v", job, err)
		}
	}
	close(goOn)
	s.until("it has ended", func() bool { return s.noted("1 sync books done manual") == 1 })
	s.same("the runs", s.lines("1 sync books"), []string{"begun manual", "done manual"})
	s.until("no request is left", func() bool {
		asked, err := pages.Requests(t.Context(), 1)
		return err == nil && len(asked) == 0
	})
}
