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
	Ways     []Way  // the commands to end it, the most usual first
}

// Way is an act of a person to end a finding, with its command. In the command, RECORD, OTHER, OLD, CUSTOMER, ANOTHER
// and DELIVERY stand for ids, and TEXT and PART for the person's input.
type Way struct {
	Act     Act
	Command string
	Does    string // in one sentence
	Sends   Sends
}

// Act names a person's act. The pages have a button for each, so a new one needs a row there.
type Act string

// The acts. Those of the second group take back what one of the first group noted.
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
)

// Sends says when a way sends something to the billing service.
type Sends string

// When something is sent.
const (
	SendsNothing  Sends = "nothing"   // the command notes a word
	SendsNextSync Sends = "next_sync" // the next sync does, if its plan says so, within the limits
	SendsNow      Sends = "now"       // the command itself does
)

// Sentence says when something is sent.
func (s Sends) Sentence() string {
	switch s {
	case SendsNothing:
		return "Nothing is sent."
	case SendsNextSync:
		return "Nothing is sent before the next sync, whose plan shows it and keeps within the limits."
	}
	return "It is sent at once."
}

// The ways out shared by several reasons.
var (
	giveUp = Way{ActGiveUp, "payersync attention give-up RECORD --reason TEXT", "Leaves the record out on your word, with the customer and the mandate that it may have as they are; " +
		"a request that may still arrive stays known, and you are told when the record becomes another. --undo takes it back.", SendsNothing}
	giveUpOne    = Way{ActGiveUp, giveUp.Command, giveUp.Does + " The other record is then decided on by the next sync.", SendsNextSync}
	cancel       = Way{ActCancel, "payersync mandates cancel RECORD --reason TEXT", "Cancels the mandate now. A new one needs the payer's signature.", SendsNow}
	retry        = Way{ActRetry, "payersync attention retry RECORD", "Lets the next sync try the same once more.", SendsNextSync}
	unlink       = Way{ActUnlink, "payersync payers unlink RECORD --reason TEXT", "Says that the customer is not the record's: the next sync takes our key off it, and you then say whose the record is.", SendsNextSync}
	letBe        = Way{ActClose, "payersync attention close RECORD --reason TEXT", "Says that nothing is to be done about the mandate as it is; you are told when it, its status, or a request for its link is another.", SendsNothing}
	request      = Way{ActRequest, "payersync mandates request RECORD", "Asks for a signing link now, after a look at the customer.", SendsNow}
	requestAfter = Way{ActRequest, "payersync mandates request RECORD --reason TEXT", "Asks for a new mandate to sign now, on the payer's new authority.", SendsNow}
	letStay      = Way{ActClose, "payersync attention close RECORD --reason TEXT", "Says that the payer may stay with the mandate that it has; you are told when the record returns and leaves again, or another mandate appears.", SendsNothing}
	merge        = Way{ActMerge, "payersync payers merge RECORD --into OTHER --reason TEXT", "Says that the two records are one payer: this one is left out, and the other stands for both.", SendsNextSync}
	accept       = Way{ActAccept, "payersync payers match accept RECORD CUSTOMER", "Says that the customer is the record's: the next sync adopts it.", SendsNextSync}
	reject       = Way{ActReject, "payersync payers match reject RECORD CUSTOMER", "Says that the customer is not the record's: the next sync makes a new one.", SendsNextSync}
)

