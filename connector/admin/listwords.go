package admin

import (
	"cmp"

	"payersync/connector"
	"payersync/connector/health"
	"payersync/connector/readiness"
)

// reasonTitles are the titles of the reasons, in an accountant's words.
var reasonTitles = map[connector.Reason]string{
	connector.ReasonRecordUnreadable:    "Cannot be read, or its number is there twice",
	connector.ReasonMappingFailed:       "The mapping does not work for this record",
	connector.ReasonKeyBlank:            "The number is missing",
	connector.ReasonKeyShared:           "Two records have the same number",
	connector.ReasonKeyChanged:          "The number has changed",
	connector.ReasonNameMissing:         "The name is missing",
	connector.ReasonEmailMalformed:      "The e-mail address is mistyped",
	connector.ReasonTooManyAddresses:    "There is more than one address",
	connector.ReasonTwoPrimary:          "More than one contact is primary",
	connector.ReasonIllegalText:         "A field has characters that cannot be sent",
	connector.ReasonLikeness:            "May be an existing customer",
	connector.ReasonRenumbered:          "May be a removed payer under a new number",
	connector.ReasonEnteredTwice:        "Entered twice in the accounting system",
	connector.ReasonKeyDoubled:          "Two customers have the same number",
	connector.ReasonKeyRemoved:          "The customer has lost its number",
	connector.ReasonOtherKey:            "The customer has another number",
	connector.ReasonDuplicateCustomer:   "May have a second customer",
	connector.ReasonKeyDisputed:         "The customer with this number has other details",
	connector.ReasonUnlinked:            "Unlinked from its customer",
	connector.ReasonAnswerMismatch:      "The billing service answered with another customer",
	connector.ReasonKeyUnsettled:        "The customer with this number was not found",
	connector.ReasonKeyUnderWay:         "A request for the same number is under way",
	connector.ReasonCustomerMissing:     "The customer no longer exists",
	connector.ReasonRejected:            "The billing service refused the payer",
	connector.ReasonOutcomeUnknown:      "The billing service did not answer",
	connector.ReasonNoAnswer:            "The billing service never answered",
	connector.ReasonForeignChange:       "Someone else changed the customer",
	connector.ReasonLinkLost:            "The signing link is missing",
	connector.ReasonLinkRefused:         "The billing service refused to make a signing link",
	connector.ReasonMandateCancelled:    "The mandate was cancelled",
	connector.ReasonStatusUnknown:       "The mandate has an unknown status",
	connector.ReasonRecordGone:          "Removed from the accounting system",
	connector.ReasonLeftWithMandate:     "Removed, mandate remains",
	connector.ReasonForgotten:           "May be a forgotten payer",
	connector.ReasonAddressBounced:      "Letters to the e-mail address come back",
	connector.ReasonEventNotUnderstood:  "A delivery could not be read",
	connector.ReasonTwoWay:              "Two systems would write to the same customer",
	connector.ReasonSubscriptionChanged: "The webhook subscription changed",
	connector.ReasonGivenUpChanged:      "Given up, and changed since",
}

// ReasonTitle returns a reason in a few words.
func ReasonTitle(r connector.Reason) string { return cmp.Or(reasonTitles[r], r.Sentence(), string(r)) }

// What happens if nobody acts, for several lines.
const (
	notDebited  = "They cannot be debited."
	notSent     = "payersync sends nothing for them."
	notApproved = "payersync sends none of these changes."
	byItself    = "payersync goes on by itself."
	noNews      = "Changes in the accounting system are not sent."
	sweepOnly   = "Only the sweep finds changes, and later."
	mayLoseNews = "payersync may miss changes of mandates."
)

// reasonOtherwise says what happens if nobody acts on a finding.
func reasonOtherwise(r connector.Reason) string {
	switch r {
	case connector.ReasonOutcomeUnknown, connector.ReasonKeyUnsettled, connector.ReasonKeyUnderWay:
		return byItself
	case connector.ReasonDuplicateCustomer:
		return "They may be charged twice."
	case connector.ReasonLeftWithMandate:
		return "Their mandates can still be used."
	case connector.ReasonRecordGone:
		return "Their customers stay in the billing service."
	case connector.ReasonForeignChange:
		return "The customers keep the other values."
	case connector.ReasonLinkLost, connector.ReasonLinkRefused:
		return "They cannot sign."
	case connector.ReasonMandateCancelled:
		return notDebited
	case connector.ReasonStatusUnknown:
		return "Nobody knows whether they can be debited."
	case connector.ReasonAddressBounced:
		return "They get no letters."
	case connector.ReasonEventNotUnderstood, connector.ReasonSubscriptionChanged:
		return sweepOnly
	}
	return notSent
}

