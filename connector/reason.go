package connector

// Reason is a code for why a record needs a person, or why nothing was done for
// it. Codes are a public interface: views, JSON output and exit lines use them.
type Reason string

// The reason codes. Reasons holds each one's sentence, next step and ways out.
const (
	ReasonRecordUnreadable   Reason = "record_unreadable"
	ReasonMappingFailed      Reason = "mapping_failed"
	ReasonKeyBlank           Reason = "key_blank"
	ReasonKeyShared          Reason = "key_shared"
	ReasonKeyChanged         Reason = "key_changed"
	ReasonNameMissing        Reason = "name_missing"
	ReasonEmailMalformed     Reason = "email_malformed"
	ReasonTooManyAddresses   Reason = "too_many_addresses"
	ReasonTwoPrimary         Reason = "two_primary_contacts"
	ReasonIllegalText        Reason = "illegal_text"
	ReasonLikeness           Reason = "likeness"
	ReasonRenumbered         Reason = "renumbered"
	ReasonEnteredTwice       Reason = "entered_twice"
	ReasonKeyDoubled         Reason = "key_doubled"
	ReasonDuplicateCustomer  Reason = "duplicate_customer"
	ReasonKeyRemoved         Reason = "key_removed"
	ReasonOtherKey           Reason = "other_key"
	ReasonKeyDisputed        Reason = "key_disputed"
	ReasonUnlinked           Reason = "unlinked"
	ReasonAnswerMismatch     Reason = "answer_mismatch"
	ReasonKeyUnsettled       Reason = "key_unsettled"
	ReasonKeyUnderWay        Reason = "key_under_way"
	ReasonCustomerMissing    Reason = "customer_missing"
	ReasonRejected           Reason = "rejected"
	ReasonOutcomeUnknown     Reason = "outcome_unknown"
	ReasonNoAnswer           Reason = "no_answer"
	ReasonForeignChange      Reason = "foreign_change"
	ReasonLinkLost           Reason = "link_lost"
	ReasonLinkRefused        Reason = "link_refused"
	ReasonMandateCancelled   Reason = "mandate_cancelled"
	ReasonStatusUnknown      Reason = "status_unknown"
	ReasonRecordGone         Reason = "record_gone"
	ReasonLeftWithMandate    Reason = "left_with_mandate"
	ReasonForgotten          Reason = "forgotten"
	ReasonAddressBounced     Reason = "address_bounced"
	ReasonEventNotUnderstood Reason = "event_not_understood"
	ReasonTwoWay             Reason = "two_way"

	ReasonSubscriptionChanged Reason = "subscription_changed"
	ReasonGivenUpChanged      Reason = "given_up_changed"
)

// Explanation is the text about a reason for a person.
type Explanation struct {
	Sentence string // the problem
	Next     string // the next step, in short
	Ways     []Way  // the acts to end it, the most usual first
}

// Way is an act of a person to end a finding.
type Way struct {
	Act   Act
	Why   bool   // the person must give a reason, for the audit log
	Does  string // in one sentence
	Sends Sends
}

// The values of Way.Why.
const (
	said   = true
	unsaid = false
)

// Act names a person's act. The command line shows it as a command and the pages as a button, so a new one needs a row
// in both.
type Act string

