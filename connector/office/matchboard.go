package office

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"payersync/mapping/strict"
	"payersync/state"
)

// Waiting is who waited for a word at a time. It never changes.
type Waiting struct {
	Rows   []Likeness
	Unread []Unread
	At     time.Time
}

// Unread is a connection whose matches are not known, because its mapping cannot be read.
type Unread struct {
	Connection string
	Line       int // of the mapping, where the first mistake is; 0 where that is not known
	Err        error
}

func unread(connection string, err error) Unread {
	u := Unread{Connection: connection, Err: err}
	var wrong *strict.Error
	if errors.As(err, &wrong) && len(wrong.Problems) > 0 {
		u.Line = wrong.Problems[0].Line
	}
	return u
}

// Board keeps in memory who waited for a word when that was last worked out. Where many wait it
// takes seconds, so it is done in the background, and whoever asks gets the last list without
// those on whom somebody has decided here since; where few do, the list is that of the moment.
// The zero value is ready, and safe for concurrent use. Close it before its ledger.
type Board struct {
	mu      sync.Mutex
	last    *Waiting
	commits int64 // of the ledger, when it was worked out
	err     error
	took    time.Duration
	began   time.Time     // of the last try, by the clock of this machine
	done    chan struct{} // closed when the try at work ends; nil while none is at work
	decided map[state.RecordID]time.Time
	gone    map[state.RecordID]Likeness // what those looked like, to be shown again
	closed  bool
	stop    context.CancelFunc
}

type working func(context.Context) (Waiting, error)

// latest returns the last list, or that of the moment where few wait.
func (b *Board) latest(ctx context.Context, ledger *state.Ledger, work working) (Waiting, error) {
	commits, err := ledger.Commits(ctx)
	if err != nil {
		return Waiting{}, err
	}
	b.mu.Lock()
	few := b.took <= countWaits
	for b.done != nil && few { // what is at work may not know of the last decision
		done := b.done
		b.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return Waiting{}, ctx.Err()
		}
		b.mu.Lock()
		few = b.took <= countWaits
	}
	due := b.last == nil || time.Since(b.began) >= max(countEvery, countRests*b.took) || few && commits != b.commits
	if due && b.done == nil && !b.closed {
		b.begin(commits, work)
	}
	done, wait := b.done, few || b.last == nil
	b.mu.Unlock()
	if done != nil && wait {
		select {
		case <-done:
		case <-ctx.Done():
			return Waiting{}, ctx.Err()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last == nil {
		return Waiting{}, errors.Join(errors.New("who waits for a decision could not be worked out"), b.err)
	}
	now := *b.last
	now.Rows = slices.DeleteFunc(slices.Clone(now.Rows), func(l Likeness) bool { return !b.decided[l.RecordID].IsZero() })
	return now, nil
}

// begin begins to work out who waits; b.mu is held.
func (b *Board) begin(commits int64, work working) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	b.done, b.stop, b.began = done, stop, time.Now()
	began := b.began
	go func() {
		defer stop()
		now, err := work(ctx)
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.err = err; err == nil {
			b.last, b.commits, b.took = &now, commits, time.Since(began)
			for id, at := range b.decided {
				if at.Before(began) {
					delete(b.decided, id)
				}
			}
		}
		b.done = nil
		close(done)
	}()
}

// goneKept is how many are kept to be shown again, about.
const goneKept = 1000

// decide leaves records out of the list until it is worked out anew.
func (b *Board) decide(ids ...state.RecordID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last == nil {
		return
	}
	if b.decided == nil || len(b.gone) >= goneKept {
		b.gone = map[state.RecordID]Likeness{}
	}
	if b.decided == nil {
		b.decided = map[state.RecordID]time.Time{}
	}
	for _, id := range ids {
		b.decided[id] = time.Now()
	}
	for _, l := range b.last.Rows {
		if slices.Contains(ids, l.RecordID) {
			b.gone[l.RecordID] = l
		}
	}
}

// undecide shows records again, and has the list worked out anew.
func (b *Board) undecide(ids ...state.RecordID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.began = time.Time{}
	if b.last == nil {
		return
	}
	now := *b.last
	now.Rows = slices.Clone(now.Rows)
	for _, id := range ids {
		delete(b.decided, id)
		if l, ok := b.gone[id]; ok && !slices.ContainsFunc(now.Rows, func(o Likeness) bool { return o.RecordID == id }) {
			now.Rows = append(now.Rows, l)
		}
	}
	slices.SortStableFunc(now.Rows, CompareLikeness)
	b.last = &now
}

// Close ends what is at work, and lets nothing begin.
func (b *Board) Close() {
	b.mu.Lock()
	b.closed = true
	done := b.done
	if done != nil {
		b.stop()
	}
	b.mu.Unlock()
	if done != nil {
		<-done
	}
}
