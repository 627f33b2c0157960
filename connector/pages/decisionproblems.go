package pages

import (
	"errors"

	"payersync/connector/office"
	"payersync/connector/syncer"
	"payersync/state"
)

// decisionProblem explains a decision's error; "" for other errors.
func decisionProblem(err error) (sentence, next string) {
	const look = "Look at the payer once more."
	for _, why := range []struct {
		err            error
		sentence, next string
	}{
		{syncer.ErrSaidBefore, "It was said before, and holds. Nothing was changed.", look},
		{syncer.ErrNothingToMove, "The customer carries this number already. Nothing was changed.", look},
		{syncer.ErrNotSent, "The record cannot be sent as it is, so it cannot have the customer. Nothing was changed.", "Settle what else is the matter with the record first."},
		{state.ErrInTheBooks, "The other record is still in the books. Nothing was changed.", "Archive or delete it there, let a run read the books, and say it again."},
		{state.ErrNotMovable, "The customer cannot be moved just now. Nothing was changed.", "Let the next run finish, and say it again."},
		{state.ErrUnlinking, "The customer is about to be let go. Nothing was changed.", "Take that back first, or wait for the next run."},
		{state.ErrMerged, "A person said that one of the two is another record. Nothing was changed.", look},
		{state.ErrNoRecord, "No record has this number. Nothing was changed.", "Look for it in the list of payers."},
		{state.ErrSameRecord, "The two are the same record. Nothing was changed.", look},
		{state.ErrCustomerTaken, "The customer is linked to another payer. Nothing was changed.", "Choose another customer."},
		{state.ErrAccepted, "The customer is to be another payer's. Nothing was changed.", "Choose another customer, or take that back."},
		{state.ErrLinkedAlready, "The payer or the customer is linked already. Nothing was changed.", look},
		{state.ErrUnderWay, "A request for this payer is under way. Nothing was changed.", "Try again in a quarter of an hour."},
		{state.ErrNoWord, "There is nothing to take back any more. Nothing was changed.", look},
		{syncer.ErrNoCustomer, "The billing service has no such customer. Nothing was changed.", "Look up its id in the billing service."},
		{syncer.ErrCarriesAnother, "The customer carries another number of ours. Nothing was changed.", "Take that number off it in the billing service, if it is wrong."},
		{syncer.ErrNoHolder, "No single customer that is nobody's carries this number any more. Nothing was changed.", look},
		{syncer.ErrNothingToCompare, "There is nothing to compare: the record is not sent as it is. Nothing was changed.", look},
		{syncer.ErrCustomerGone, "The customer there does not exist any more. Nothing was changed.", look},
		{syncer.ErrNothingDiffers, "Nothing of ours differs any more. Nothing was changed.", look},
		{syncer.ErrReadMeanwhile, "The customer changed while you were looking. Nothing was changed.", "Look at both sides again, and decide then."},
		{office.ErrMandateHolds, "The payer's mandate still holds, and nobody would be told of it any more. Nothing was changed.", "Cancel the mandate first."},
	} {
		if errors.Is(err, why.err) {
			return why.sentence, why.next
		}
	}
	return "", ""
}
