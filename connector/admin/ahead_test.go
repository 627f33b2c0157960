package admin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// customersRead is a service whose customers take two seconds to read.
type customersRead struct {
	mu   sync.Mutex
	asks []string
	err  error
}

func (c *customersRead) read(ctx context.Context, p pairOf) (syncer.Holder, error) {
	c.mu.Lock()
	c.asks = append(c.asks, p.customer)
	c.mu.Unlock()
	select {
	case <-time.After(2 * time.Second):
		return syncer.Holder{}, c.err
	case <-ctx.Done():
		return syncer.Holder{}, ctx.Err()
	}
}

// asked returns how often customers were read.
func (c *customersRead) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.asks)
}

func pairs(n int) (out []pairOf) {
	for i := range n {
		out = append(out, pairOf{state.RecordID{Connection: "acme", SourceID: fmt.Sprint("A", i)}, fmt.Sprint("b", i)})
	}
	return out
}

// While a person sees one pair the next are read, each once, and used for five minutes. After that a customer
// is read anew.
func TestTheNextCustomersAreReadWhileSomebodyLooksAtOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var service customersRead
		var a Ahead
		defer a.Close()
		shows := func(when string, p pairOf, took time.Duration, asked int) {
			t.Helper()
			began := time.Now()
			if _, err := a.read(t.Context(), p, time.Now, service.read); err != nil || time.Since(began) != took ||
				service.asked() != asked {
				t.Errorf("%s it took %v and %d reads, %v; want %v and %d", when, time.Since(began), service.asked(), err, took,
					asked)
			}
		}
		all := pairs(6)
		a.begin(all[:5], time.Now, service.read)
		a.begin(all[:5], time.Now, service.read) // of a second reader
		synctest.Wait()
		time.Sleep(11 * time.Second) // five times two, and a little
		for i, p := range all[:5] {
			shows(fmt.Sprint("of pair ", i), p, 0, 5)
		}
		shows("of one that was not among them", all[5], 2*time.Second, 6)
		time.Sleep(aheadFor)
		shows("after five minutes", all[0], 2*time.Second, 7)
	})
}

// Reading ahead is limited to five pairs of the list, and a hundred stored customers.
func TestNoMoreIsReadAheadThanSomebodyLooksAtSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Ahead
		defer a.Close()
		none := func(context.Context, pairOf) (syncer.Holder, error) { return syncer.Holder{}, nil }
		for _, p := range pairs(3 * aheadKept) {
			if _, err := a.read(t.Context(), p, time.Now, none); err != nil {
				t.Fatal(err)
			}
			if len(a.kept) > aheadKept {
				t.Fatalf("%d customers are kept", len(a.kept))
			}
		}
	})
}

// A deleted customer stops no other read, and a failing service gets one request. Neither is stored as a
// read.
func TestWhatCannotBeReadAheadIsAskedForAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		err   error
		asked int
	}{
		"a customer that is gone": {syncer.ErrNoCustomer, 5},
		"a service that is down":  {&connector.RemoteError{Fault: connector.FaultUnavailable}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := customersRead{err: tt.err}
				var a Ahead
				defer a.Close()
				a.begin(pairs(5), time.Now, service.read)
				synctest.Wait()
				time.Sleep(time.Minute)
				if service.asked() != tt.asked {
					t.Errorf("%d of 5 were asked for ahead, want %d", service.asked(), tt.asked)
				}
				if _, err := a.read(t.Context(), pairs(1)[0], time.Now, service.read); !errors.Is(err, tt.err) ||
					service.asked() != tt.asked+1 {
					t.Errorf("%v after %d reads", err, service.asked())
				}
			})
		})
	}
}

// At the end nothing is left that reads, and nothing begins.
func TestNothingIsReadAheadAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var service customersRead
		var a Ahead
		a.begin(pairs(5), time.Now, service.read)
		synctest.Wait()
		began := time.Now()
		a.Close()
		if time.Since(began) != 0 {
			t.Errorf("closing took %v", time.Since(began))
		}
		asked := service.asked()
		a.begin(pairs(5), time.Now, service.read)
		time.Sleep(time.Minute)
		if service.asked() != asked {
			t.Error("customers were read after the end")
		}
	})
}
