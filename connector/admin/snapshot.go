package admin

import (
	"context"
	"sync"
	"time"

	"payersync/connector"
)

// snapshot caches the last result of work on many records. The work takes seconds, so it runs in the background:
// callers get the last result, and start the next. It is safe for concurrent use.
type snapshot[T any] struct {
	mu     sync.Mutex
	last   *T
	err    error         // of the last try
	done   chan struct{} // closed when the one at work ends; nil while none is at work
	began  time.Time     // of the last try, by the clock of this machine
	took   time.Duration
	asked  int // how often a count was requested, in all and before the last began
	heard  int
	closed bool
	stop   context.CancelFunc

	commits int64 // of the ledger, when somebody asked last
}

// How often one is made.
const (
	countEvery = 2 * time.Second        // at most
	countRests = 10                     // times as long as making it took
	countFirst = 100 * time.Millisecond // the wait for the first count, from its begin
	// the wait for one after an act: a small one is done by then
	countWaits = 250 * time.Millisecond
	countQuick = 50 * time.Millisecond // for any other
)

// latest returns the last result, and starts the next if it is due. After renew it waits a while for the new one, at
// least as long as a small one takes, and not at all with a patience below 0. It fails with ErrCounting while there is
// no result.
func (s *snapshot[T]) latest(ctx context.Context, patience time.Duration, maker func(context.Context) (*T, error)) (*T,
	error) {
	s.mu.Lock()
	wait, renewed := countWaits, s.asked != s.heard
	switch {
	case !renewed && s.last != nil:
		wait = countQuick
	case s.last == nil && s.done != nil:
		wait = max(0, countFirst-time.Since(s.began))
	case s.last == nil:
		wait = countFirst
	}
	if s.last != nil && s.took > wait {
		wait = 0 // it is not done by then
	}
	switch {
	case patience < 0:
		wait = 0
	case renewed:
		wait = max(wait, patience)
	}
	s.mu.Unlock()
	for late := time.After(wait); ; {
		s.mu.Lock()
		if due := time.Since(s.began) >= max(countEvery, countRests*s.took); s.done == nil && !s.closed &&
			(due || s.last == nil) {
			s.begin(maker)
		}
		done, renewed := s.done, s.asked != s.heard // the one at work began before
		s.mu.Unlock()
		if done == nil || wait == 0 {
			break
		}
		select {
		case <-done:
			if renewed && patience > 0 {
				continue
			}
		case <-late:
		case <-ctx.Done():
		}
		break
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.last != nil:
		return s.last, nil
	case s.done == nil && s.err != nil:
		return nil, s.err
	}
	return nil, ErrCounting
}

// isNews reports whether the ledger has another number of commits than when somebody asked last.
func (s *snapshot[T]) isNews(commits int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := commits != s.commits
	s.commits = commits
	return news
}

// kept returns the last one, nil while there is none.
func (s *snapshot[T]) kept() *T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// isQuick reports whether making one took no longer than people wait, as far as is known.
func (s *snapshot[T]) isQuick() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.took <= countWaits
}

// renew starts the next result at once after an action by a person.
func (s *snapshot[T]) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = time.Time{}
	s.asked++
}

// begin begins to make one; s.mu is held.
func (s *snapshot[T]) begin(maker func(context.Context) (*T, error)) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	s.done, s.stop, s.began, s.heard = done, stop, time.Now(), s.asked
	began := s.began
	go func() {
		defer stop()
		var made *T
		err := connector.Guard(func() (err error) {
			made, err = maker(ctx)
			return err
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err = err; err == nil {
			s.last, s.took = made, time.Since(began)
		}
		s.done = nil
		close(done)
	}()
}

// isClosed reports whether no other begins.
func (s *snapshot[T]) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// close ends one at work, and lets no other begin.
func (s *snapshot[T]) close() {
	s.mu.Lock()
	s.closed = true
	done := s.done
	if done != nil {
		s.stop()
	}
	s.mu.Unlock()
	if done != nil {
		<-done
	}
}