// Reasons explains every reason code, and names the commands to end it. All instructions to people come from here.
var Reasons = map[Reason]Explanation{
	ReasonRecordUnreadable: {"The accounting record could not be read.", "Correct the record or the export; the next run takes it up.", []Way{giveUp}},
	ReasonMappingFailed:    {"The mapping could not be applied to this record.", "Correct the record, or the named line of the mapping.", []Way{giveUp}},
	ReasonKeyBlank:         {"The record has no value for the key that identifies it.", "Fill in the key field in the accounting system.", []Way{giveUp}},
	ReasonKeyShared:        {"Two records have the same key, so neither is sent.", "Give each record its own key in the accounting system.", []Way{merge, giveUpOne}},
	ReasonKeyChanged: {"The key of a linked record has changed.", "Restore the old key in the accounting system, or let the customer come to carry the new one: payersync payers rekey.", []Way{
		{ActRekey, "payersync payers rekey RECORD --reason TEXT", "Lets the customer come to carry the record's new key.", SendsNextSync}, unlink, giveUp,
	}},
	ReasonNameMissing:      {"The customer has no name.", "Enter the name in the accounting system.", []Way{giveUp}},
	ReasonEmailMalformed:   {"An e-mail address is not well formed.", "Correct the e-mail address in the accounting system.", []Way{giveUp}},
	ReasonTooManyAddresses: {"The customer has more than one address.", "Map one address only, or remove the others.", []Way{giveUp}},
	ReasonTwoPrimary:       {"More than one contact is the primary one.", "Let the mapping say so of one contact only, or correct the record.", []Way{giveUp}},
	ReasonIllegalText:      {"A field holds characters that cannot be sent.", "Retype the field in the accounting system.", []Way{giveUp}},
	ReasonLikeness:         {"A customer that looks like this one exists in the billing service without our key.", "Compare the two with payersync payers match, then accept the pair to link them, or reject it to create a new customer.", []Way{accept, reject, giveUp}},
	ReasonRenumbered: {"A payer of ours that looks like this record has left the books, so this may be the same payer under a new number.", "If it is, let it take the customer and its mandate over: payersync payers rekey RECORD --from OLD. If it is not, or the old mandate is to be replaced, payersync payers match reject RECORD CUSTOMER lets a new customer be made.", []Way{
		{ActTakeOver, "payersync payers rekey RECORD --from OLD --reason TEXT", "Says that the two are one payer: the record takes over the customer with its mandate.", SendsNextSync}, reject, giveUp,
	}},
	ReasonEnteredTwice: {"Another record of the same books has the same name and e-mail address, so nothing is sent for this one.", "Remove one of the two in the accounting system. If they are two payers, say so: payersync payers match reject RECORD --record OTHER.", []Way{
		{ActTellApart, "payersync payers match reject RECORD --record OTHER", "Says that they are two payers: the next sync makes a customer of its own.", SendsNextSync}, merge, giveUp,
	}},
	ReasonKeyDoubled: {"Two customers in the billing service carry this key.", "Decide which one is right and remove the key from the other.", []Way{giveUp}},
	ReasonDuplicateCustomer: {"Another customer in the billing service looks like this payer, too, so the payer may be charged twice.", "Compare the two in the billing service, where a colleague may delete one of them. If they are two payers, say so: payersync payers match reject RECORD CUSTOMER. If the other customer is the right one, payersync payers unlink RECORD takes this one off, and payersync payers match accept links the other.", []Way{
		{ActReject, "payersync payers match reject RECORD CUSTOMER", "Says that they are two payers: both customers stay as they are, and you are told no more.", SendsNothing}, unlink,
	}},
	ReasonKeyRemoved: {"The linked customer no longer carries our key.", "Put the key back on the customer in the billing service.", []Way{unlink, giveUp}},
	ReasonOtherKey:   {"The customer found in the billing service carries another record's key.", "Check both customers in the billing service.", []Way{giveUp}},
	ReasonKeyDisputed: {"The customer that carries this record's key looks like somebody else, so it was not taken over.", "Compare the two: payersync payers adopt shows both sides, and takes the customer over if you say that it is the record's. If it is not, correct the key of one of them.", []Way{
		{ActAdopt, "payersync payers adopt RECORD --reason TEXT", "Shows both sides, and takes the customer over with the next sync if you say that it is the record's.", SendsNextSync}, giveUp,
	}},
	ReasonUnlinked: {"A person said that the customer which this record had is not its own.", "Say who it is: payersync payers match accept links it to another customer, payersync payers match reject with the old customer lets a new one be made.", []Way{
		reject, {ActLink, "payersync payers match accept RECORD ANOTHER", "Says that another customer is the record's: the next sync adopts it.", SendsNextSync}, giveUp,
	}},
	ReasonAnswerMismatch:  {"The billing service answered with another record's customer when this one was to be created.", "Ask the billing service; then use payersync attention retry.", []Way{retry, giveUp}},
	ReasonKeyUnsettled:    {"The list of customers shows this record's key, but its customer was not found.", "Nothing: the list is read again. If it stays, look for the key in the billing service.", []Way{giveUp}},
	ReasonKeyUnderWay:     {"A request to create a customer with this key was sent for another record, and may still arrive.", "Nothing: this record waits until that request must have arrived, and is then looked at again.", []Way{giveUp}},
	ReasonCustomerMissing: {"The linked customer no longer exists in the billing service.", "Find out who removed it. It is not created again by itself.", []Way{unlink, giveUp}},
	ReasonRejected:        {"The billing service refused the customer.", "Correct the record; it is sent again when it changes. If the reason was none of the record's, use payersync attention retry --reason rejected.", []Way{retry, giveUp}},
	ReasonOutcomeUnknown:  {"It is not known whether the last request took effect.", "Nothing: the next runs find out by themselves, with growing pauses. If it stays, check the customer in the billing service.", []Way{retry, giveUp}},
	ReasonNoAnswer:        {"The billing service never answered when the customer was to be created, and does not have it.", "Ask the billing service why, then use payersync attention retry. Until then the customer is not sent again.", []Way{retry, giveUp}},
	ReasonForeignChange: {"Somebody else changed the customer in the billing service.", "See both sides with payersync payers drift; then take theirs, send ours, or leave the field to the billing service.", []Way{
		{ActTakeTheirs, "payersync payers drift take RECORD --reason TEXT", "Keeps what the customer has, until our value changes.", SendsNothing},
		{ActSendOurs, "payersync payers drift send RECORD --reason TEXT", "Lets the next sync write our value again.", SendsNextSync},
		{ActIgnore, "payersync payers drift ignore RECORD --part PART --reason TEXT", "Leaves a part of the customer to the billing service, whatever the record says.", SendsNothing},
		giveUp,
	}},
	ReasonLinkLost:         {"A mandate waits for a signature; its link was not fetched yet.", "Fetch it with payersync mandates request, or all that are missing with payersync mandates links --lost.", []Way{request, letBe}},
	ReasonLinkRefused:      {"The billing service refused to make a signing link.", "Check the customer in the billing service, then use payersync mandates request.", []Way{request, retry, letBe}},
	ReasonMandateCancelled: {"The mandate was cancelled by the payer, the bank or a colleague.", "Agree a new mandate with the payer, then use payersync mandates request with a reason.", []Way{requestAfter, letBe}},
	ReasonStatusUnknown:    {"The mandate has a status that is not documented.", "Treat it as not collectable and ask the billing service what it means.", []Way{letBe, cancel}},
	ReasonRecordGone:       {"The record was archived, deleted or merged in the accounting system; nothing is removed in the billing service.", "Nothing, when that is meant: payersync attention close with a reason takes it off the list. Otherwise put the record back.", []Way{letStay}},
	ReasonLeftWithMandate: {"The record is no payer any more, and its mandate, or the signing link for one, still holds.", "Cancel it with payersync mandates cancel, or put the record back. If both are meant: payersync attention close with a reason.", []Way{
		cancel, letStay,
	}},
	ReasonAddressBounced: {"A letter to the payer's e-mail address came back: the address does not exist, or takes no mail.", "Correct the address in the books: letters to another one go out by themselves. If it works after all: payersync mandates letters bounced RECORD --undo.", []Way{
		{ActResume, "payersync mandates letters bounced RECORD --undo --reason TEXT", "Says that the address works after all: the next letter goes there again.", SendsNothing},
	}},
	ReasonEventNotUnderstood: {"A correctly signed webhook could not be understood; it was kept.", "Look at it with payersync webhooks show; then replay or close it. The sweep repairs what it meant.", []Way{
		{ActReplay, "payersync webhooks replay DELIVERY", "Reads it anew by the present billing.webhook.event_paths, and looks at its customer.", SendsNothing},
		{ActCloseDelivery, "payersync webhooks close DELIVERY --reason TEXT", "Gives it up with a note; the sweep repairs what it meant.", SendsNothing},
	}},
	ReasonSubscriptionChanged: {"The webhook subscription was replaced, disabled or deleted in the billing service.", "Find out who did it; payersync webhooks subscribe subscribes again. Until then the sweep alone finds changes.", []Way{
		{ActSubscribe, "payersync webhooks subscribe", "Subscribes again.", SendsNow},
		{ActCloseSubscription, "payersync attention close webhooks --reason TEXT", "Says that it is known; you are told when something else becomes of it. Until it is back the sweep alone finds changes.", SendsNothing},
	}},
	ReasonTwoWay: {"The customer is neither created nor changed, because the billing service has a connection to these books of its own, or the configuration says so.", "Say in connections[].two_way what you want: link_only keeps it so, write lets payersync write as well. What exists is linked all the same.", []Way{giveUp}},
	ReasonForgotten: {"The record may be that of a payer that was forgotten, so nothing of it is kept and nothing is sent for it.", "If it is somebody else, or the payer is back: payersync ledger unforget RECORD. If it is the same payer: payersync ledger forget RECORD.", []Way{
		{ActUnforget, "payersync ledger unforget RECORD --reason TEXT", "Says that it is somebody else, or that the payer is back: the next sync reads the record like any other.", SendsNextSync},
		{ActForget, "payersync ledger forget RECORD --reason TEXT --yes", "Says that it is the payer that was forgotten: the record is left out, and nothing of it is kept.", SendsNothing},
	}},
	ReasonGivenUpChanged: {"A person gave this record up, and the mapping makes something else of it by now. Still nothing is sent for it.", "If it is to be connected after all: payersync attention give-up --undo. If not, give it up once more as it is now: payersync attention give-up.", []Way{
		{ActTakeUp, "payersync attention give-up RECORD --undo --reason TEXT", "Takes the word back: the next sync decides on the record like on any other.", SendsNextSync}, giveUp,
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

// acts assigns to every reason the party able to end it.
var acts = map[Reason]Who{
	ReasonRecordUnreadable: WhoBooks, ReasonMappingFailed: WhoOperator, ReasonKeyBlank: WhoBooks, ReasonKeyShared: WhoBooks, ReasonKeyChanged: WhoBooks,
	ReasonNameMissing: WhoBooks, ReasonEmailMalformed: WhoBooks, ReasonTooManyAddresses: WhoBooks, ReasonTwoPrimary: WhoBooks, ReasonIllegalText: WhoBooks,
	ReasonLikeness: WhoYou, ReasonRenumbered: WhoYou, ReasonEnteredTwice: WhoYou,
	ReasonKeyDoubled: WhoService, ReasonDuplicateCustomer: WhoYou, ReasonKeyRemoved: WhoService, ReasonOtherKey: WhoService, ReasonKeyDisputed: WhoYou, ReasonUnlinked: WhoYou,
	ReasonAnswerMismatch: WhoService, ReasonKeyUnsettled: WhoNobody, ReasonKeyUnderWay: WhoNobody, ReasonCustomerMissing: WhoService,
	ReasonRejected: WhoYou, ReasonOutcomeUnknown: WhoNobody, ReasonNoAnswer: WhoYou, ReasonForeignChange: WhoYou,
	ReasonLinkLost: WhoYou, ReasonLinkRefused: WhoYou, ReasonMandateCancelled: WhoYou, ReasonStatusUnknown: WhoService,
	ReasonRecordGone: WhoYou, ReasonLeftWithMandate: WhoYou, ReasonForgotten: WhoYou, ReasonAddressBounced: WhoBooks,
	ReasonEventNotUnderstood: WhoOperator, ReasonTwoWay: WhoOperator, ReasonSubscriptionChanged: WhoOperator, ReasonGivenUpChanged: WhoYou,
}

// Who returns the party able to end the reason.
func (r Reason) Who() Who { return acts[r] }

// Sentence describes the problem in plain words.
func (r Reason) Sentence() string { return Reasons[r].Sentence }

// RestsOnOthers reports whether a change elsewhere can remove the reason: other records with the key, other customers,
// or the list of them. A payer's own record, customer and requests do not count.
func (r Reason) RestsOnOthers() bool {
	switch r {
	case ReasonKeyShared, ReasonKeyUnderWay, ReasonLikeness, ReasonRenumbered, ReasonEnteredTwice, ReasonKeyDoubled, ReasonOtherKey, ReasonKeyDisputed, ReasonKeyUnsettled:
		return true
	}
	return false
}

// Next returns the next step.
func (r Reason) Next() string { return Reasons[r].Next }

// Ways returns the commands to end the reason.
func (r Reason) Ways() []Way { return Reasons[r].Ways }
