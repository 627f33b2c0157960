package pages

import (
	"errors"

	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/state"
)

// decisionProblem explains a decision's error; "" for other errors.
func decisionProblem(err error) (sentence, next string) {
	const look = "Open the payer again."
	for _, why := range []struct {
		err            error
		sentence, next string
	}{
		{syncer.ErrSaidBefore, "This decision was made before. Nothing was changed.", look},
		{syncer.ErrNothingToMove, "The customer already has this number. Nothing was changed.", look},
		{syncer.ErrNotSent, "The record is on hold, so it cannot have the customer. Nothing was changed.",
			"Solve the record's other findings first."},
		{state.ErrInTheBooks, "The other record is still in the accounting system. Nothing was changed.",
			"Archive or delete it there, start a run, then decide again."},
		{state.ErrNotMovable, "The customer cannot move now. Nothing was changed.",
			"Wait for the next run, then decide again."},
		{state.ErrUnlinking, "The next run unlinks the customer. Nothing was changed.",
			"Take that back first, or wait for the next run."},
		{state.ErrMerged, "A person merged one of the two into another record. Nothing was changed.", look},
		{state.ErrNoRecord, "No record has this number. Nothing was changed.", "Look for it in the list of payers."},
		{state.ErrSameRecord, "The two are the same record. Nothing was changed.", look},
		{state.ErrCustomerTaken, "The customer is linked to another payer. Nothing was changed.", "Choose another customer."},
		{state.ErrAccepted, "The next run links the customer to another payer. Nothing was changed.",
			"Choose another customer, or take that back."},
		{state.ErrLinkedAlready, "The payer or the customer is linked already. Nothing was changed.", look},
		{state.ErrUnderWay, "A request for this payer has no answer yet. Nothing was changed.",
			"Try again in a quarter of an hour."},
		{state.ErrNoPairDecision, "This decision no longer applies. Nothing was changed.", look},
		{syncer.ErrNoCustomer, "The billing service has no such customer. Nothing was changed.",
			"Look up its id in the billing service."},
		{syncer.ErrCarriesAnother, "The customer has another payer's number. Nothing was changed.",
			"If that number is wrong, remove it in the billing service."},
		{syncer.ErrNoHolder, "No single unlinked customer has this number now. Nothing was changed.", look},
		{syncer.ErrNothingToCompare, "The record is on hold, so there is nothing to compare. Nothing was changed.", look},
		{syncer.ErrCustomerGone, "The customer no longer exists. Nothing was changed.", look},
		{syncer.ErrNothingDiffers, "The customer has our values again. Nothing was changed.", look},
		{syncer.ErrReadMeanwhile, "The customer changed while you were looking. Nothing was changed.",
			"Compare both sides again, then decide."},
		{admin.ErrMandateHolds, "The payer's mandate is still active, and no finding would report it. Nothing was changed.",
			"Cancel the mandate first."},
	} {
		if errors.Is(err, why.err) {
			return why.sentence, why.next
		}
	}
	return "", ""
}