// taskFacts are the titles of tasks, the next step, and what happens if nobody acts.
var taskFacts = map[Task]struct{ title, next, otherwise string }{
	Task(readiness.StillActive): {"Removed, mandate still active", "Cancel the mandate, or let it stay.",
		"They can still be debited."},
	Task(readiness.StillSigned): {"Removed, mandate may become active", "Cancel the mandate, or let it stay.",
		"They may become debitable."},
	Task(readiness.CanSign): {"Removed, and can still sign", "Cancel the mandate, or let it stay.",
		"They can still sign."},
	Task(readiness.NotSent): {"The signing link was never sent", "Send them their signing links.", "They cannot sign."},
	Task(readiness.Stopped): {"Letters to the payer are stopped", "Call the payer, or allow letters again.",
		"They get no letters."},
	Task(readiness.Bounced): {"The letter came back", "Correct the address in the accounting system.",
		"They get no letters."},
	Task(readiness.LinkLost): {"The signing link is missing", "Fetch the signing links again.", "They cannot sign."},
	Task(readiness.Refused):  {"A request for a mandate was refused", "Look at each payer.", ""},
	Task(readiness.NoEmail): {"No e-mail address", "Enter an e-mail address in the accounting system.",
		"payersync requests no mandate from them."},
	Task(readiness.NotWished): {"No mandate requested yet", "The next run requests it.", ""},
	Task(readiness.NoPayer):   {"Excluded, and needs a decision", "Look at each record.", "Nothing changes."},
	Task(readiness.UnderWay):  {"A mandate is being requested", "Look at each payer.", ""},
	Task(readiness.Sent):      {"Has not signed yet", "Look at each payer.", ""},
	taskCancelled:             {"The mandate was cancelled", "Agree on a new mandate with the payer.", ""},
	taskUncertain:             {"May belong to another customer or record", "Look at each payer.", notSent},
	taskUnknown: {"The mandate has an unknown status", "Ask the billing service for its meaning.",
		"Nobody knows whether they can be debited."},
	taskDebitable: {"Can be debited, and needs a decision", "Look at each payer.", "They stay as they are."},
	taskUnlooked: {"Active when last read, and not read since", "Let the sweep run.",
		"Nobody knows whether they can be debited."},
	taskSigned:       {"Signed, and needs a decision", "Look at each payer.", "They stay as they are."},
	taskNotInService: {"Not in the billing service yet", "The next run decides on them.", ""},
}

// conditionFacts are the kind of a condition's items, who must act, and what happens if nobody does.
var conditionFacts = map[health.Code]struct {
	kind      ItemKind // "" for the condition itself
	who       connector.Who
	otherwise string
}{
	health.LedgerUnwritable:    {"", connector.WhoOperator, "payersync does nothing."},
	health.PutBack:             {"", connector.WhoOperator, "Requests sent since that copy are unknown."},
	health.WayFailed:           {"", connector.WhoOperator, "Nobody gets these alarms."},
	health.SourceDisconnected:  {"", connector.WhoOperator, noNews},
	health.SourceParked:        {"", connector.WhoNobody, byItself},
	health.ConsentBroken:       {"", connector.WhoOperator, noNews},
	health.ConsentLapsing:      {"", connector.WhoOperator, "The consent expires, and payersync cannot read."},
	health.WebhooksSilent:      {"", connector.WhoOperator, sweepOnly},
	health.SubscriptionChanged: {KindFinding, connector.WhoOperator, sweepOnly},
	health.EventsUnclear:       {KindDelivery, connector.WhoOperator, sweepOnly},
	health.RotationUnfinished:  {"", connector.WhoOperator, mayLoseNews},
	health.UpdatesHeld:         {"", connector.WhoOperator, "payersync changes no customer."},
	health.EventTypeUnknown:    {"", connector.WhoOperator, mayLoseNews},
	health.TwoWay: {"", connector.WhoOperator,
		"payersync creates and changes no customer of this connection."},
	health.RunFailed:          {"", connector.WhoOperator, noNews},
	health.RunIncomplete:      {"", connector.WhoNobody, byItself},
	health.JobFailed:          {"", connector.WhoOperator, "The work of this job is not done."},
	health.JobOverdue:         {"", connector.WhoOperator, "The work of this job is not done."},
	health.ConfigWrong:        {"", connector.WhoOperator, "The previous configuration stays in force."},
	health.RestartNeeded:      {"", connector.WhoOperator, "The previous configuration stays in force."},
	health.MappingWrong:       {"", connector.WhoOperator, "The previous mapping stays in force."},
	health.ProfileEdited:      {"", connector.WhoOperator, noNews},
	health.PlanWaits:          {KindPlan, connector.WhoYou, notApproved},
	health.Standstill:         {KindPlan, connector.WhoYou, notApproved},
	health.PlanRejected:       {"", connector.WhoYou, "payersync does not send these changes."},
	health.CreatesWait:        {"", connector.WhoYou, "payersync creates no customer."},
	health.RequestsUnanswered: {"", connector.WhoNobody, byItself},
	health.LettersHeld:        {"", connector.WhoYou, "Payers get no letters."},
	health.LettersWait:        {KindLetter, connector.WhoYou, "payersync does not send these letters."},
	health.LettersUnclear:     {KindLetter, connector.WhoYou, "payersync does not send them again."},
	health.WritebackWaits:     {KindWriteback, connector.WhoYou, "The accounting system shows the old status."},
	health.WritebackStuck:     {KindWriteback, connector.WhoYou, "The accounting system shows the old status."},
}
