package syncer

import (
	"context"
	"errors"
	"fmt"

	"payersync/connector"
	"payersync/connector/reconcile"
	"payersync/state"
)

// lookBeforeReplay reads the list once when creates wait for an answer. A customer in the list is the answer and saves
// a second request. While the list is unreadable or incomplete, creates are left alone.
func (r *run) lookBeforeReplay(ctx context.Context) error {
	open, err := r.Ledger.OpenCreates(ctx, r.conn.Name)
	if r.looked = open == 0; err != nil || r.looked {
		return err
	}
	if err = r.without(r.proveList(ctx)); err == nil {
		err = r.noteTrusted(ctx)
	}
	r.looked = err == nil && r.noProof == nil
	if connector.FaultOf(err) == connector.FaultUnavailable {
		return nil
	}
	return err
}

// fetch reads one customer, with a ticket taken before.
func (r *run) fetch(ctx context.Context, id string) (connector.RemoteCustomer, int64, error) {
	ticket, err := r.Ledger.Ticket(ctx)
	if err != nil {
		return connector.RemoteCustomer{}, 0, err
	}
	c, err := r.Billing.Customer(ctx, id)
	if err != nil {
		return c, ticket, fmt.Errorf("read customer %s: %w", id, err)
	}
	return c, ticket, nil
}

// missing holds a change if its customer no longer exists. A change of a newly created customer waits.
func (r *run) missing(ctx context.Context, c state.Change, ticket int64) error {
	err := r.Ledger.Do(ctx, func(tx *state.Tx) error {
		if err := reconcile.Missing(tx, c.Payer, ticket); err != nil {
			return err
		}
		if c.Lane == state.LaneMandate { // planned again when the customer is back
			return tx.CloseWith(r.id, c, connector.ChangeVoid, "", "")
		}
		return tx.CloseWith(r.id, c, connector.ChangeHeld, connector.ReasonCustomerMissing, "")
	})
	if errors.Is(err, reconcile.ErrNotYet) {
		return nil // the change stays for a read without a lag
	}
	return err
}

// observe fetches the change's customer and lets reconcile see it. It returns
// nil, with the change closed, when the customer does not exist any more.
func (r *run) observe(ctx context.Context, c state.Change, cause connector.Cause) (*connector.RemoteCustomer, error) {
	fetched, ticket, err := r.fetch(ctx, c.Payer.BillingID)
	if connector.FaultOf(err) == connector.FaultNotFound {
		return nil, r.missing(ctx, c, ticket)
	}
	if err != nil {
		return nil, err
	}
	return &fetched, r.Ledger.Do(ctx, func(tx *state.Tx) error {
		_, err := reconcile.Observe(tx, reconcile.OfCustomer(fetched, ticket, cause, r.cause()))
		return err
	})
}

// verify reads back customers after an answered create (fault F08): the service may have answered from memory. It
// reads a few customers, or fewer than the pages of the list, one by one. Otherwise it reads the list, then the rest
// one by one.
func (r *run) verify(ctx context.Context) error {
	n, err := r.Ledger.UnverifiedCount(ctx, r.conn.Name)
	if err != nil || n == 0 {
		return err
	}
	r.progress("verify", 0, n)
	x, err := r.Ledger.Index(ctx, r.Reconciler.Lookup.Quarantine)
	if err != nil {
		return err
	}
	if n > max(verifySingles, x.Customers/listPage) {
		if _, err := r.Reconciler.Pass(ctx); err != nil {
			return err
		}
	}
	rest, err := r.Ledger.Unverified(ctx, r.conn.Name, n)
	if err != nil {
		return err
	}
	if err := r.readBack(ctx, rest); err != nil {
		return err
	}
	r.progress("verify", n, n)
	return nil
}

// readBack reads the customers of payers one by one. It reports unreadable customers; the next run reads them again.
func (r *run) readBack(ctx context.Context, payers []state.Payer) error {
	failed := 0
	for i, p := range payers {
		r.progress("verify", i, len(payers))
		_, err := r.Reconciler.Check(ctx, p.BillingID, connector.CauseAdopt, r.cause())
		switch {
		case err == nil:
			failed = 0
			continue
		case errors.Is(err, reconcile.ErrNotYet):
		case connector.FaultOf(err) != connector.FaultUnavailable:
			return err
		default:
			if failed++; failed >= maxSilence {
				return err
			}
		}
		if err := r.Ledger.Do(ctx, func(tx *state.Tx) error { return unread(tx, p) }); err != nil {
			return err
		}
	}
	return nil
}

// unread reports an unreadable new customer, unless another process has read it meanwhile.
func unread(tx *state.Tx, p state.Payer) error {
	now, err := tx.PayerByBillingID(p.BillingID)
	if err != nil || now.Seen {
		return err
	}
	tx.Explain(p, state.TopicLink, connector.ReasonOutcomeUnknown,
		"The new customer could not be read back yet. It is looked at again.")
	return nil
}

// trustIndex makes the index proof of absence before n customers count as nonexistent. The last list may be a day
// old, so a second look follows unless this run has listed. This is one more list pass, or a search for each customer
// before its create if a list would take many pages for a few customers.
//
// Without proof, it sets noProof: the run plans no creates, and serves all payers with a customer as usual.
func (r *run) trustIndex(ctx context.Context, n int) error {
	if n == 0 || r.noProof != nil {
		return nil
	}
	r.progress("list", 0, 0)
	began := r.Ledger.Now()
	listed, err := r.Reconciler.Believe(ctx, 0)
	switch {
	case err != nil:
		return r.without(err)
	case listed:
		r.listed = began
	}
	if err := r.noteTrusted(ctx); err != nil {
		return err
	}
	if !r.listed.IsZero() && r.Ledger.Now().Sub(r.listed) <= r.Settings.ProbeAfter {
		return nil
	}
	x, err := r.Ledger.Index(ctx, r.Reconciler.Lookup.Quarantine)
	if err != nil {
		return err
	}
	if r.probe = x.Customers > lookPages*listPage && 2*n <= x.Customers/listPage; r.probe {
		return nil
	}
	return r.without(r.proveList(ctx))
}

// noteTrusted stores the ticket from which the index is trusted.
func (r *run) noteTrusted(ctx context.Context) error {
	x, err := r.Ledger.Index(ctx, r.Reconciler.Lookup.Quarantine)
	if err == nil {
		r.trustedSince.Store(x.Since)
	}
	return err
}

// proveList makes one list pass for this run. It reads incomplete customers of the list again, because earlier reads
// may be as old as an earlier list.
func (r *run) proveList(ctx context.Context) error {
	began := r.Ledger.Now()
	err := r.Reconciler.Prove(ctx, began)
	if err == nil {
		r.listed = began
	}
	return err
}

// without remembers a missing proof; it returns any other error.
func (r *run) without(err error) error {
	var short *reconcile.ShortListError
	if err == nil {
		return nil
	}
	err = fmt.Errorf("look for customers that exist already: %w", err)
	if errors.As(err, &short) || errors.Is(err, reconcile.ErrListChanges) {
		r.noProof = err
		return nil
	}
	return err
}

// trustIndexAfter makes sure the index is proven by lists later than ticket. Workers take turns: the others find the
// proof, or the failure to get one in this run.
func (r *run) trustIndexAfter(ctx context.Context, ticket int64) (proof bool, err error) {
	r.trusting.Lock()
	defer r.trusting.Unlock()
	if r.noProof != nil {
		return false, nil
	}
	if _, err := r.Reconciler.Believe(ctx, ticket); err != nil {
		return false, r.without(err)
	}
	return true, r.noteTrusted(ctx)
}
