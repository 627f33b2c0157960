package syncer

import (
	"context"
	"fmt"
	"strings"

	"payersync/connector"
	"payersync/connector/match"
	"payersync/state"
)

// likenessOf returns a payer's traits in the ledger's form.
func (r *run) likenessOf(c connector.Customer) state.Likeness {
	t := match.TraitsOf(c)
	return r.Ledger.Hashed(state.Likeness{Name: t.Name, Emails: t.Emails, Phones: t.Phones, Postcodes: t.Postcodes})
}

// learnLikenesses stores the matching features of payers linked by an earlier version, from the values last
// sent to their customers. Their records may be removed. It indexes payers left by an interrupted plan.
func (r *run) learnLikenesses(ctx context.Context) error {
	for {
		payers, err := r.Ledger.Unlearnt(ctx, planPage)
		if err != nil {
			return err
		}
		if len(payers) == 0 {
			return r.Ledger.IndexLikenesses(ctx)
		}
		if err := r.Ledger.Do(ctx, func(tx *state.Tx) error {
			for _, p := range payers {
				if err := tx.SaveLikeness(p.Connection, p.SourceID, r.likenessOf(*p.Applied)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
}

// renumbered describes payers without a record, possibly the same as the record.
func renumbered(left []state.SimilarPayer) string {
	return fmt.Sprintf("%s was removed from the accounting system and had the same name and the same e-mail address, phone or postcode. No second customer is made before you decide.", named(left))
}

// enteredTwice describes records of the same connection, possibly of the same payer.
func enteredTwice(twice []state.SimilarPayer) string {
	return fmt.Sprintf("%s of the same connection has the same name and e-mail address. Nothing is sent for this record before you decide.", named(twice))
}

// named names records with their customers.
func named(twins []state.SimilarPayer) string {
	list := make([]string, len(twins))
	for i, t := range twins {
		if list[i] = t.SourceID; t.BillingID != "" {
			list[i] = fmt.Sprintf("%s (customer %s)", t.SourceID, t.BillingID)
		}
	}
	if len(list) == 1 {
		return "Record " + list[0]
	}
	return "Each of the records " + strings.Join(list, ", ")
}
