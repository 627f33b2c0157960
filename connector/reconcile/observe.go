// Package reconcile brings the billing service's data on customers and mandates into the ledger. All news, from an
// answer to a create, a webhook's GET or a sweep's list, passes through one function, Observe.
//
//	webhook ─▶ inbox ─▶ Drain ─┐
//	list ─────────────▶ Sweep ─┼─▶ Observe ─▶ mandates, history, links, index
//	create, update, link ──────┘
//
// Observe has three steps: Known reads what the ledger knows of the customer, compare decides without a transaction
// what follows, and Reflect stores it.
//
// Webhooks are hints; only a GET is trusted. A read takes a ticket from the ledger before it starts, and never
// overwrites a read with a newer ticket (connector/RULES.md#tickets). Package syncer sends the requests; package worker
// decides when to drain and sweep.
package reconcile

import (
	"errors"
	"fmt"

	"payersync/connector"
	"payersync/state"
)

// Observation is the result of one read, or one answer, about a customer.
type Observation = state.Observation

// OfCustomer makes an observation of a whole customer.
func OfCustomer(c connector.RemoteCustomer, ticket int64, cause connector.Cause, causeID string) Observation {
	return Observation{CustomerID: c.ID, Customer: &c, Mandate: c.Mandate, Ticket: ticket, Cause: cause, CauseID: causeID}
}

// Seen holds the changes of an observation.
type Seen struct {
	Stale   bool // a later read was, or may have been, applied already; nothing was written
	Ours    bool // the customer is linked to a payer
	Moved   bool // a mandate's status changed
	Drifted bool // something of ours was changed in the billing service

	Otherwise bool // a list shows it otherwise than it is known; nothing was written
	Overtaken bool // it is stale because a list pass has begun since, and is to be read again
}

// Observe writes one observation to the ledger: the index of customers, the payer's link, the mandate with its history,
// and the findings. It writes all news of existing customers; Missing is its counterpart.
func Observe(tx *state.Tx, o Observation) (Seen, error) {
	known, err := tx.Known(o)
	if err != nil {
		return Seen{}, err
	}
	news, seen := compare(known[0])
	return seen, tx.Reflect(known[0], news)
}

// observeAll is Observe for several observations, of one list pass or of single reads with the same ticket. Nearly all
// customers of a list are as the ledger knows them, and are written together, before the others.
func observeAll(tx *state.Tx, observed []Observation) (seen []Seen, err error) {
	known, err := tx.Known(observed...)
	if err != nil {
		return nil, err
	}
	seen = make([]Seen, len(observed))
	var agreed []state.Agreed
	var rest []int
	for i, k := range known {
		if k != nil && k.List != nil {
			if news, _ := compare(k); agrees(k, news) {
				agreed = append(agreed, state.Agreed{Known: k, News: news})
				continue
			}
		}
		rest = append(rest, i)
	}
	if err := tx.SaveAgreed(agreed); err != nil {
		return nil, err
	}
	for _, i := range rest {
		if known[i] == nil {
			seen[i], err = Observe(tx, observed[i])
		} else {
			var news state.Reflection
			news, seen[i] = compare(known[i])
			err = tx.Reflect(known[i], news)
		}
		if err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// readLag is the time after a create's answer during which reads may still miss its customer, because of replica lag.
// This is minutes at most, and the measuring clock may be corrected by minutes meanwhile.
const readLag = state.Arrival

// ErrNotYet means a newly created customer appears nonexistent: a read may lag behind, and a later one decides.
var ErrNotYet = errors.New("the customer was made a moment ago and cannot be read yet")

// notYetIf also marks an error as ErrNotYet if a list may have overtaken the read: it proves no absence.
func notYetIf(err error) error {
	if errors.Is(err, state.ErrOvertaken) {
		return errors.Join(err, ErrNotYet)
	}
	return err
}

// Missing notes the absence of a linked customer after a GET with this ticket, unless a newer read saw it. No
// replacement is ever created automatically (fault F43). It notes nothing and fails with ErrNotYet while the customer
// is new enough for replica lag, or if a list has started since.
func Missing(tx *state.Tx, p state.Payer, ticket int64) error {
	switch young, err := tx.MadeWithin(p, readLag); {
	case err != nil:
		return fmt.Errorf("look how old customer %s is: %w", p.BillingID, err)
	case young:
		return ErrNotYet
	}
	if fresh, err := tx.ForgetRemote(p.BillingID, ticket); err != nil || !fresh {
		return notYetIf(err)
	}
	return tx.Hold(p, "", connector.ReasonCustomerMissing)
}
