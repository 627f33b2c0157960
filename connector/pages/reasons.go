package pages

import "payersync/connector"

// matters are what is the matter, in the words of who keeps the books. What the ledger says in
// full stands beside each payer.
var matters = map[connector.Reason]string{
	connector.ReasonRecordUnreadable: "A line of the books cannot be read", connector.ReasonMappingFailed: "A rule of the mapping does not fit",
	connector.ReasonKeyBlank: "The number is missing", connector.ReasonKeyShared: "Two in the books have the same number", connector.ReasonKeyChanged: "The number has changed",
	connector.ReasonNameMissing: "The name is missing", connector.ReasonEmailMalformed: "The e-mail address is mistyped", connector.ReasonTooManyAddresses: "There is more than one address",
	connector.ReasonTwoPrimary: "More than one contact is the first one", connector.ReasonIllegalText: "A text holds characters that cannot be sent",
	connector.ReasonLikeness: "Looks like an existing customer", connector.ReasonRenumbered: "May be a payer of ours under a new number", connector.ReasonEnteredTwice: "Is entered twice in the books",
	connector.ReasonKeyDoubled: "Two customers there have the number", connector.ReasonKeyRemoved: "The customer there has lost its number", connector.ReasonOtherKey: "The customer there has another number",
	connector.ReasonKeyDisputed: "The number there belongs to somebody who looks different", connector.ReasonUnlinked: "You said that the customer there is another",
	connector.ReasonAnswerMismatch: "The billing service answered with another customer", connector.ReasonKeyUnsettled: "The number there was seen, and its customer not yet",
	connector.ReasonKeyUnderWay: "A request for the same number is under way", connector.ReasonCustomerMissing: "The customer there is gone",
	connector.ReasonRejected: "The billing service refused the payer", connector.ReasonOutcomeUnknown: "The billing service did not answer", connector.ReasonForeignChange: "Somebody else changed the customer there",
	connector.ReasonLinkLost: "The signing link was lost", connector.ReasonLinkRefused: "The billing service refused to make a signing link", connector.ReasonMandateCancelled: "The mandate was cancelled",
	connector.ReasonStatusUnknown: "The mandate has a status that nobody knows", connector.ReasonRecordGone: "Left the books", connector.ReasonLeftWithMandate: "Left the books and can still be debited",
	connector.ReasonForgotten: "May be a payer that was forgotten", connector.ReasonAddressBounced: "Letters to the e-mail address come back",
	connector.ReasonEventNotUnderstood: "A webhook was not understood", connector.ReasonTwoWay: "Two systems would write to the same customer",
	connector.ReasonSubscriptionChanged: "Webhooks were turned off or changed there", connector.ReasonGivenUpChanged: "Was given up, and has changed since",
}

// whoActs are who can end it, in words.
var whoActs = map[connector.Who]string{
	connector.WhoYou: "You", connector.WhoBooks: "The books", connector.WhoService: "The billing service",
	connector.WhoOperator: "Who runs payersync", connector.WhoNobody: "Nobody: waits by itself",
}

// decided are the pages on which a reason is settled best.
var decided = map[connector.Reason]leads{
	connector.ReasonLikeness: {"/matches", "Compare and decide"}, connector.ReasonLinkLost: {"/mandates/links", "Fetch the links again"},
	connector.ReasonEventNotUnderstood: {"/webhooks", "Look at the webhooks"}, connector.ReasonSubscriptionChanged: {"/webhooks", "Look at the webhooks"},
}
