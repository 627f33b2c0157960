package admin

import (
	"context"
	"sync"
	"time"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// pairOf is a record and a customer.
type pairOf struct {
	state.RecordID
	customer string
}

// aheadFor is how long a customer read ahead is shown, and aheadKept how many are kept.
const (
	aheadFor  = 5 * time.Minute
	aheadKept = 100
)

// Ahead keeps for some minutes what was read of customers, in memory alone, and reads the next
// ones while somebody looks at one. The zero value is ready, and safe for concurrent use.
type Ahead struct {
	mu      sync.Mutex
	kept    map[pairOf]aheadOf
	working sync.WaitGroup
	busy    bool
	closed  bool
	stop    context.CancelFunc
}

type aheadOf struct {
	holder syncer.Holder
	at     time.Time
}

type reading func(context.Context, pairOf) (syncer.Holder, error)

func (a *Ahead) read(ctx context.Context, p pairOf, now func() time.Time, read reading) (syncer.Holder, error) {
	a.mu.Lock()
	found, ok := a.kept[p]
	a.mu.Unlock()
	if ok && now().Sub(found.at) < aheadFor {
		return found.holder, nil
	}
	return a.again(ctx, p, now, read)
}

// again reads a customer, and keeps what it read.
func (a *Ahead) again(ctx context.Context, p pairOf, now func() time.Time, read reading) (syncer.Holder, error) {
	h, err := read(ctx, p)
	if err != nil {
		return h, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for old, of := range a.kept {
		if now().Sub(of.at) >= aheadFor || len(a.kept) >= aheadKept {
			delete(a.kept, old)
		}
	}
	if a.kept == nil {
		a.kept = map[pairOf]aheadOf{}
	}
	a.kept[p] = aheadOf{h, now()}
	return h, nil
}

// begin reads pairs in the background, unless others are being read.
func (a *Ahead) begin(pairs []pairOf, now func() time.Time, read reading) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy || a.closed || len(pairs) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	a.busy, a.stop = true, stop
	a.working.Go(func() {
		defer func() {
			stop()
			a.mu.Lock()
			a.busy = false
			a.mu.Unlock()
		}()
		_ = connector.Guard(func() error {
			for _, p := range pairs {
				if _, err := a.read(ctx, p, now, read); err != nil && connector.FaultOf(err) != "" {
					return err // the reader is told when it comes to the pair
				}
			}
			return nil
		})
	})
}

// Close ends the running reads.
func (a *Ahead) Close() {
	a.mu.Lock()
	a.closed = true
	if a.stop != nil {
		a.stop()
	}
	a.mu.Unlock()
	a.working.Wait()
}
