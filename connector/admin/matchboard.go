package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"payersync/mapping/strict"
	"payersync/state"
)

// Waiting is a list of records waiting for a decision at a time. It is immutable.
type Waiting struct {
	Rows   []Likeness
	Unread []Unread
	At     time.Time

	began time.Time // by the clock of this machine
}

// Unread is a connection with unknown matches, because its mapping cannot be read.
type Unread struct {
	Connection string
	Line       int // the mapping's line of the first mistake; 0 if unknown
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

// Board caches the last list of records waiting for a decision. A long list takes seconds to compute, so this runs in
// the background: callers get the last list, updated by decisions made here since. A short list is computed at once.
// The zero value is ready, and safe for concurrent use. Close it before its ledger.
type Board struct {
	waiting snapshot[Waiting]

	mu   sync.Mutex
	said map[state.RecordID]sayingOf
}

// sayingOf is a decision made here about a record, possibly missing from the last list.
type sayingOf struct {
	at    time.Time // by the clock of this machine
	waits bool      // it was taken back
	like  *Likeness // as in a list; nil if in none
}

const (
	boardWaits = time.Minute // how long somebody waits for a list of few
	saidKept   = 1000        // about how many decisions are kept: a reverted one is shown at once
)

// latest returns the last list, or a new one if it is short. commits is the ledger's number of commits.
func (b *Board) latest(ctx context.Context, commits int64, work func(context.Context) (Waiting, error)) (Waiting,
	error) {
	news := b.waiting.isNews(commits)
	patience := time.Duration(0)
	if b.waiting.isQuick() {
		if patience = boardWaits; news {
			b.waiting.renew()
		}
	}
	last, err := b.waiting.latest(ctx, patience, func(ctx context.Context) (*Waiting, error) {
		began := time.Now()
		now, err := work(ctx)
		now.began = began
		return &now, err
	})
	if err != nil {
		return Waiting{}, fmt.Errorf("work out who waits for a decision: %w", err)
	}
	return b.since(*last), nil
}

// since returns a list updated with the decisions since its begin.
func (b *Board) since(now Waiting) Waiting {
	b.mu.Lock()
	defer b.mu.Unlock()
	now.Rows = slices.DeleteFunc(slices.Clone(now.Rows),
		func(l Likeness) bool { return b.said[l.RecordID].at.After(now.began) })
	for _, s := range b.said {
		if s.waits && s.like != nil && s.at.After(now.began) {
			now.Rows = append(now.Rows, *s.like)
		}
	}
	slices.SortStableFunc(now.Rows, CompareLikeness)
	return now
}

// decide leaves records out of the list until it is worked out anew.
func (b *Board) decide(ids ...state.RecordID) { b.say(false, ids) }

// undecide shows records again, and has the list worked out anew.
func (b *Board) undecide(ids ...state.RecordID) {
	b.say(true, ids)
	b.waiting.renew()
}

func (b *Board) say(waits bool, ids []state.RecordID) {
	last := cmp.Or(b.waiting.kept(), &Waiting{})
	likes := map[state.RecordID]*Likeness{}
	for i, l := range last.Rows {
		likes[l.RecordID] = &last.Rows[i]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.said == nil {
		b.said = map[state.RecordID]sayingOf{}
	}
	if len(b.said) >= saidKept {
		maps.DeleteFunc(b.said, func(_ state.RecordID, s sayingOf) bool { return !s.at.After(last.began) })
	}
	for _, id := range ids {
		b.said[id] = sayingOf{time.Now(), waits, cmp.Or(likes[id], b.said[id].like)}
	}
}

// Close ends running work, and prevents new work.
func (b *Board) Close() { b.waiting.close() }