// The acts. Those of the second group take back what one of the first group noted. Those of the third group are no way
// out of a finding.
const (
	ActAccept            Act = "accept"             // link the record to a similar customer
	ActAdopt             Act = "adopt"              // link the customer with the record's key
	ActCancel            Act = "cancel"             // cancel the mandate
	ActClose             Act = "close"              // leave it as it is
	ActCloseDelivery     Act = "close_delivery"     // give a webhook up
	ActCloseSubscription Act = "close_subscription" // leave the webhook subscription as it is
	ActForget            Act = "forget"             // the record is that of a forgotten payer
	ActGiveUp            Act = "give_up"            // leave the record out
	ActIgnore            Act = "ignore"             // leave parts of the customer to the billing service
	ActLink              Act = "link"               // link the record to a named customer
	ActMerge             Act = "merge"              // the record is the same payer as another one, which stays
	ActReject            Act = "reject"             // a customer is not the record's
	ActRekey             Act = "rekey"              // write the record's new key on its customer
	ActReplay            Act = "replay"             // read a webhook again
	ActRequest           Act = "request"            // ask for a signing link
	ActResume            Act = "resume"             // write to the address again
	ActRetry             Act = "retry"              // try again
	ActSendOurs          Act = "send_ours"          // write the record's values again
	ActSubscribe         Act = "subscribe"          // subscribe to webhooks
	ActTakeOver          Act = "take_over"          // link the customer of a removed record
	ActTakeTheirs        Act = "take_theirs"        // keep the customer's values
	ActTellApart         Act = "tell_apart"         // two records are two payers
	ActUnforget          Act = "unforget"           // the record is not that of a forgotten payer
	ActUnlink            Act = "unlink"             // the customer is not the record's

	ActKeep     Act = "keep"      // takes ActUnlink back
	ActSeparate Act = "separate"  // takes ActMerge back
	ActTakeBack Act = "take_back" // takes ActAccept, ActAdopt, ActLink or ActReject back
	ActTakeUp   Act = "take_up"   // takes ActGiveUp back

	ActAllowLetters Act = "allow_letters" // send letters to the payer again
	ActAsk          Act = "ask"           // request a mandate from the payer, whatever the mapping says
	ActAskByRule    Act = "ask_by_rule"   // let the mapping decide on that
	ActAskNot       Act = "ask_not"       // request no mandate from the payer
	ActReinstate    Act = "reinstate"     // bring a cancelled mandate back
	ActStopLetters  Act = "stop_letters"  // send no letters to the payer
	ActTakeField    Act = "take_field"    // write to the payer's field in the accounting system again
	ActUndo         Act = "undo"          // restore the customer to its values before a change
)

// OnOther reports whether the act is about two records.
func (a Act) OnOther() bool { return a == ActMerge || a == ActTakeOver || a == ActTellApart }

// OnCustomer reports whether the act is about a record and a known customer.
func (a Act) OnCustomer() bool { return a == ActAccept || a == ActReject }

// Sends says when a way sends something to the billing service.
type Sends string

// When something is sent.
const (
	SendsNothing  Sends = "nothing"   // the act notes a decision
	SendsNextSync Sends = "next_sync" // the next sync does, if its plan says so, within the limits
	SendsNow      Sends = "now"       // the act itself does
)

// Sentence says when something is sent.
func (s Sends) Sentence() string {
	switch s {
	case SendsNothing:
		return "Nothing is sent."
	case SendsNextSync:
		return "The next run sends it: its plan lists the change, and the limits apply."
	}
	return "It is sent at once."
}

// The ways out shared by several reasons.
var (
	giveUp = Way{ActGiveUp, said,
		"Nothing is sent for this record any more. Its customer and its mandate stay as they are. " +
			"payersync still handles the answer to an earlier request, and reports a finding when the record changes. You can take this back.", SendsNothing}
	giveUpOne = Way{ActGiveUp, said, giveUp.Does + " The next run then decides on the other record.", SendsNextSync}
	cancel    = Way{ActCancel, said, "Cancels the mandate now. A new one needs the payer's signature.", SendsNow}
	retry     = Way{ActRetry, unsaid, "The next run tries the same request again.", SendsNextSync}
	unlink    = Way{ActUnlink, said,
		"The customer does not belong to this record. The next run removes our key from it. You then choose the right customer.", SendsNextSync}
	letBe = Way{ActClose, said,
		"Leaves the mandate as it is. A new finding appears when the mandate, its status or a request for its signing link changes.", SendsNothing}
	request      = Way{ActRequest, unsaid, "Reads the customer, and requests a signing link now.", SendsNow}
	requestAfter = Way{ActRequest, said,
		"Requests a signing link for a new mandate now. The payer must have agreed to it.", SendsNow}
	letStay = Way{ActClose, said,
		"The mandate stays. A new finding appears when the record returns and is removed again, or when another mandate appears.", SendsNothing}
	merge = Way{ActMerge, said,
		"The two records are one payer. This record is excluded, and the other one stands for both.", SendsNextSync}
	accept = Way{ActAccept, said, "The customer belongs to this record. The next run links it.", SendsNextSync}
	reject = Way{ActReject, unsaid, "The customer does not belong to this record. The next run creates a new one.",
		SendsNextSync}
)

