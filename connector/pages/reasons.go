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

// cures tell users of the pages how to settle a reason, without the commands in the ledger's text.
var cures = map[connector.Reason]string{
	connector.ReasonKeyChanged:          "Restore the old number in the accounting system, or let the customer take the new one.",
	connector.ReasonLikeness:            "Compare the two, then accept or reject the match.",
	connector.ReasonRenumbered:          "Compare both records. If they are one payer, the new record keeps the customer and the mandate, and the payer does not sign again.",
	connector.ReasonEnteredTwice:        "Remove one of the two in the accounting system, or decide here: one payer or two.",
	connector.ReasonDuplicateCustomer:   "Compare the two customers in the billing service, and delete the wrong one there. If they are two payers, decide so here. If the other customer is the right one, unlink this one and link the other.",
	connector.ReasonKeyDisputed:         "Compare the two. If they are one payer, link the customer. If not, correct the number of one of them, or give the record up.",
	connector.ReasonUnlinked:            "Link the right customer, or create a new one.",
	connector.ReasonAnswerMismatch:      "Ask the billing service for the cause, then try again.",
	connector.ReasonNoAnswer:            "Ask the billing service why, then try again. Until then the record is on hold.",
	connector.ReasonRejected:            "Correct the record: payersync sends it again when it changes. If the record was not the cause, try again.",
	connector.ReasonForeignChange:       "Compare both sides. Then keep their value, send ours, or leave a field to the billing service.",
	connector.ReasonLinkLost:            "Fetch the signing link again.",
	connector.ReasonLinkRefused:         "Check the customer in the billing service, and request the signing link again.",
	connector.ReasonMandateCancelled:    "Agree on a new mandate with the payer, then request a signing link.",
	connector.ReasonRecordGone:          "If that is intended, leave it as it is. Otherwise put the record back in the accounting system.",
	connector.ReasonLeftWithMandate:     "Cancel the mandate, or put the record back in the accounting system. If both are intended, leave it as it is.",
	connector.ReasonForgotten:           "Decide: is it the forgotten payer, or another one?",
	connector.ReasonAddressBounced:      "Correct the address in the accounting system: payersync then sends to the new one. If the old one works, allow letters again.",
	connector.ReasonEventNotUnderstood:  "Look at the delivery. Then read it again or close it. The sweep finds the change in any case.",
	connector.ReasonSubscriptionChanged: "Find out who changed it, and subscribe again. Until then only the sweep finds changes.",
	connector.ReasonGivenUpChanged:      "Link the payer again, or confirm the decision.",
}

// cure returns the next step for a reason.
func cure(r connector.Reason) string {
	if text := cures[r]; text != "" {
		return text
	}
	return r.Next()
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
