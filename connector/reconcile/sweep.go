package reconcile

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"payersync/connector"
	"payersync/state"
)

// Billing is what reconcile asks of the billing service.
type Billing interface {
	// Customer returns one customer whole.
	Customer(ctx context.Context, id string) (connector.RemoteCustomer, error)
	// Customers yields every customer, page by page; only a sequence that ends
	// without an error was complete.
	Customers(ctx context.Context) iter.Seq2[[]connector.RemoteCustomer, error]
}

// Lookup says how far the index of the service's customers is believed.
type Lookup struct {
	MaxAge     time.Duration // how old the two agreeing passes may be; default 24 h
	Quarantine time.Duration // after a restore, how long a request sent before it may still arrive; default 15 min
}

// Reconciler reads the billing service into the ledger.
type Reconciler struct {
	Ledger  *state.Ledger
	Billing Billing
	Lookup  Lookup
}

// maxPasses is how many list passes Settle makes before it gives up.
const maxPasses = 6

// ErrUnsettled means that the list of customers changed with every pass, so that
// nothing can be concluded from a key not being in it.
var ErrUnsettled = errors.New("the billing service's list of customers kept changing; nothing is created before two readings of it agree")

// QuarantineError means that the ledger was restored so recently that a request
// sent before may still arrive; nothing is created until then (fault F64).
type QuarantineError struct{ Until time.Time }

// Error says until when creates wait.
func (e *QuarantineError) Error() string {
	return "the ledger was restored from a backup; nothing is created before " + e.Until.Format(time.RFC3339)
}

// PassResult is what a list pass found.
type PassResult struct {
	ID        int64
	Customers int
	Repaired  int // mandates whose status a webhook should have told before
	Drifted   int // customers of ours that somebody changed in the billing service

	bare  []string // customers of ours that were listed without externalData
	pairs bool     // some customer was listed with it, so that the list does show it
}

// Pass reads the whole list of customers once and observes each of them. Only a
// pass that ends without an error is recorded as complete.
func (r *Reconciler) Pass(ctx context.Context) (PassResult, error) {
	var res PassResult
	var ticket int64
	err := r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		res.ID, ticket, err = tx.BeginPass()
		return err
	})
	if err != nil {
		return res, err
	}
	seen := map[string]bool{} // the list may repeat a customer while it changes
	for page, err := range r.Billing.Customers(ctx) {
		if err != nil {
			return res, err
		}
		if err := r.observePage(ctx, page, ticket, &res); err != nil {
			return res, err
		}
		for _, c := range page {
			seen[c.ID] = true
		}
	}
	res.Customers = len(seen)
	ids := slices.Collect(maps.Keys(seen))
	return res, r.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.FinishPass(res.ID, ids) })
}