// Reasons explains every reason code, and names the acts to end it. All instructions to people come from here.
var Reasons = map[Reason]Explanation{
	ReasonRecordUnreadable: {"payersync could not read this record.",
		"Correct the record or the export. The next run reads it again.", []Way{giveUp}},
	ReasonMappingFailed: {"The mapping does not work for this record.",
		"Correct the record, or the line of the mapping that the finding names.", []Way{giveUp}},
	ReasonKeyBlank: {"The record has no value for the key that identifies it.",
		"Fill in the key field in the accounting system.", []Way{giveUp}},
	ReasonKeyShared: {"Two records have the same key, so neither is sent.",
		"Give each record its own key in the accounting system.", []Way{merge, giveUpOne}},
	ReasonKeyChanged: {"The key of a linked record has changed.",
		"Restore the old key in the accounting system, or give the customer the new one.", []Way{
			{ActRekey, said, "The next run writes the record's new key on the customer.", SendsNextSync}, unlink, giveUp,
		}},
	ReasonNameMissing: {"The customer has no name.", "Enter the name in the accounting system.", []Way{giveUp}},
	ReasonEmailMalformed: {"An e-mail address is not well formed.",
		"Correct the e-mail address in the accounting system.", []Way{giveUp}},
	ReasonTooManyAddresses: {"The customer has more than one address.", "Map one address only, or remove the others.",
		[]Way{giveUp}},
	ReasonTwoPrimary: {"More than one contact is the primary one.",
		"Change the mapping so that one contact is primary, or correct the record.", []Way{giveUp}},
	ReasonIllegalText: {"A field has characters that the billing service does not accept.",
		"Retype the field in the accounting system.", []Way{giveUp}},
	ReasonLikeness: {"The billing service has a customer without our key that may be this payer.",
		"Compare the two. Accept the match to link them, or reject it to create a new customer.",
		[]Way{accept, reject, giveUp}},
	ReasonRenumbered: {"A similar payer was removed from the accounting system. This may be the same payer under a new number.", "Compare both records. If they are one payer, this record keeps the customer and the mandate, and the payer does not sign again. Otherwise reject the match to create a new customer.", []Way{
		{ActTakeOver, said, "The two records are one payer. The next run links the customer, with its mandate, to this record.", SendsNextSync}, reject, giveUp,
	}},
	ReasonEnteredTwice: {"Another record of this connection has the same name and e-mail address, so this one is on hold.",
		"Remove one of the two in the accounting system, or decide here: one payer or two.", []Way{
			{ActTellApart, unsaid, "The records are two payers. The next run creates a separate customer.", SendsNextSync},
			merge,
			giveUp,
		}},
	ReasonKeyDoubled: {"Two customers in the billing service have this key.",
		"Decide which customer is right. Remove the key from the other one in the billing service.", []Way{giveUp}},
	ReasonDuplicateCustomer: {"The billing service has a second customer that may be this payer, so the payer may be charged twice.", "Compare the two customers in the billing service, and delete the wrong one there. If they are two payers, reject the match. If the other customer is the right one, unlink this one and link the other.", []Way{
		{ActReject, unsaid, "The customers are two payers. Both stay as they are, and this finding does not come back.",
			SendsNothing}, unlink,
	}},
	ReasonKeyRemoved: {"The linked customer no longer has our key.",
		"Put the key back on the customer in the billing service.", []Way{unlink, giveUp}},
	ReasonOtherKey: {"The customer found in the billing service has another record's key.",
		"Compare both customers in the billing service, and correct the key there.", []Way{giveUp}},
	ReasonKeyDisputed: {"The customer with this record's key has other details, so it was not linked.",
		"Compare the two. If they are one payer, link the customer. If not, correct the key of one of them.", []Way{
			{ActAdopt, said, "Shows both sides. If you confirm, the next run links the customer.", SendsNextSync}, giveUp,
		}},
	ReasonUnlinked: {"A person unlinked this record from its customer.",
		"Link the right customer, or reject the old one to create a new customer.", []Way{
			reject, {ActLink, said, "Another customer belongs to this record. The next run links it.", SendsNextSync}, giveUp,
		}},
	ReasonAnswerMismatch: {"payersync asked the billing service to create this customer, and it answered with another record's customer.", "Ask the billing service for the cause, then try again.", []Way{retry, giveUp}},
	ReasonKeyUnsettled:   {"The list of customers shows this record's key, but the billing service did not find its customer.", "Nothing: payersync reads the list again. If the finding stays, look for the key in the billing service.", []Way{giveUp}},
	ReasonKeyUnderWay: {"Another record's request to create a customer with this key may still arrive.",
		"Nothing: payersync waits until that request must have arrived, and then decides again.", []Way{giveUp}},
	ReasonCustomerMissing: {"The linked customer no longer exists in the billing service.",
		"Find out who removed it. payersync does not create it again by itself.", []Way{unlink, giveUp}},
	ReasonRejected: {"The billing service refused the customer.",
		"Correct the record: payersync sends it again when it changes. If the record was not the cause, try again.",
		[]Way{retry, giveUp}},
	ReasonOutcomeUnknown: {"The billing service did not answer the last request, so its outcome is unknown.",
		"Nothing: the next runs read the customer, with growing pauses. If the finding stays, check the customer in the billing service.", []Way{retry, giveUp}},
	ReasonNoAnswer: {"The billing service never answered the request to create this customer, and does not have it.",
		"Ask the billing service why, then try again. Until then the record is on hold.", []Way{retry, giveUp}},
	ReasonForeignChange: {"Somebody else changed the customer in the billing service.",
		"Compare both sides. Then keep their value, send ours, or leave the field to the billing service.", []Way{
			{ActTakeTheirs, said, "The customer keeps its value until our value changes.", SendsNothing},
			{ActSendOurs, said, "The next run writes our value again.", SendsNextSync},
			{ActIgnore, said, "payersync does not write this part of the customer any more.", SendsNothing},
			giveUp,
		}},
	ReasonLinkLost: {"The mandate awaits a signature, but payersync has no signing link for it.",
		"Fetch the signing link again, for this payer or for all at once.", []Way{request, letBe}},
	ReasonLinkRefused: {"The billing service refused to make a signing link.",
		"Check the customer in the billing service, then request the signing link again.", []Way{request, retry, letBe}},
	ReasonMandateCancelled: {"The payer, the bank or a colleague cancelled the mandate.",
		"Agree on a new mandate with the payer, then request a signing link.", []Way{requestAfter, letBe}},
	ReasonStatusUnknown: {"The billing service reports a mandate status that its documentation does not list.",
		"Do not collect under this mandate. Ask the billing service for the meaning of the status.", []Way{letBe, cancel}},
	ReasonRecordGone: {"The record was removed from the accounting system. Its customer stays in the billing service.",
		"If that is intended, leave it as it is. Otherwise put the record back in the accounting system.", []Way{letStay}},
	ReasonLeftWithMandate: {"The record is removed or excluded, but its mandate or signing link still works.",
		"Cancel the mandate, or put the record back in the accounting system. If both are intended, leave it as it is.",
		[]Way{
			cancel, letStay,
		}},
	ReasonAddressBounced: {"A letter to the payer's e-mail address came back: the address does not exist, or takes no mail.", "Correct the address in the accounting system: payersync then sends to the new one. If the old one works, allow letters again.", []Way{
		{ActResume, said, "The address works. The next letter goes there again.", SendsNothing},
	}},
	ReasonEventNotUnderstood: {"payersync could not read a delivery with a correct signature, and keeps it in quarantine.",
		"Look at the delivery. Then read it again or close it. The sweep finds the change in any case.", []Way{
			{ActReplay, unsaid, "Reads the delivery again with the current billing.webhook.event_paths, and then its customer.",
				SendsNothing},
			{ActCloseDelivery, said, "Closes the delivery with a note. The sweep finds the change in any case.", SendsNothing},
		}},
	ReasonSubscriptionChanged: {"The webhook subscription was replaced, disabled or deleted in the billing service.",
		"Find out who changed it, and subscribe again. Until then only the sweep finds changes.", []Way{
			{ActSubscribe, unsaid, "Creates the webhook subscription again.", SendsNow},
			{ActCloseSubscription, said,
				"Leaves the subscription as it is. A new finding appears when it changes. Until then only the sweep finds changes.",
				SendsNothing},
		}},
	ReasonTwoWay: {"payersync only links this customer, because the billing service reads this accounting system itself, or the configuration says so.", "Set connections[].two_way: link_only links existing customers only, write also creates and changes customers.", []Way{giveUp}},
	ReasonForgotten: {"The record may belong to a forgotten payer, so payersync stores none of its data and sends nothing.", "Decide whether it is the forgotten payer or another one.", []Way{
		{ActUnforget, said, "It is another payer, or the payer is back. The next run reads the record again.", SendsNextSync},
		{ActForget, said, "It is the forgotten payer. The record is excluded, and payersync stores none of its data.",
			SendsNothing},
	}},
	ReasonGivenUpChanged: {"A person gave this record up, and its data have changed since. payersync still sends nothing for it.", "Take the decision back to link the payer again, or confirm it.", []Way{
		{ActTakeUp, said, "Takes the decision back. The next run treats the record like any other.", SendsNextSync}, giveUp,
	}},
}

