package admin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"payersync/connector/syncer"
)

// Tallies run long counts over all records in the background, one at a time. Results are cached by name for a while. It
// is safe for concurrent use, and outlives a configuration. Close it before its ledger.
type Tallies struct {
	mu     sync.Mutex
	all    []*tally      // the newest last
	turn   chan struct{} // holds one while a count is at work
	firsts map[firstOf]syncer.Preview
	closed bool
}

// Tally is how far a count is.
type Tally struct {
	Name   string
	Done   int  // examined records
	AtWork bool // or waits for its turn
	Result any  // nil while it runs, and after a failure
	Err    error
	Text   string // the text under trial
}

type tally struct {
	Tally
	stop context.CancelFunc
	done chan struct{}
}

// talliesKept is how many counts are kept.
const talliesKept = 24

// Begin starts a count, unless there is one with this name, and returns its progress. A small new count is finished on
// return.
func (t *Tallies) Begin(name, text string, work func(ctx context.Context, progress func(done int)) (any, error)) Tally {
	t.mu.Lock()
	found := t.find(name)
	if found != nil {
		defer t.mu.Unlock()
		return found.Tally
	}
	if t.closed {
		t.mu.Unlock()
		return Tally{Name: name, Err: errClosed}
	}
	found = t.begin(name, text, work)
	t.mu.Unlock()
	patience := time.NewTimer(countFirst)
	defer patience.Stop()
	select {
	case <-found.done:
	case <-patience.C:
	}
	now, _ := t.Get(name)
	return now
}

// begin begins a count; t.mu is held.
func (t *Tallies) begin(name, text string, work func(context.Context, func(int)) (any, error)) *tally {
	for i := 0; len(t.all) >= talliesKept && i < len(t.all); i++ {
		if !t.all[i].AtWork {
			t.all = slices.Delete(t.all, i, i+1)
			i--
		}
	}
	if t.turn == nil {
		t.turn = make(chan struct{}, 1)
	}
	turn := t.turn
	ctx, stop := context.WithCancel(context.Background())
	c := &tally{Tally{Name: name, Text: text, AtWork: true}, stop, make(chan struct{})}
	t.all = append(t.all, c)
	go func() {
		defer stop()
		result, err := any(nil), error(nil)
		select {
		case turn <- struct{}{}:
			result, err = work(ctx, func(done int) {
				t.mu.Lock()
				defer t.mu.Unlock()
				c.Done = done
			})
			<-turn
		case <-ctx.Done(): // it was cancelled while another one was at work
			err = ctx.Err()
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		c.AtWork, c.Err = false, err
		if err == nil {
			c.Result = result
		} else { // the next one may succeed, and a cancelled one was unwanted
			t.all = slices.DeleteFunc(t.all, func(o *tally) bool { return o == c && errors.Is(err, context.Canceled) })
		}
		close(c.done)
	}()
	return c
}

func (t *Tallies) find(name string) *tally {
	for _, c := range t.all {
		if c.Name == name && c.Err == nil {
			return c
		}
	}
	return nil
}

// Get returns the progress of a count; false if there is none with this name.
func (t *Tallies) Get(name string) (Tally, bool) {
	return t.newest(func(n string) bool { return n == name })
}

// Latest is Get for the newest count with this name prefix.
func (t *Tallies) Latest(prefix string) (Tally, bool) {
	return t.newest(func(n string) bool { return strings.HasPrefix(n, prefix) })
}

func (t *Tallies) newest(is func(name string) bool) (Tally, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(t.all) - 1; i >= 0; i-- {
		if is(t.all[i].Name) {
			return t.all[i].Tally, true
		}
	}
	return Tally{}, false
}

// Cancel ends a count in progress.
func (t *Tallies) Cancel(name string) {
	t.mu.Lock()
	c := t.find(name)
	t.mu.Unlock()
	if c != nil {
		c.stop()
		<-c.done
	}
}

// Close ends running work, and prevents new work.
func (t *Tallies) Close() {
	t.mu.Lock()
	t.closed = true
	all := slices.Clone(t.all)
	t.mu.Unlock()
	for _, c := range all {
		c.stop()
		<-c.done
	}
}
