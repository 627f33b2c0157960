package queue

import (
	"context"
	"errors"
	"flag"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

var nudges = flag.Int("nudges", 2000,
	"how many nudges TestNoNudgeIsLostAtTheEndOfADrain gives; a million take the better part of an hour")

// Nudges come at every moment of drains on two nodes. Nothing but the end of a drain looks for
// what they left.
//
// covers F186
func TestNoNudgeIsLostAtTheEndOfADrain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const accounts, writers = 16, 8
	var drains atomic.Int64
	var queues []*Queue
	for range 2 {
		cfg := s.config()
		drain := cfg.Drain
		cfg.Drain = func(ctx context.Context, account int64) error { drains.Add(1); return drain(ctx, account) }
		q, _ := s.node(cfg)
		queues = append(queues, q)
	}
	var given atomic.Int64
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for n := given.Add(1); n <= int64(*nudges); n = given.Add(1) {
				if err := s.deliver(t.Context(), queues[w%2], n%accounts); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writing.Wait()
	s.until("all drains are over", s.over)
	lie := ask[int](s, "SELECT count(*) FROM deliveries WHERE open")
	if lie > 0 {
		t.Errorf("of %d deliveries %d lie, and nobody drains them", *nudges, lie)
	}
	// jobs that are over are kept for longer than this takes
	begun := ask[int](s, "SELECT count(*) FROM river.river_job WHERE kind = 'drain'")
	if begun >= *nudges {
		t.Error("no nudge came while a drain waited or was at work")
	}
	t.Logf("%d nudges, of which %d were skipped; %d drains; left lying: %d", *nudges, *nudges-begun, drains.Load(), lie)
}

func TestANudgeDuringADrainIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	cfg := s.config()
	drain := cfg.Drain
	begun, goOn := make(chan struct{}, 10), make(chan struct{})
	cfg.Drain = func(ctx context.Context, account int64) error {
		err := drain(ctx, account)
		begun <- struct{}{}
		<-goOn
		return err
	}
	q, _ := s.node(cfg)
	for range 3 { // the first begins a drain, the others come when it has looked
		if err := s.deliver(t.Context(), q, 1); err != nil {
			t.Fatal(err)
		}
		if ask[int](s, "SELECT count(*) FROM deliveries") == 1 {
			<-begun
		}
	}
	if jobs := ask[int](s, "SELECT count(*) FROM river.river_job WHERE kind = 'drain'"); jobs != 1 {
		t.Fatalf("there are %d drains of one account", jobs)
	}
	close(goOn)
	s.until("all is drained", func() bool {
		return s.noted("1 drain done schedule") == 2 && s.over() &&
			ask[int](s, "SELECT count(*) FROM deliveries WHERE open") == 0
	})
	s.same("the drains", s.lines("1 drain"),
		[]string{"begun schedule", "done schedule", "begun schedule", "done schedule"})
}

// A delivery and its nudge come when the end of a drain has looked and is not committed yet. The
// nudge waits for it, and begins another drain.
//
// covers F186
func TestANudgeBetweenTheLookAndTheEndOfADrainBeginsAnother(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	cfg := s.config()
	look := cfg.Open
	nudged := make(chan error, 1)
	var once, skipped atomic.Bool
	cfg.Open = func(ctx context.Context, tx pgx.Tx, account int64) (bool, error) {
		open, err := look(ctx, tx, account)
		if err != nil || !once.CompareAndSwap(false, true) {
			return open, err
		}
		go func() {
			nudged <- s.deliver(context.WithoutCancel(ctx), s.queue(), account)
			skipped.Store(true)
		}()
		if !came(20*time.Second, func() bool {
			return skipped.Load() || ask[int](s,
				"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0
		}) {
			t.Error("the nudge neither waits nor was it skipped")
		}
		return open, nil
	}
	q, _ := s.node(cfg)
	if err := s.deliver(t.Context(), q, 1); err != nil {
		t.Fatal(err)
	}
	if err := <-nudged; err != nil {
		t.Fatal(err)
	}
	s.until("all is drained", func() bool {
		return s.noted("1 drain done schedule") == 2 && s.over() &&
			ask[int](s, "SELECT count(*) FROM deliveries WHERE open") == 0
	})
	s.same("the drains", s.lines("1 drain"),
		[]string{"begun schedule", "done schedule", "begun schedule", "done schedule"})
}

func TestADrainThatFailsIsTriedAgainByItself(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, want string
		fail       func(cfg *Config, first func() bool)
	}{
		{"the drain fails", "failed schedule", func(cfg *Config, first func() bool) {
			drain := cfg.Drain
			cfg.Drain = func(ctx context.Context, account int64) error {
				if first() {
					return errors.New("the service is away")
				}
				return drain(ctx, account)
			}
		}},
		{"the drain panics", "panicked schedule", func(cfg *Config, first func() bool) {
			drain := cfg.Drain
			cfg.Drain = func(ctx context.Context, account int64) error {
				if first() {
					panic("at the disco")
				}
				return drain(ctx, account)
			}
		}},
		{"the look at its end fails", "failed schedule", func(cfg *Config, first func() bool) {
			open := cfg.Open
			cfg.Open = func(ctx context.Context, tx pgx.Tx, account int64) (bool, error) {
				if first() {
					return false, errors.New("the ledger is away")
				}
				return open(ctx, tx, account)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			cfg := s.config()
			var once atomic.Bool
			tt.fail(&cfg, func() bool { return once.CompareAndSwap(false, true) })
			q, _ := s.node(cfg)
			if err := s.deliver(t.Context(), q, 1); err != nil {
				t.Fatal(err)
			}
			s.until("it is drained", func() bool {
				return s.noted("1 drain done schedule") == 1 && ask[int](s, "SELECT count(*) FROM deliveries WHERE open") == 0
			})
			s.same("the drains", s.lines("1 drain"), []string{"begun schedule", tt.want, "begun schedule", "done schedule"})
		})
	}
}

// A node may be lost between a delivery and its nudge.
func TestDeliveriesThatLieAreFoundByTheTick(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	cfg := s.config()
	cfg.Due = func(ctx context.Context) ([]int64, error) {
		rows, err := s.pool.Query(ctx, "SELECT account FROM deliveries WHERE open")
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowTo[int64])
	}
	s.exec("INSERT INTO deliveries (account) SELECT n % 3 FROM generate_series(1, 30) n")
	s.node(cfg)
	s.until("all is drained", func() bool { return ask[int](s, "SELECT count(*) FROM deliveries WHERE open") == 0 })
}