// Who is the party able to end a finding.
type Who string

// Who there is.
const (
	WhoYou      Who = "you"      // the person in charge of the payers
	WhoBooks    Who = "books"    // the people who keep the accounting records
	WhoService  Who = "service"  // somebody at the billing service, or in it
	WhoOperator Who = "operator" // the operator of payersync
	WhoNobody   Who = "nobody"   // it ends by itself
)

// Title names the party.
func (w Who) Title() string {
	switch w {
	case WhoYou:
		return "You"
	case WhoBooks:
		return "Your accounting staff"
	case WhoService:
		return "You, in the billing service"
	case WhoOperator:
		return "The operator of payersync"
	case WhoNobody:
		return "Nobody: it resolves by itself"
	}
	return string(w)
}

// acts assigns to every reason the party able to end it.
var acts = map[Reason]Who{
	ReasonRecordUnreadable: WhoBooks, ReasonMappingFailed: WhoOperator, ReasonKeyBlank: WhoBooks,
	ReasonKeyShared: WhoBooks, ReasonKeyChanged: WhoBooks,
	ReasonNameMissing: WhoBooks, ReasonEmailMalformed: WhoBooks, ReasonTooManyAddresses: WhoBooks,
	ReasonTwoPrimary: WhoBooks, ReasonIllegalText: WhoBooks,
	ReasonLikeness: WhoYou, ReasonRenumbered: WhoYou, ReasonEnteredTwice: WhoYou,
	ReasonKeyDoubled: WhoService, ReasonDuplicateCustomer: WhoYou, ReasonKeyRemoved: WhoService,
	ReasonOtherKey: WhoService, ReasonKeyDisputed: WhoYou, ReasonUnlinked: WhoYou,
	ReasonAnswerMismatch: WhoService, ReasonKeyUnsettled: WhoNobody, ReasonKeyUnderWay: WhoNobody,
	ReasonCustomerMissing: WhoService,
	ReasonRejected:        WhoYou, ReasonOutcomeUnknown: WhoNobody, ReasonNoAnswer: WhoYou, ReasonForeignChange: WhoYou,
	ReasonLinkLost: WhoYou, ReasonLinkRefused: WhoYou, ReasonMandateCancelled: WhoYou, ReasonStatusUnknown: WhoService,
	ReasonRecordGone: WhoYou, ReasonLeftWithMandate: WhoYou, ReasonForgotten: WhoYou, ReasonAddressBounced: WhoBooks,
	ReasonEventNotUnderstood: WhoOperator, ReasonTwoWay: WhoOperator, ReasonSubscriptionChanged: WhoOperator,
	ReasonGivenUpChanged: WhoYou,
}

// Who returns the party able to end the reason.
func (r Reason) Who() Who { return acts[r] }

// Sentence describes the problem in plain words.
func (r Reason) Sentence() string { return Reasons[r].Sentence }

// RestsOnOthers reports whether a change elsewhere can remove the reason: other records with the key, other customers,
// or the list of them. A payer's own record, customer and requests do not count.
func (r Reason) RestsOnOthers() bool {
	switch r {
	case ReasonKeyShared, ReasonKeyUnderWay, ReasonLikeness, ReasonRenumbered, ReasonEnteredTwice, ReasonKeyDoubled,
		ReasonOtherKey, ReasonKeyDisputed, ReasonKeyUnsettled:
		return true
	}
	return false
}

// Next returns the next step.
func (r Reason) Next() string { return Reasons[r].Next }

// Ways returns the acts to end the reason.
func (r Reason) Ways() []Way { return Reasons[r].Ways }
