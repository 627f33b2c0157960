package connector

// Reason is a code for why a record needs a person, or why nothing was done for
// it. Codes are a public interface: views, JSON output and exit lines use them.
type Reason string

// The reason codes. Reasons holds each one's sentence and next step.
const (
	ReasonRecordUnreadable   Reason = "record_unreadable"
	ReasonMappingFailed      Reason = "mapping_failed"
	ReasonKeyBlank           Reason = "key_blank"
	ReasonKeyShared          Reason = "key_shared"
	ReasonKeyChanged         Reason = "key_changed"
	ReasonNameMissing        Reason = "name_missing"
	ReasonEmailMalformed     Reason = "email_malformed"
	ReasonTooManyAddresses   Reason = "too_many_addresses"
	ReasonIllegalText        Reason = "illegal_text"
	ReasonLikeness           Reason = "likeness"
	ReasonRenumbered         Reason = "renumbered"
	ReasonEnteredTwice       Reason = "entered_twice"
	ReasonKeyDoubled         Reason = "key_doubled"
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
	ReasonForeignChange      Reason = "foreign_change"
	ReasonLinkLost           Reason = "link_lost"
	ReasonLinkRefused        Reason = "link_refused"
	ReasonMandateCancelled   Reason = "mandate_cancelled"
	ReasonStatusUnknown      Reason = "status_unknown"
	ReasonRecordGone         Reason = "record_gone"
	ReasonLeftWithMandate    Reason = "left_with_mandate"
	ReasonEventNotUnderstood Reason = "event_not_understood"

	ReasonSubscriptionChanged Reason = "subscription_changed"
)

// Explanation is what a person is told about a reason.
type Explanation struct {
	Sentence string // what is the matter
	Next     string // what to do about it
}