func (r *Reconciler) observePage(ctx context.Context, page []connector.RemoteCustomer, ticket int64, res *PassResult) error {
	var repaired, drifted int
	var bare []string
	err := r.Ledger.Do(ctx, func(tx *state.Tx) error {
		for _, c := range page {
			res.pairs = res.pairs || len(c.ExternalData) > 0
			o := OfCustomer(c, ticket, connector.CauseSweep, fmt.Sprint(res.ID))
			o.Pass = res.ID
			seen, err := Observe(tx, o)
			if err != nil {
				return err
			}
			repaired += count(seen.Moved)
			drifted += count(seen.Drifted)
			if seen.Bare {
				bare = append(bare, c.ID)
			}
		}
		return nil
	})
	res.bare = append(res.bare, bare...)
	res.Repaired += repaired
	res.Drifted += drifted
	return err
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Settle makes list passes until the index can be believed: two consecutive
// complete passes that saw the same customers, both begun after since and within
// Lookup.MaxAge. It makes none when that is so already.
func (r *Reconciler) Settle(ctx context.Context, since time.Time) error {
	for made := 0; ; made++ {
		x, err := r.Ledger.Index(ctx, r.Lookup.Quarantine)
		if err != nil {
			return err
		}
		now := r.Ledger.Now()
		if until := x.Restored.Add(r.Lookup.Quarantine); !x.Restored.IsZero() && now.Before(until) {
			return &QuarantineError{until}
		}
		if !x.Settled.IsZero() && x.Settled.After(since) && now.Sub(x.Settled) <= r.Lookup.MaxAge {
			return nil
		}
		if made == maxPasses {
			return ErrUnsettled
		}
		if _, err := r.Pass(ctx); err != nil {
			return err
		}
	}
}

// SweepResult is what a sweep found.
type SweepResult struct {
	Customers int `json:"customers"` // listed by the service
	Repaired  int `json:"repaired"`  // mandate statuses that no webhook had told
	Drifted   int `json:"drifted"`   // customers of ours changed by somebody in the service
	Missing   int `json:"missing"`   // linked customers that no longer exist
	Doubled   int `json:"doubled"`   // payers whose key several customers carry
}

// Sweep reads the whole list once, repairs what webhooks missed, and reports
// missing customers and doubled keys on their payers. A customer is missing only
// when a complete list lacks it and a GET confirms it.
func (r *Reconciler) Sweep(ctx context.Context) (SweepResult, error) {
	pass, err := r.Pass(ctx)
	res := SweepResult{Customers: pass.Customers, Repaired: pass.Repaired, Drifted: pass.Drifted}
	if err != nil {
		return res, err
	}
	missing, err := r.lookCloser(ctx, pass)
	res.Missing = missing
	doubled, holdErr := r.holdDoubled(ctx)
	res.Doubled = doubled
	return res, errors.Join(err, holdErr)
}

// maxFailures is how many customers in a row may fail to be read before the
// service counts as down.
const maxFailures = 5

// lookCloser reads every customer of ours that a complete pass did not list or
// listed without pairs, and every other that carries a key of ours in the index.
// A list without any pairs may leave them out: then it is enough that one customer
// shows some when it is read by itself. One that cannot be read keeps nobody
// else's from being looked for.
func (r *Reconciler) lookCloser(ctx context.Context, pass PassResult) (missing int, err error) {
	others, err := r.Ledger.StaleHolders(ctx, pass.ID)
	if err != nil {
		return 0, err
	}
	unseen, err := r.Ledger.Unseen(ctx, pass.ID)
	if err != nil {
		return 0, err
	}
	ours := len(others)
	bare := ours + len(unseen)
	var failures []error
	failed := 0
	for i, id := range slices.Concat(others, unseen, pass.bare) {
		c, err := r.look(ctx, id, connector.CauseSweep, fmt.Sprint(pass.ID))
		if err != nil {
			failures = append(failures, err)
			if failed++; failed >= maxFailures || ctx.Err() != nil {
				break
			}
			continue
		}
		failed = 0
		missing += count(c == nil && i >= ours)
		if i >= bare && !pass.pairs && c != nil && len(c.ExternalData) > 0 {
			break
		}
	}
	return missing, errors.Join(failures...)
}

// holdDoubled holds the writes of every payer whose key several customers carry;
// which of them is right is for a person to say (fault F49).
func (r *Reconciler) holdDoubled(ctx context.Context) (n int, err error) {
	err = r.Ledger.Do(ctx, func(tx *state.Tx) error {
		doubled, err := tx.DoubledKeys()
		n = len(doubled)
		for _, p := range doubled {
			if err := conflict(tx, p, connector.ReasonKeyDoubled); err != nil {
				return err
			}
		}
		return err
	})
	return n, err
}

// Check reads one customer and observes it. It reports false when the service
// says that the customer does not exist.
func (r *Reconciler) Check(ctx context.Context, billingID string, cause connector.Cause, causeID string) (exists bool, err error) {
	c, err := r.look(ctx, billingID, cause, causeID)
	return c != nil, err
}

// look reads one customer and observes it. The customer is nil when the service
// says that it does not exist.
func (r *Reconciler) look(ctx context.Context, billingID string, cause connector.Cause, causeID string) (*connector.RemoteCustomer, error) {
	ticket, err := r.Ledger.Ticket(ctx)
	if err != nil {
		return nil, err
	}
	c, err := r.Billing.Customer(ctx, billingID)
	switch {
	case connector.FaultOf(err) == connector.FaultNotFound:
		return nil, r.Ledger.Do(ctx, func(tx *state.Tx) error { return gone(tx, billingID, ticket) })
	case err != nil:
		return nil, fmt.Errorf("read customer %s: %w", billingID, err)
	}
	return &c, r.Ledger.Do(ctx, func(tx *state.Tx) error {
		_, err := Observe(tx, OfCustomer(c, ticket, cause, causeID))
		return err
	})
}

// gone notes that a customer does not exist, whether it is ours or not.
func gone(tx *state.Tx, billingID string, ticket int64) error {
	p, err := tx.PayerByBillingID(billingID)
	if errors.Is(err, state.ErrNoPayer) {
		_, err = tx.ForgetRemote(billingID, ticket)
		return err
	}
	if err != nil {
		return err
	}
	return Gone(tx, p, ticket)
}
