package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// sessionLocks are the locks of this process on a server, all in one session. A long-held lock, for
// example during remote requests, blocks no other lock. The server lets them go with the session.
// It is safe for concurrent use.
type sessionLocks struct {
	pool *pgxpool.Pool // of one connection

	turn chan struct{} // holds one while the session is asked something
	conn *pgxpool.Conn // the session; nil while no lock is held
	// by their keys, with the session of each: one that was lost stays taken here until it is let go
	held map[int64]*pgxpool.Conn
}

func newSessionLocks(pool *pgxpool.Pool) *sessionLocks {
	return &sessionLocks{pool: pool, turn: make(chan struct{}, 1), held: map[int64]*pgxpool.Conn{}}
}

// try takes a lock, and returns nil when somebody else holds it. If it cannot learn that in time,
// it fails with ErrServer.
func (s *sessionLocks) try(ctx context.Context, key int64) (*Lock, error) {
	within, cancel := context.WithTimeout(ctx, lockWithin)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
	case <-within.Done():
		return nil, s.unheard(ctx, within.Err())
	}
	defer func() { <-s.turn }()
	if _, taken := s.held[key]; taken {
		return nil, nil
	}
	if s.conn == nil {
		conn, err := s.pool.Acquire(within)
		if err != nil {
			return nil, s.unheard(ctx, err)
		}
		s.conn = conn
	}
	mine := false
	if err := s.query("SELECT pg_try_advisory_lock($1)", key, &mine); err != nil {
		return nil, s.unheard(ctx, err)
	}
	if !mine {
		s.returnSession()
		return nil, nil
	}
	s.held[key] = s.conn
	return &Lock{session: func() error { return s.release(key) }}, nil
}

// release lets a lock go. It fails with ErrConnectionLost where the lock was lost with its session before.
func (s *sessionLocks) release(key int64) error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	of, was := s.held[key], false
	if delete(s.held, key); of != nil && of == s.conn {
		defer s.returnSession()
		if err := s.query("SELECT pg_advisory_unlock($1)", key, &was); err != nil {
			return fmt.Errorf("%w: %w", ErrConnectionLost, err)
		}
	}
	if !was {
		return ErrConnectionLost
	}
	return nil
}

// query asks the session. It ignores the end of the caller's context: an interrupted query loses the
// session, and all locks with it.
func (s *sessionLocks) query(query string, key int64, answer *bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), lockWithin)
	defer cancel()
	err := s.conn.QueryRow(ctx, query, key).Scan(answer)
	if s.conn.Conn().IsClosed() {
		s.conn.Release()
		s.conn = nil
	}
	return err
}

// returnSession returns the session once it holds no lock.
func (s *sessionLocks) returnSession() {
	for _, of := range s.held {
		if of == s.conn {
			return
		}
	}
	if s.conn != nil {
		s.conn.Release()
		s.conn = nil
	}
}

// unheard says why nobody knows whether a lock is free.
func (s *sessionLocks) unheard(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: it did not say within %s whether somebody else is at it. Look how busy it is, and try again",
			ErrServer, lockWithin)
	}
	return refusedServer(err)
}

// lockWithin is how long a server may take to say whether a lock is free.
const lockWithin = 5 * time.Second
