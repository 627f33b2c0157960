package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"payersync/connector/worker"
	"payersync/state/statetest"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(childOf); dsn != "" {
		child(dsn)
		return
	}
	goleak.VerifyTestMain(m)
}

// scene is a database with accounts and their deliveries, and the nodes working on it.
type scene struct {
	testing.TB
	dsn    string
	pool   *pgxpool.Pool
	mu     sync.Mutex
	diary  []string // what was reported, in a line each
	logged []string
}

func newScene(t testing.TB) *scene {
	s := &scene{TB: t, dsn: statetest.Postgres(t)}
	s.pool = newPool(t, s.dsn)
	t.Cleanup(s.pool.Close)
	if err := Migrate(t.Context(), s.pool); err != nil {
		t.Fatal(err)
	}
	s.exec("CREATE TABLE deliveries (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account BIGINT NOT NULL, open BOOLEAN NOT NULL DEFAULT true)")
	s.exec("CREATE INDEX ON deliveries (account) WHERE open")
	return s
}

func newPool(t testing.TB, dsn string) *pgxpool.Pool {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 12
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

func (s *scene) exec(statement string, args ...any) {
	s.Helper()
	if _, err := s.pool.Exec(s.Context(), statement, args...); err != nil {
		s.Fatalf("%s: %v", statement, err)
	}
}

// ask returns the one value that a query finds.
func ask[T any](s *scene, query string, args ...any) (value T) {
	s.Helper()
	if err := s.pool.QueryRow(s.Context(), query, args...).Scan(&value); err != nil {
		s.Fatalf("%s: %v", query, err)
	}
	return value
}

// config returns a configuration with empty jobs, and drains that process every delivery.
func (s *scene) config() Config {
	return Config{
		Work: func(context.Context, Job, string) error { return nil },
		Drain: func(ctx context.Context, account int64) error {
			_, err := s.pool.Exec(ctx, "UPDATE deliveries SET open = false WHERE account = $1 AND open", account)
			return err
		},
		Open: func(ctx context.Context, tx pgx.Tx, account int64) (open bool, err error) {
			return open, tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM deliveries WHERE account = $1 AND open)",
				account).Scan(&open)
		},
		Due:        func(context.Context) ([]int64, error) { return nil, nil },
		StopWithin: 100 * time.Millisecond,
		Report:     s.note,
		Log:        s.log,
		pace:       hasty,
	}
}

// hasty is the pace of tests.
var hasty = pace{tick: 100 * time.Millisecond, fetch: 5 * time.Millisecond, poll: 50 * time.Millisecond,
	drainAgain: 50 * time.Millisecond,
	hold:       2 * time.Second, look: 20 * time.Millisecond, inTest: true}

// note keeps an event as "account job outcome trigger".
func (s *scene) note(account int64, e worker.JobEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.diary = append(s.diary, strings.TrimSpace(fmt.Sprintf("%d %s %s %s", account, e.Job, e.Outcome, e.Trigger)))
}

func (s *scene) log(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logged = append(s.logged, text)
}

// noted returns how often a line is in the diary.
func (s *scene) noted(line string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.diary {
		if l == line {
			n++
		}
	}
	return n
}

// lines returns what the diary says of a job.
func (s *scene) lines(job string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.diary {
		if strings.HasPrefix(l, job+" ") {
			out = append(out, strings.TrimPrefix(l, job+" "))
		}
	}
	return out
}

// queue returns one that does not run.
func (s *scene) queue() *Queue {
	s.Helper()
	cfg := s.config()
	cfg.Pool = s.pool
	q, err := New(cfg)
	if err != nil {
		s.Fatal(err)
	}
	return q
}

// node lets another node work until it is stopped, at the latest with the test.
func (s *scene) node(cfg Config) (q *Queue, stop func()) {
	s.Helper()
	pool := newPool(s, s.dsn)
	cfg.Pool = pool
	q, err := New(cfg)
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Error(err)
		}
		pool.Close()
	})
	s.Cleanup(stop)
	return q, stop
}

// every sets the schedules of an account.
func (s *scene) every(account int64, schedules ...Schedule) {
	s.Helper()
	if err := s.queue().Every(s.Context(), account, schedules); err != nil {
		s.Fatal(err)
	}
}

// deliver commits a delivery and nudges.
func (s *scene) deliver(ctx context.Context, q *Queue, account int64) error {
	_, err := s.pool.Exec(ctx, "INSERT INTO deliveries (account) VALUES ($1)", account)
	return errors.Join(err, q.Nudge(ctx, account))
}

// until waits until something holds.
func (s *scene) until(what string, holds func() bool) {
	s.Helper()
	s.within(20*time.Second, what, holds)
}

func (s *scene) within(most time.Duration, what string, holds func() bool) {
	s.Helper()
	if !came(most, holds) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.Fatalf("it did not come to this: %s\nlast in the diary:\n%s\nlogged:\n%s", what,
			strings.Join(s.diary[max(0, len(s.diary)-20):], "\n"), strings.Join(s.logged, "\n"))
	}
}

// came reports whether something came to hold within a time.
func came(most time.Duration, holds func() bool) bool {
	end := time.After(most)
	for !holds() {
		select {
		case <-end:
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
	return true
}

// over reports whether nothing waits, is parked, or is at work, but for ticks.
func (s *scene) over() bool {
	return ask[int](s, "SELECT count(*) FROM river.river_job WHERE kind <> 'tick' AND finalized_at IS NULL") == 0
}

func (s *scene) same(what string, got, want []string) {
	s.Helper()
	if !slices.Equal(got, want) {
		s.Errorf("%s: got %q, want %q", what, got, want)
	}
}
