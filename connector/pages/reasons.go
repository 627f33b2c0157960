package pages

import (
	"strings"

	"payersync/connector"
)

// matters are the titles of the reasons, in an accountant's words. The full text of the ledger appears with each payer.
var matters = map[connector.Reason]string{
	connector.ReasonRecordUnreadable: "A line of the books cannot be read", connector.ReasonMappingFailed: "A rule of the mapping does not fit",
	connector.ReasonKeyBlank: "The number is missing", connector.ReasonKeyShared: "Two in the books have the same number", connector.ReasonKeyChanged: "The number has changed",
	connector.ReasonNameMissing: "The name is missing", connector.ReasonEmailMalformed: "The e-mail address is mistyped", connector.ReasonTooManyAddresses: "There is more than one address",
	connector.ReasonTwoPrimary: "More than one contact is the first one", connector.ReasonIllegalText: "A text holds characters that cannot be sent",
	connector.ReasonLikeness: "Looks like an existing customer", connector.ReasonRenumbered: "May be a payer of ours under a new number", connector.ReasonEnteredTwice: "Is entered twice in the books",
	connector.ReasonKeyDoubled: "Two customers there have the number", connector.ReasonKeyRemoved: "The customer there has lost its number", connector.ReasonOtherKey: "The customer there has another number",
	connector.ReasonDuplicateCustomer: "Has a second customer there",
	connector.ReasonKeyDisputed:       "The number there belongs to somebody who looks different", connector.ReasonUnlinked: "You said that the customer there is another",
	connector.ReasonAnswerMismatch: "The billing service answered with another customer", connector.ReasonKeyUnsettled: "The number there was seen, and its customer not yet",
	connector.ReasonKeyUnderWay: "A request for the same number is under way", connector.ReasonCustomerMissing: "The customer there is gone",
	connector.ReasonRejected: "The billing service refused the payer", connector.ReasonOutcomeUnknown: "The billing service did not answer", connector.ReasonNoAnswer: "The billing service never answered", connector.ReasonForeignChange: "Somebody else changed the customer there",
	connector.ReasonLinkLost: "The signing link is missing", connector.ReasonLinkRefused: "The billing service refused to make a signing link", connector.ReasonMandateCancelled: "The mandate was cancelled",
	connector.ReasonStatusUnknown: "The mandate has a status that nobody knows", connector.ReasonRecordGone: "Left the books", connector.ReasonLeftWithMandate: "Left the books and can still be debited",
	connector.ReasonForgotten: "May be a payer that was forgotten", connector.ReasonAddressBounced: "Letters to the e-mail address come back",
	connector.ReasonEventNotUnderstood: "A webhook was not understood", connector.ReasonTwoWay: "Two systems would write to the same customer",
	connector.ReasonSubscriptionChanged: "Webhooks were turned off or changed there", connector.ReasonGivenUpChanged: "Was given up, and has changed since",
}

// whoActs names the person able to end a reason.
var whoActs = map[connector.Who]string{
	connector.WhoYou: "You", connector.WhoBooks: "The books", connector.WhoService: "You, in the billing service",
	connector.WhoOperator: "Who runs payersync", connector.WhoNobody: "Nobody: waits by itself",
}

// decided are the best pages to settle a reason.
var decided = map[connector.Reason]leads{
	connector.ReasonLikeness: {"/matches", "Compare and decide"}, connector.ReasonLinkLost: {"/mandates/links", "Fetch the links again"},
	connector.ReasonEventNotUnderstood: {"/webhooks", "Look at the webhooks"}, connector.ReasonSubscriptionChanged: {"/webhooks", "Look at the webhooks"},
}

// cures tell users of the pages how to settle a reason, without the commands in the ledger's text.
var cures = map[connector.Reason]string{
	connector.ReasonKeyChanged:          "Restore the old number in the accounting system, or let the customer take the new one.",
	connector.ReasonLikeness:            "Compare the two, and say whether they are one.",
	connector.ReasonRenumbered:          "Compare both records. If they are one payer, the new record takes the customer and the mandate over, and nobody signs again.",
	connector.ReasonEnteredTwice:        "Remove one of the two in the accounting system, or say here whether they are one payer or two.",
	connector.ReasonDuplicateCustomer:   "Compare the two customers in the billing service, where a colleague may delete one of them. If they are two payers, say so here. If the other customer is the right one, take this one off and link the other.",
	connector.ReasonKeyDisputed:         "Compare the two. If the customer is this payer's, take it over. If it is not, correct the number of one of them, or leave the payer out.",
	connector.ReasonUnlinked:            "Link the customer that is this payer's, or have a new one made.",
	connector.ReasonAnswerMismatch:      "Ask the billing service, and then try again.",
	connector.ReasonNoAnswer:            "Ask the billing service why, and then try again. Until then the customer is not sent again.",
	connector.ReasonRejected:            "Correct the record; it is sent again when it changes. If the reason was not in the record, try again.",
	connector.ReasonForeignChange:       "Look at both sides. Then keep what is there, send what the books have, or leave a part to the billing service.",
	connector.ReasonLinkLost:            "Fetch the link again.",
	connector.ReasonLinkRefused:         "Look at the customer in the billing service, and ask for the link again.",
	connector.ReasonMandateCancelled:    "Agree a new mandate with the payer, and then ask for a signing link.",
	connector.ReasonRecordGone:          "Nothing, if that is meant: leave it as it is. Otherwise put the record back in the accounting system.",
	connector.ReasonLeftWithMandate:     "Cancel the mandate, or put the record back in the accounting system. If both are meant, leave it as it is.",
	connector.ReasonForgotten:           "Say whether it is the payer that was forgotten, or somebody else.",
	connector.ReasonAddressBounced:      "Correct the address in the accounting system: letters go to the new one by themselves. If the address works after all, let reminders go again.",
	connector.ReasonEventNotUnderstood:  "Look at the webhook, and read it again or close it. What it meant is found by the sweep.",
	connector.ReasonSubscriptionChanged: "Find out who changed it, and subscribe again. Until then changes are found by the sweep alone.",
	connector.ReasonGivenUpChanged:      "Take the payer up again if it is to be connected after all, or leave it out as it is now.",
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
