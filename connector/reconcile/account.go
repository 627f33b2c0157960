package reconcile

import (
	"context"
	"fmt"

	"payersync/connector"
)

// enoughLooked is how many linked customers are looked for before it counts that none is there.
const enoughLooked = 10

// Evidence is what tells whether an account of the billing service is the ledger's: the same
// customers under the same ids, with our keys.
type Evidence struct {
	Looked   int    // linked customers that were looked for
	Customer string // the id of one that is there with the key of its payer; "" for none
}

// String says what was found, for people.
func (e Evidence) String() string {
	switch {
	case e.Customer != "":
		return fmt.Sprintf("customer %s is there under its id with our key", e.Customer)
	case e.Looked == 0:
		return "no customer is linked yet by which it could be told"
	}
	return fmt.Sprintf("none of the %d linked customers that were looked for is there under its id with our key", e.Looked)
}

// Evidence looks for linked customers at the billing service until one is found. An error
// says that it could not be told.
func (r *Reconciler) Evidence(ctx context.Context) (Evidence, error) {
	payers, err := r.Ledger.LinkedSample(ctx, enoughLooked)
	if err != nil {
		return Evidence{}, err
	}
	for i, p := range payers {
		c, err := r.Billing.Customer(ctx, p.BillingID)
		switch {
		case connector.FaultOf(err) == connector.FaultNotFound:
			continue
		case err != nil:
			return Evidence{}, err
		case p.Key.MayBe(connector.KeyIn(c.ExternalData, p.Key.Name)):
			return Evidence{Looked: i + 1, Customer: p.BillingID}, nil
		}
	}
	return Evidence{Looked: len(payers)}, nil
}
