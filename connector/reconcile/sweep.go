package reconcile

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"payersync/connector"
	"payersync/state"
)

// Billing is reconcile's interface to the billing service.
type Billing interface {
	// Customer returns one customer whole.
	Customer(ctx context.Context, id string) (connector.RemoteCustomer, error)
	// Customers yields every customer, page by page. Only a sequence without an error is complete.
	Customers(ctx context.Context) iter.Seq2[[]connector.RemoteCustomer, error]
}

// Lookup says how far the index of the service's customers is believed.
type Lookup struct {
	MaxAge     time.Duration // how old the two agreeing passes may be; default 24 h
	Quarantine time.Duration // after a restore, how long a request sent before it may still arrive; default 15 min
	// how many of so many linked customers a list may lack before nobody is taken for deleted; nil for any number
	MaxMissing func(linked int) int
}

// Reconciler reads the billing service into the ledger.
type Reconciler struct {
	Ledger  *state.Ledger
	Billing Billing
	Lookup  Lookup

	// Reflected receives, for each customer reflected by Drain, the wait of its first delivery; nil for none.
	Reflected func(waited time.Duration)
}

// PassResult is the result of a list pass.
type PassResult struct {
	Customers int
	Repaired  int // mandates with a status missed by webhooks
	Drifted   int // customers of ours changed by others in the billing service
	Doubled   int // payers with a key on several customers

	list   *state.Listing
	pairs  bool  // some customer was listed with externalData, so the list shows it
	unread error // customers of ours listed with unexpected values that could not be read
}

// Pass reads the whole list of customers once and observes each of them. Only a pass without an error is recorded as
// complete, and it is no proof before its examination: see Prove.
func (r *Reconciler) Pass(ctx context.Context) (PassResult, error) {
	var res PassResult
	err := r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		res.list, err = tx.BeginPass()
		return err
	})
	if err != nil {
		return res, err
	}
	look := r.looker(res, 0)
	for page, err := range inBlocks(r.Billing.Customers(ctx)) {
		if err != nil {
			return res, err
		}
		otherwise, err := r.observePage(ctx, page, &res)
		if err != nil {
			return res, err
		}
		for _, id := range otherwise {
			if _, _, err := look.at(ctx, id); err != nil {
				return res, err
			}
		}
	}
	res.Customers, res.unread = res.list.Len(), look.failed()
	res.Repaired += look.repaired
	res.Drifted += look.drifted
	if err := r.Ledger.Compare(ctx, res.list); err != nil {
		return res, err
	}
	return res, r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		if err := tx.FinishPass(res.list); err != nil {
			return err
		}
		res.Doubled, err = holdDoubled(tx)
		return err
	})
}

// observePage observes the customers of a page. It returns our customers with other values than in the ledger: the list
// may be old, so only a read of the customer decides.
func (r *Reconciler) observePage(ctx context.Context, page []connector.RemoteCustomer,
	res *PassResult) (otherwise []string, err error) {
	shown := listed(res.list, page)
	var all []Seen
	err = r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		all, err = observeAll(tx, shown)
		return err
	})
	for i, seen := range all {
		res.Repaired += count(seen.Moved)
		if seen.Otherwise {
			otherwise = append(otherwise, shown[i].CustomerID)
		}
	}
	res.pairs = res.pairs || slices.ContainsFunc(page,
		func(c connector.RemoteCustomer) bool { return len(c.ExternalData) > 0 })
	return otherwise, err
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// SweepResult is the result of a sweep.
type SweepResult struct {
	Customers int `json:"customers"` // listed by the service
	Repaired  int `json:"repaired"`  // mandate statuses missed by webhooks
	Drifted   int `json:"drifted"`   // customers of ours changed by somebody in the service
	Missing   int `json:"missing"`   // deleted linked customers
	Unlisted  int `json:"unlisted"`  // existing unlisted customers; counted up to a few
	Doubled   int `json:"doubled"`   // payers with a key on several customers
}