// Reasons explains every reason code.
var Reasons = map[Reason]Explanation{
	ReasonRecordUnreadable:   {"The accounting record could not be read.", "Correct the record or the export; the next run takes it up."},
	ReasonMappingFailed:      {"The mapping could not be applied to this record.", "Correct the record, or the named line of the mapping."},
	ReasonKeyBlank:           {"The record has no value for the key that identifies it.", "Fill in the key field in the accounting system."},
	ReasonKeyShared:          {"Two records have the same key, so neither is sent.", "Give each record its own key in the accounting system."},
	ReasonKeyChanged:         {"The key of a linked record has changed.", "Restore the old key in the accounting system, or let the customer come to carry the new one: payersync payers rekey."},
	ReasonNameMissing:        {"The customer has no name.", "Enter the name in the accounting system."},
	ReasonEmailMalformed:     {"An e-mail address is not well formed.", "Correct the e-mail address in the accounting system."},
	ReasonTooManyAddresses:   {"The customer has more than one address.", "Map one address only, or remove the others."},
	ReasonIllegalText:        {"A field holds characters that cannot be sent.", "Retype the field in the accounting system."},
	ReasonLikeness:           {"A customer that looks like this one exists in the billing service without our key.", "Compare the two with payersync payers match, then accept the pair to link them, or reject it to create a new customer."},
	ReasonRenumbered:         {"A payer of ours that looks like this record has left the books, so this may be the same payer under a new number.", "If it is, let it take the customer and its mandate over: payersync payers rekey RECORD --from OLD. If it is not, or the old mandate is to be replaced, payersync payers match reject RECORD CUSTOMER lets a new customer be made."},
	ReasonEnteredTwice:       {"Another record of the same books has the same name and e-mail address, so nothing is sent for this one.", "Remove one of the two in the accounting system. If they are two payers, say so: payersync payers match reject RECORD --record OTHER."},
	ReasonKeyDoubled:         {"Two customers in the billing service carry this key.", "Decide which one is right and remove the key from the other."},
	ReasonKeyRemoved:         {"The linked customer no longer carries our key.", "Put the key back on the customer in the billing service."},
	ReasonOtherKey:           {"The customer found in the billing service carries another record's key.", "Check both customers in the billing service."},
	ReasonKeyDisputed:        {"The customer that carries this record's key looks like somebody else, so it was not taken over.", "Compare the two: payersync payers adopt shows both sides, and takes the customer over if you say that it is the record's. If it is not, correct the key of one of them."},
	ReasonUnlinked:           {"A person said that the customer which this record had is not its own.", "Say who it is: payersync payers match accept links it to another customer, payersync payers match reject with the old customer lets a new one be made."},
	ReasonAnswerMismatch:     {"The billing service answered with another record's customer when this one was to be created.", "Ask the billing service; then use payersync attention retry."},
	ReasonKeyUnsettled:       {"The list of customers shows this record's key, but its customer was not found.", "Nothing: the list is read again. If it stays, look for the key in the billing service."},
	ReasonKeyUnderWay:        {"A request to create a customer with this key was sent for another record, and may still arrive.", "Nothing: this record waits until that request must have arrived, and is then looked at again."},
	ReasonCustomerMissing:    {"The linked customer no longer exists in the billing service.", "Find out who removed it. It is not created again by itself."},
	ReasonRejected:           {"The billing service refused the customer.", "Correct the record; it is sent again when it changes. If the reason was none of the record's, use payersync attention retry --reason rejected."},
	ReasonOutcomeUnknown:     {"It is not known whether the last request took effect.", "Nothing: the next run finds out by itself. If it stays, check the customer in the billing service."},
	ReasonForeignChange:      {"Somebody else changed the customer in the billing service.", "See both sides with payersync payers drift; then take theirs, send ours, or leave the field to the billing service."},
	ReasonLinkLost:           {"A mandate exists, but the answer with its signing link was lost.", "Fetch it again with payersync mandates request, or all that are lost with payersync mandates links --lost."},
	ReasonLinkRefused:        {"The billing service refused to make a signing link.", "Check the customer in the billing service, then use payersync mandates request."},
	ReasonMandateCancelled:   {"The mandate was cancelled by the payer, the bank or a colleague.", "Agree a new mandate with the payer, then use payersync mandates request with a reason."},
	ReasonStatusUnknown:      {"The mandate has a status that is not documented.", "Treat it as not collectable and ask the billing service what it means."},
	ReasonRecordGone:         {"The record was archived, deleted or merged in the accounting system; nothing is removed in the billing service.", "Nothing, when that is meant: payersync attention close with a reason takes it off the list. Otherwise put the record back."},
	ReasonLeftWithMandate:    {"The record is no payer any more, and its mandate, or the signing link for one, still holds.", "Cancel it with payersync mandates cancel, or put the record back. If both are meant: payersync attention close with a reason."},
	ReasonEventNotUnderstood: {"A correctly signed webhook could not be understood; it was kept.", "Look at it with payersync webhooks show; then replay or close it. The sweep repairs what it meant."},

	ReasonSubscriptionChanged: {"The webhook subscription was replaced, disabled or deleted in the billing service.", "Find out who did it; payersync webhooks subscribe subscribes again. Until then the sweep alone finds changes."},
}

// Sentence returns what is the matter, in plain words.
func (r Reason) Sentence() string { return Reasons[r].Sentence }

// RestsOnOthers reports whether what others do can take the reason away: other records
// that have the key, other customers, or the list of them. A payer's own record, customer
// and requests do not count.
func (r Reason) RestsOnOthers() bool {
	switch r {
	case ReasonKeyShared, ReasonKeyUnderWay, ReasonLikeness, ReasonRenumbered, ReasonEnteredTwice, ReasonKeyDoubled, ReasonOtherKey, ReasonKeyDisputed, ReasonKeyUnsettled:
		return true
	}
	return false
}

// Next returns what to do about it.
func (r Reason) Next() string { return Reasons[r].Next }
