package syncer

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"payersync/connector"
	"payersync/state"
)

// gatherTime is how long the answer to a create waits for others before it is stored, unless somebody waits for it.
const gatherTime = 4 * time.Millisecond

// errKept means the answer to a create is stored later: the walker is told then.
var errKept = errors.New("the answer is stored with others")

// answers gathers the answers to creates and stores them by the group, so no worker waits for a commit.
type answers struct {
	in   chan state.CreateAnswer
	over chan struct{} // closed once all are stored
}

// keepAnswers returns an empty collection of answers. save stores a group of them.
func keepAnswers(save func([]state.CreateAnswer)) *answers {
	a := &answers{in: make(chan state.CreateAnswer, mostFrozen), over: make(chan struct{})}
	go func() {
		defer close(a.over)
		for first := range a.in {
			save(a.gather(first))
		}
	}()
	return a
}

// gather returns the first answer and those that follow soon.
func (a *answers) gather(first state.CreateAnswer) []state.CreateAnswer {
	group, enough := []state.CreateAnswer{first}, time.NewTimer(gatherTime)
	defer enough.Stop()
	for len(group) < mostFrozen {
		select {
		case next, open := <-a.in:
			if !open { // somebody waits
				return group
			}
			group = append(group, next)
		case <-enough.C:
			return group
		}
	}
	return group
}

// close waits until all answers are stored, or their errors reported.
func (a *answers) close() {
	close(a.in)
	<-a.over
}

// keep hands the answer to a create over to be stored with others. An answer with more than the customer and its key is
// stored at once.
func (w *walker) keep(ctx context.Context, sent state.SentCreate, made connector.RemoteCustomer) error {
	if made.Mandate != nil || connector.KeyIn(made.ExternalData, sent.Change.Payer.Key.Name) != sent.Change.Payer.Key {
		return w.saveMade(ctx, sent.Change, sent.Attempt, made)
	}
	a, err := w.Ledger.PrepareAnswer(sent, made)
	if err != nil {
		return err
	}
	w.heard()
	w.answers.in <- a
	return errKept
}

// heard notes that the service took a request.
func (w *walker) heard() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent, w.alike = 0, nil
}

// saveAnswers stores answers together. If one of them does not fit the others, each is stored alone.
func (w *walker) saveAnswers(ctx context.Context, group []state.CreateAnswer) {
	rest := group
	err := w.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) (err error) {
		rest, err = tx.SaveCreated(w.id, group)
		return err
	})
	if state.Unwritable(err) {
		w.finish(err)
		return
	}
	if err != nil {
		rest = group
	}
	w.stored(len(group) - len(rest))
	var alone errgroup.Group
	alone.SetLimit(max(w.Settings.Workers, 1))
	for _, a := range rest {
		alone.Go(func() error {
			w.finish(connector.Guard(func() error { return w.saveMade(ctx, a.Change, a.Attempt, a.Made) }))
			return nil
		})
	}
	_ = alone.Wait() // they report to the walker
}

// stored notes that so many answers are durable.
func (w *walker) stored(n int) {
	if n == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done += n
	w.progress(w.stage, w.done, w.total)
}