// Sweep reads the whole list once, repairs what webhooks missed, and reports
// missing customers and doubled keys on their payers. A customer is missing only
// when a complete list lacks it and a GET confirms it.
func (r *Reconciler) Sweep(ctx context.Context) (SweepResult, error) {
	pass, err := r.Pass(ctx)
	res := SweepResult{Customers: pass.Customers, Repaired: pass.Repaired, Drifted: pass.Drifted, Doubled: pass.Doubled}
	if err != nil {
		return res, err
	}
	found, err := r.examine(ctx, pass, r.Ledger.Now().Add(-r.Lookup.MaxAge))
	res.Missing, res.Unlisted = found.missing, found.exist
	return res, errors.Join(err, pass.unread)
}

// holdDoubled holds the writes of every payer with a key on several customers; a person has to choose the right
// customer (fault F49). It does not count payers given up by a person.
func holdDoubled(tx *state.Tx) (n int, err error) {
	doubled, err := tx.DoubledKeys()
	for _, p := range doubled {
		if err := tx.Hold(p, connector.LinkConflict, connector.ReasonKeyDoubled); err != nil {
			return 0, err
		}
		givenUp, err := tx.IsGivenUp(p)
		if err != nil {
			return 0, err
		}
		n += count(!givenUp)
	}
	return n, err
}

// Check reads one customer and observes it. It reports false if the service reports it as nonexistent.
func (r *Reconciler) Check(ctx context.Context, billingID string, cause connector.Cause, causeID string) (exists bool,
	err error) {
	c, _, err := r.read(ctx, billingID, cause, causeID)
	return c != nil, err
}

// maxLooks is how often a customer is read when a list pass begins beside each of the reads.
const maxLooks = 3

// read reads one customer and observes it, again if a list pass started meanwhile. The customer is nil if the service
// reports it as nonexistent. The error is ErrNotYet if the customer is too new to trust this.
func (r *Reconciler) read(ctx context.Context, billingID string, cause connector.Cause,
	causeID string) (c *connector.RemoteCustomer, seen Seen, err error) {
	for range maxLooks {
		if c, seen, err = r.lookOnce(ctx, billingID, cause, causeID); !seen.Overtaken && !errors.Is(err, state.ErrOvertaken) {
			break
		}
	}
	return c, seen, err
}

func (r *Reconciler) lookOnce(ctx context.Context, billingID string, cause connector.Cause,
	causeID string) (*connector.RemoteCustomer, Seen, error) {
	ticket, err := r.Ledger.Ticket(ctx)
	if err != nil {
		return nil, Seen{}, err
	}
	c, err := r.Billing.Customer(ctx, billingID)
	switch {
	case connector.FaultOf(err) == connector.FaultNotFound:
		return nil, Seen{}, r.Ledger.Do(ctx, func(tx *state.Tx) error { return noteMissing(tx, billingID, ticket) })
	case err != nil:
		return nil, Seen{}, fmt.Errorf("read customer %s: %w", billingID, err)
	}
	var seen Seen
	err = r.Ledger.Do(ctx, func(tx *state.Tx) (err error) {
		seen, err = Observe(tx, OfCustomer(c, ticket, cause, causeID))
		return err
	})
	return &c, seen, err
}

// noteMissing notes the absence of a customer, ours or not.
func noteMissing(tx *state.Tx, billingID string, ticket int64) error {
	p, err := tx.PayerByBillingID(billingID)
	if errors.Is(err, state.ErrNoPayer) {
		_, err = tx.ForgetRemote(billingID, ticket)
		return notYetIf(err)
	}
	if err != nil {
		return err
	}
	return Missing(tx, p, ticket)
}

// Read reads one customer, observes it, and returns it; nil if the service reports it as nonexistent. It fails with
// ErrNotYet if the customer is too new to trust this.
func (r *Reconciler) Read(ctx context.Context, billingID string, cause connector.Cause,
	causeID string) (*connector.RemoteCustomer, error) {
	c, _, err := r.read(ctx, billingID, cause, causeID)
	return c, err
}
