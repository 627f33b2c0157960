package syncer

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"payersync/connector"
	"payersync/state"
)

// gatherTime is how long an answer waits for others before it is stored, unless somebody waits for it. Every commit
// writes the same dozen pages again, however few answers it stores. A process that dies loses the answers that wait,
// and the next run looks for their customers before it sends anything again.
const gatherTime = 25 * time.Millisecond

// errKept means the answer is stored later: the walker is told then.
var errKept = errors.New("the answer is stored with others")

// answers gathers the answers to requests of one kind and stores them by the group, so no worker waits for a commit.
type answers[A any] struct {
	in   chan A
	over chan struct{} // closed once all are stored
}

// keepAnswers returns an empty collection of answers. save stores a group of them.
func keepAnswers[A any](save func([]A)) *answers[A] {
	a := &answers[A]{in: make(chan A, mostFrozen), over: make(chan struct{})}
	go func() {
		defer close(a.over)
		for first := range a.in {
			save(a.gather(first))
		}
	}()
	return a
}

// gather returns the first answer and those that follow soon.
func (a *answers[A]) gather(first A) []A {
	group, enough := []A{first}, time.NewTimer(gatherTime)
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
func (a *answers[A]) close() {
	close(a.in)
	<-a.over
}

// enqueueAnswer hands the answer to a create over to be stored with others. An answer with more than the customer and
// its key is stored at once.
func (w *walker) enqueueAnswer(ctx context.Context, sent state.Sent, made connector.RemoteCustomer) error {
	if made.Mandate != nil || connector.KeyIn(made.ExternalData, sent.Change.Payer.Key.Name) != sent.Change.Payer.Key {
		return w.saveMade(ctx, sent.Change, sent.Attempt, made)
	}
	a, err := w.Ledger.PrepareAnswer(sent, made)
	if err != nil {
		return err
	}
	w.noteTaken()
	w.creates.in <- a
	return errKept
}

// noteTaken notes that the service took a request.
func (w *walker) noteTaken() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent, w.alike = 0, nil
}

// saveCreates stores answers to creates together. If one of them does not fit the others, each is stored alone.
func (w *walker) saveCreates(ctx context.Context, group []state.CreateAnswer) {
	rest := group
	err := w.Ledger.Do(context.WithoutCancel(ctx), func(tx *state.Tx) (err error) {
		rest, err = tx.SaveCreated(w.id, group)
		return err
	})
	if err != nil {
		rest = group
	}
	saveRest(w, len(group), rest, err,
		func(a state.CreateAnswer) error { return w.saveMade(ctx, a.Change, a.Attempt, a.Made) })
}

// saveLinks is saveCreates for the answers to requests for signing links.
func (w *walker) saveLinks(ctx context.Context, group []state.LinkAnswer) {
	ctx, rest := context.WithoutCancel(ctx), group
	err := w.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		rest, err = tx.SaveLinked(w.id, w.cause(), group)
		return err
	})
	if err != nil {
		rest = group
	}
	saveRest(w, len(group), rest, err, func(a state.LinkAnswer) error {
		return w.Ledger.Do(ctx, func(tx *state.Tx) error { return w.saveLink(tx, a.Sent, a.Mandate) })
	})
}

// saveRest stores the rest of so many answers one by one. err is why the group could not be stored.
func saveRest[A any](w *walker, all int, rest []A, err error, save func(A) error) {
	if state.Unwritable(err) {
		w.finish(err)
		return
	}
	w.stored(all - len(rest))
	var alone errgroup.Group
	alone.SetLimit(max(w.Settings.Workers, 1))
	for _, a := range rest {
		alone.Go(func() error {
			w.finish(connector.Guard(func() error { return save(a) }))
			return nil
		})
	}
	_ = alone.Wait() // they report to the walker
}

// stored notes that so many answers are durable.
func (w *walker) stored(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range n { // each is reported, as if it were alone
		w.done++
		w.progress(w.stage, w.done, w.total)
	}
}
