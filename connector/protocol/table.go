package protocol

import "payersync/connector"

// customers decides the next step for a payer's customer. The first line that fits counts.
var customers = []line{
	// A create of ours is open. No other event ends it.
	{"create before a restore", creating | nobody | createOld, linked | createOver, Wait, connector.ReasonOutcomeUnknown, 0},
	{"create outlived", creating | nobody | createOver, linked, ReadList, connector.ReasonOutcomeUnknown, 0},
	{"create left behind", creating | nobody, linked | wanted, Wait, connector.ReasonOutcomeUnknown, 0},
	{"create contested", creating | nobody | rival, linked, Wait, connector.ReasonKeyShared, 0},
	{"create too late", creating | nobody | elsewhere, linked, Wait, connector.ReasonOtherKey, 0},
	{"create beside another", creating | nobody | underWay, linked, Wait, connector.ReasonKeyUnderWay, 0},
	{"create at rest", creating | nobody | createRests, linked, Wait, connector.ReasonOutcomeUnknown, 0},
	{"create unanswered", creating | nobody | wanted, linked | createOld | createOver, Replay, connector.ReasonOutcomeUnknown, list},
	{"answer not confirmed", creating | free | readOtherwise, linked, ReadList, connector.ReasonKeyUnsettled, 0},
	{"answer found", creating | free, linked, Adopt, "", look},

	// A person decided that the customer is not the record's, in whatever state the record is.
	{"unlink, customer unread", linked | unlinking | unread, 0, ReadCustomer, "", 0},
	{"unlink, customer young", linked | unlinking | young, 0, ReadCustomer, connector.ReasonOutcomeUnknown, 0},
	{"unlink, create outlived", linked | unlinking | sentBefore | sentOver | creating, 0, ReadList, connector.ReasonOutcomeUnknown, 0},
	{"unlink, request outlived", linked | unlinking | sentBefore | sentOver, 0, ReadCustomer, connector.ReasonOutcomeUnknown, 0},
	{"unlink, request awaited", linked | unlinking | sentBefore, 0, Wait, connector.ReasonOutcomeUnknown, 0},
	{"unlink", linked | unlinking, 0, Unlink, "", approval | look},

	// The record.
	{"record left, mandate lives", left | linked | lives, missing | mayStay, Tell, connector.ReasonLeftWithMandate, 0},
	{"record gone, customer left", gone | linked, mayStay, Tell, connector.ReasonRecordGone, 0},
	{"excluded, and changed since", excluded | anew, 0, Tell, connector.ReasonGivenUpChanged, 0},
	{"record excluded", excluded, 0, Nothing, "", 0},
	{"record shown no more", notShown, 0, Nothing, "", 0},
	{"record gone", gone, 0, Nothing, "", 0},
	{"record unfit", unfit, 0, Tell, "", 0},
	{"key changed", rekeyed, 0, Tell, connector.ReasonKeyChanged, 0},
	{"key shared", rival, 0, Tell, connector.ReasonKeyShared, 0},

	// The payer is linked.
	{"customer unread", linked | unread, 0, ReadCustomer, "", 0},
	{"customer young", linked | young, 0, ReadCustomer, connector.ReasonOutcomeUnknown, 0},
	{"customer missing", linked | missing, 0, Tell, connector.ReasonCustomerMissing, 0},
	{"key doubled", several, 0, Tell, connector.ReasonKeyDoubled, 0},
	{"key replaced", linked | otherKey, 0, Tell, connector.ReasonOtherKey, 0},
	{"key removed", linked | noKey, 0, Tell, connector.ReasonKeyRemoved, 0},
	{"older update outlived", linked | holds | older | olderOver, 0, ReadCustomer, "", 0},
	{"older update awaited", linked | holds | older, olderOver, Later, "", 0},
	{"other create outlived", linked | holds | creating | createOver, older, ReadList, "", 0},
	{"other create awaited", linked | holds | creating, older | createOver, Later, "", 0},
	{"in step", linked | holds, older | creating, Nothing, "", 0},
	{"update refused", linked | refused, holds, Tell, "", 0},
	{"older update arrived", linked | holdsOlder, holds, Update, "", approval | look},
	{"update overwritten", linked | shownOtherwise, holds, Tell, connector.ReasonForeignChange, 0},
	{"update", linked, holds | confirmed, Update, "", approval | look},
	{"changed by others", linked | confirmed, holds, Tell, connector.ReasonForeignChange, 0},

	// The payer is not linked, and no create of it is open.
	{"other's create outlived", underWay | underWayOver, linked, ReadList, connector.ReasonKeyUnderWay, 0},
	{"key under way", underWay, linked, Wait, connector.ReasonKeyUnderWay, 0},
	{"key another's", elsewhere, linked, Tell, connector.ReasonOtherKey, 0},
	{"create refused", refused | nobody, linked, Tell, "", 0},
	{"create given up", worn | nobody, linked, Tell, connector.ReasonNoAnswer, 0},
	{"restore in doubt", doubt, linked | doubtOver, Wait, "", 0},
	{"index not believed", 0, linked | believed, ReadList, "", 0},
	{"holder not confirmed", free | readOtherwise, linked, ReadList, connector.ReasonKeyUnsettled, 0},
	{"key disputed", free | disputed, linked, Tell, connector.ReasonKeyDisputed, 0},
	{"key found", free, linked, Adopt, "", approval | list | look},
	{"match", alike, linked, Tell, connector.ReasonLikeness, 0},
	{"renumbered", alikeLeft, linked, Tell, connector.ReasonRenumbered, 0},
	{"entered twice", alikeTwice, linked, Tell, connector.ReasonEnteredTwice, 0},
	{"create", wanted | nobody | believed, linked | creating | rival | underWay | elsewhere | several | doubt, Create, "", approval | list},
}

// mandates decides the next step for the mandate of a payer's customer.
var mandates = []line{
	{"no customer", 0, linked, Nothing, "", 0},
	{"customer let go", unlinking, 0, Nothing, "", 0},
	{"let be", letBe, asked | asking, Nothing, "", 0},
	{"status not documented", statusUnknown, asked, Tell, connector.ReasonStatusUnknown, 0},
	{"cancelled", cancelled, asked | left, Tell, connector.ReasonMandateCancelled, 0},
	{"signed", signed, 0, Nothing, "", 0},
	{"link kept", unsigned | hasLink, asked, Nothing, "", 0},
	{"not wished for", 0, wished | asked, Nothing, "", 0},
	{"asked, customer unread", asked | unread, 0, ReadCustomer, "", 0},
	{"customer first", 0, inOrder, Nothing, "", 0},
	{"request outlived", asking | askOver, 0, ReadCustomer, connector.ReasonOutcomeUnknown, 0},
	{"request awaited", asking, askOver, Wait, connector.ReasonOutcomeUnknown, 0},
	{"a person asks", asked, asking, AskLink, "", look},
	{"link lost, same mandate", unsigned | same, asking | hasLink | askRefused | askRests, AskLink, "", approval | look},
	{"request refused", askRefused, 0, Tell, connector.ReasonLinkRefused, 0},
	{"link lost, request at rest", unsigned | same | askRests, hasLink, Wait, connector.ReasonOutcomeUnknown, 0},
	{"link lost", unsigned, hasLink, Tell, connector.ReasonLinkLost, 0},
	{"request at rest", askRests, 0, Wait, connector.ReasonOutcomeUnknown, 0},
	{"ask", wished | inOrder, unsigned | cancelled | signed | statusUnknown | asking, AskLink, "", approval | look},
}
