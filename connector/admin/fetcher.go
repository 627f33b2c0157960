package admin

import (
	"context"
	"errors"
	"sync"
	"time"

	"payersync/connector/syncer"
	"payersync/state"
)

// Fetcher fetches signing links again in the background: one lot at a time, for the life of this process. After an
// interruption, the remaining links are still lost, and a person can request them again. It is safe for concurrent use.
type Fetcher struct {
	mu     sync.Mutex
	lot    Lot
	stop   context.CancelFunc
	done   chan struct{}
	closed bool
	parts  parts[Fetcher]
}

// LimitedTo returns the fetcher limited to some connections. It hides the links of others. It is closed with this one.
func (f *Fetcher) LimitedTo(connections []string) *Fetcher {
	return f.parts.of(connections, func() *Fetcher {
		f.mu.Lock()
		defer f.mu.Unlock()
		return &Fetcher{closed: f.closed}
	})
}

// Lot is the progress of the current or last lot of links.
type Lot struct {
	Fetched
	By       string
	Began    time.Time // zero if none was fetched since this process began
	Ended    time.Time // zero while it is at work
	Done     int       // of the requested ones
	Err      error     // the cause of an early end
	Failures []Failure // the first of them
}

// AtWork reports whether links are being fetched.
func (l Lot) AtWork() bool { return !l.Began.IsZero() && l.Ended.IsZero() }

// Failure is a link with a fetch error.
type Failure struct {
	state.RecordID
	Err error
}

// failuresKept is how many failures are kept to be shown; all are counted.
const failuresKept = 50

// ErrAtWork means a fetch is already in progress.
var ErrAtWork = errors.New("links are being fetched already")

// errClosed means the process is about to end.
var errClosed = errors.New("payersync is about to stop")

// Begin begins to fetch links. It fails with ErrAtWork while others are fetched, and with ErrNotAsked as
// Fetch does; Lot reports later results.
func (f *Fetcher) Begin(m *Mandates, lot Fetching) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return errClosed
	case f.lot.AtWork():
		return ErrAtWork
	case m.Asks(len(lot.Payers)) != AskNothing && !lot.Said:
		return ErrNotAsked
	}
	ctx, stop := context.WithCancel(context.Background())
	f.stop, f.done = stop, make(chan struct{})
	f.lot = Lot{Fetched: Fetched{Asked: len(lot.Payers)}, By: lot.By.Name, Began: m.Ledger.Now()}
	at := 0 // position in the payers; only for the fetching goroutine
	lot.Progress = func(p syncer.Progress) {
		at = p.Done
		f.change(func(l *Lot) { l.Done, l.Fetched.Fetched = p.Done, p.Done-l.Failed })
	}
	lot.Failed = func(_ string, err error) {
		p := lot.Payers[at]
		f.change(func(l *Lot) {
			if l.Failed++; len(l.Failures) < failuresKept {
				l.Failures = append(l.Failures, Failure{state.RecordID{Connection: p.Connection, SourceID: p.SourceID}, err})
			}
		})
	}
	go func() {
		defer stop()
		got, err := m.Fetch(ctx, lot)
		f.change(func(l *Lot) {
			l.Fetched, l.Done, l.Err, l.Ended = got, got.Fetched+got.Failed, err, m.Ledger.Now()
		})
		close(f.done)
	}()
	return nil
}

func (f *Fetcher) change(do func(*Lot)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do(&f.lot)
}

// Lot returns how far it is.
func (f *Fetcher) Lot() Lot {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.lot
	l.Failures = append([]Failure(nil), l.Failures...)
	return l
}

// Close ends running work, and prevents new work.
func (f *Fetcher) Close() {
	f.mu.Lock()
	f.closed = true
	done, stop := f.done, f.stop
	f.mu.Unlock()
	if done != nil {
		stop()
		<-done
	}
	f.parts.each((*Fetcher).Close)
}
