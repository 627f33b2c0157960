package reconcile

import (
	"context"
	"fmt"

	"payersync/connector"
)

// looked is the number of linked customers to look for, among the last changed ones and among the longest unchanged
// ones.
const looked = 10

// Evidence shows whether an account of the billing service is the ledger's: the same customers under the same
// ids, with our keys.
type Evidence struct {
	Looked   int    // linked customers to find
	Customer string // the id of one that is there with the key of its payer; "" for none
	Stranger string // the id of one that is there with another key; "" for none
}

// String describes the result, for people.
func (e Evidence) String() string {
	switch {
	case e.Customer != "" && e.Stranger != "":
		return fmt.Sprintf("customer %s is there under its id with our key, and customer %s with another", e.Customer,
			e.Stranger)
	case e.Customer != "":
		return fmt.Sprintf("customer %s is there under its id with our key", e.Customer)
	case e.Looked == 0:
		return "no customer is linked yet by which it could be told"
	}
	return fmt.Sprintf("none of the %d linked customers that were looked for is there under its id with our key", e.Looked)
}

// Proves reports whether all evidence ties the account to the ledger.
func (e Evidence) Proves() bool { return e.Customer != "" && e.Stranger == "" }

// Evidence looks for linked customers at the billing service. An error means the evidence could not be obtained.
func (r *Reconciler) Evidence(ctx context.Context) (Evidence, error) {
	payers, err := r.Ledger.LinkedSample(ctx, looked)
	e := Evidence{Looked: len(payers)}
	for _, p := range payers {
		c, err := r.Billing.Customer(ctx, p.BillingID)
		carried := connector.KeyIn(c.ExternalData, p.Key.Name)
		switch {
		case connector.FaultOf(err) == connector.FaultNotFound:
		case err != nil:
			return Evidence{}, err
		case p.Key.MayBe(carried), p.Moves.Value != "" && p.Moves.MayBe(carried): // a new number may be on its way
			e.Customer = p.BillingID
		case carried.Value != "":
			e.Stranger = p.BillingID
		}
	}
	return e, err
}
