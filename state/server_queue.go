package state

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool returns so many connections more, for what else lies in the database: each is looked at like those of
// ledgers, and sees none of them. It is closed before the server.
func (s *Server) Pool(ctx context.Context, connections int) (*pgxpool.Pool, error) {
	config := s.write.Config()
	config.MaxConns = int32(max(2, connections)) //nolint:gosec // of a configuration, which is checked
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, refusedServer(err)
	}
	return pool, nil
}

// HasDeliveries reports whether an account has deliveries for [Ledger.OpenDeliveries] now, as a
// transaction of a Pool sees it.
func (s *Server) HasDeliveries(ctx context.Context, tx pgx.Tx, account int64, gap time.Duration) (has bool, err error) {
	var now time.Time
	if err := tx.QueryRow(ctx, "SELECT clock_timestamp() FROM set_config('payersync.account', $1, true)",
		strconv.FormatInt(account, 10)).Scan(&now); err != nil {
		return false, fmt.Errorf("look for deliveries: %w", err)
	}
	s.noteTime(now)
	if err := tx.QueryRow(ctx, postgresSQL("SELECT EXISTS ("+dueDeliveries+")"),
		dueArgs(now.UTC(), gap)...).Scan(&has); err != nil {
		return false, fmt.Errorf("look for deliveries: %w", err)
	}
	return has, nil
}

// HasDeliveriesOf returns HasDeliveries for some accounts; of the others it finds none.
func (s *Server) HasDeliveriesOf(some func(account int64) bool, gap time.Duration) func(context.Context, pgx.Tx,
	int64) (bool, error) {
	return func(ctx context.Context, tx pgx.Tx, account int64) (bool, error) {
		if !some(account) {
			return false, nil
		}
		return s.HasDeliveries(ctx, tx, account, gap)
	}
}

// AccountID returns the number of the ledger's account on its server; 0 for a file.
func (l *Ledger) AccountID() int64 {
	if e, is := l.below.(*postgres); is {
		return e.account
	}
	return 0
}

// AccountName returns the name of the ledger's account on a server that has many; "" for a file. Command lines for
// people carry it.
func (l *Ledger) AccountName() string {
	if e, is := l.below.(*postgres); is && !e.own {
		return e.name
	}
	return ""
}

// Alone reports whether the database's commits wait for no standby, so that a failover loses the
// last ones.
func (s *Server) Alone(ctx context.Context) (alone bool, err error) {
	if err := s.write.QueryRow(ctx, "SELECT current_setting('synchronous_standby_names') = ''").Scan(&alone); err != nil {
		return false, refusedServer(err)
	}
	return alone, nil
}
