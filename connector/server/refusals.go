package server

import (
	"context"
	"sync"
	"time"

	"payersync/state"
)

const (
	refusalsEvery = 5 * time.Second  // the largest loss of counts in a power cut
	refusalsWait  = 10 * time.Second // how long the last of it waits for the ledger when a process ends
)

// Refusals counts the refused requests to the webhook, by day and outcome. Strangers can send any number of
// them. So they are counted in memory, and written to the ledger together every few seconds. It is safe for
// concurrent use; the zero value is ready.
type Refusals struct {
	counting sync.Mutex
	new      map[refusal]counted // not in the ledger yet

	writing sync.Mutex // held while the ledger is told
}

// refusal is the key of a counter.
type refusal struct {
	day     string // in UTC
	outcome RequestOutcome
}

type counted struct {
	n           int
	first, last time.Time
}

// Count takes note of how a request to the webhook ended at a time.
func (r *Refusals) Count(o RequestOutcome, at time.Time) {
	if o != Accepted && o != Repeated && o != NotReady {
		r.add(refusal{at.UTC().Format(time.DateOnly), o}, counted{1, at, at})
	}
}

func (r *Refusals) add(what refusal, more counted) {
	r.counting.Lock()
	defer r.counting.Unlock()
	if r.new == nil {
		r.new = map[refusal]counted{}
	}
	sum, known := r.new[what]
	if !known || more.first.Before(sum.first) {
		sum.first = more.first
	}
	if more.last.After(sum.last) {
		sum.last = more.last
	}
	sum.n += more.n
	r.new[what] = sum
}

// drain returns the counts since its last call.
func (r *Refusals) drain() map[refusal]counted {
	r.counting.Lock()
	defer r.counting.Unlock()
	taken := r.new
	r.new = nil
	return taken
}

// Write adds the counts since the last write to the ledger. They stay counted if the write fails. If a write
// succeeded without an answer, the requests of a few seconds count twice.
func (r *Refusals) Write(ctx context.Context, ledger *state.Ledger) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	taken := r.drain()
	if len(taken) == 0 {
		return nil
	}
	var rows []state.Refusals
	for what, c := range taken {
		rows = append(rows, state.NewRefusals(string(what.outcome), c.n, c.first, c.last))
	}
	err := ledger.Do(ctx, func(tx *state.Tx) error { return tx.AddRefusals(rows) })
	if err != nil {
		for what, c := range taken {
			r.add(what, c)
		}
	}
	return err
}

// Run writes every few seconds until ctx ends. It calls failed for the first failed write after a successful
// one.
func (r *Refusals) Run(ctx context.Context, ledger *state.Ledger, failed func(error)) {
	tick := time.NewTicker(refusalsEvery)
	defer tick.Stop()
	told := false
	for {
		select {
		case <-tick.C:
			err := r.Write(ctx, ledger)
			if err != nil && !told && ctx.Err() == nil {
				failed(err)
			}
			told = err != nil
		case <-ctx.Done():
			return
		}
	}
}

// Close writes the last counts, after the last request. It returns even if the ledger hangs.
func (r *Refusals) Close(ledger *state.Ledger) error {
	ctx, cancel := context.WithTimeout(context.Background(), refusalsWait)
	defer cancel()
	written := make(chan error, 1)
	go func() { written <- r.Write(ctx, ledger) }()
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
