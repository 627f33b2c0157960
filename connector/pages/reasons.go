package pages

import (
	"strings"

	"payersync/connector"
)

// matters are the titles of the reasons, in an accountant's words. The full text of the ledger appears with each payer.
var matters = map[connector.Reason]string{
	connector.ReasonRecordUnreadable: "Cannot be read, or its number is there twice", connector.ReasonMappingFailed: "The mapping does not work for this record",
	connector.ReasonKeyBlank: "The number is missing", connector.ReasonKeyShared: "Two records have the same number", connector.ReasonKeyChanged: "The number has changed",
	connector.ReasonNameMissing: "The name is missing", connector.ReasonEmailMalformed: "The e-mail address is mistyped", connector.ReasonTooManyAddresses: "There is more than one address",
	connector.ReasonTwoPrimary: "More than one contact is primary", connector.ReasonIllegalText: "A field has characters that cannot be sent",
	connector.ReasonLikeness: "May be an existing customer", connector.ReasonRenumbered: "May be a removed payer under a new number", connector.ReasonEnteredTwice: "Entered twice in the accounting system",
	connector.ReasonKeyDoubled: "Two customers have the same number", connector.ReasonKeyRemoved: "The customer has lost its number", connector.ReasonOtherKey: "The customer has another number",
	connector.ReasonDuplicateCustomer: "May have a second customer",
	connector.ReasonKeyDisputed:       "The customer with this number has other details", connector.ReasonUnlinked: "Unlinked from its customer",
	connector.ReasonAnswerMismatch: "The billing service answered with another customer", connector.ReasonKeyUnsettled: "The customer with this number was not found",
	connector.ReasonKeyUnderWay: "A request for the same number is under way", connector.ReasonCustomerMissing: "The customer no longer exists",
	connector.ReasonRejected: "The billing service refused the payer", connector.ReasonOutcomeUnknown: "The billing service did not answer", connector.ReasonNoAnswer: "The billing service never answered", connector.ReasonForeignChange: "Someone else changed the customer",
	connector.ReasonLinkLost: "The signing link is missing", connector.ReasonLinkRefused: "The billing service refused to make a signing link", connector.ReasonMandateCancelled: "The mandate was cancelled",
	connector.ReasonStatusUnknown: "The mandate has an unknown status", connector.ReasonRecordGone: "Removed from the accounting system", connector.ReasonLeftWithMandate: "Removed, mandate remains",
	connector.ReasonForgotten: "May be a forgotten payer", connector.ReasonAddressBounced: "Letters to the e-mail address come back",
	connector.ReasonEventNotUnderstood: "A delivery could not be read", connector.ReasonTwoWay: "Two systems would write to the same customer",
	connector.ReasonSubscriptionChanged: "The webhook subscription changed", connector.ReasonGivenUpChanged: "Given up, and changed since",
}

// whoActs names the person able to end a reason.
var whoActs = map[connector.Who]string{
	connector.WhoYou: "You", connector.WhoBooks: "Your accounting staff", connector.WhoService: "You, in the billing service",
	connector.WhoOperator: "The operator of payersync", connector.WhoNobody: "Nobody: it resolves by itself",
}

// decided are the best pages to settle a reason.
var decided = map[connector.Reason]leads{
	connector.ReasonLikeness: {"/matches", "Compare and decide"}, connector.ReasonLinkLost: {"/mandates/links", "Fetch the signing links"},
	connector.ReasonEventNotUnderstood: {"/webhooks", "Look at the webhooks"}, connector.ReasonSubscriptionChanged: {"/webhooks", "Look at the webhooks"},
}

// plainDetail returns the ledger's text about a payer without sentences about commands, because the page has buttons.
func plainDetail(detail string) string {
	var kept []string
	for _, sentence := range strings.SplitAfter(detail, ". ") {
		if !strings.Contains(sentence, "payersync payers ") && !strings.Contains(sentence, "payersync attention ") {
			kept = append(kept, strings.TrimSpace(sentence))
		}
	}
	if len(kept) == 0 {
		return detail
	}
	return strings.Join(kept, " ")
}
