package protocol

import (
	"strings"

	"payersync/connector"
)

// conditions is the set of true statements about a payer.
type conditions uint64

// The statements, in the order of printing.
const (
	linked conditions = 1 << iota
	unread
	left
	gone
	excluded
	anew
	notShown
	unfit
	rekeyed
	wanted
	rival

	creating
	createOver
	createOld
	createRests

	nobody
	free
	elsewhere
	several
	underWay
	underWayOver

	doubt
	doubtOver
	believed
	readOtherwise
	disputed
	alike
	alikeLeft
	alikeTwice
	refused
	worn

	young
	missing
	otherKey
	noKey

	holds
	holdsOlder
	older
	olderOver
	confirmed
	shownOtherwise

	lives
	mayStay

	unlinking
	sentBefore
	sentOver

	ofMandate // the mandate's lane follows
)

// The statements of the mandate's lane.
const (
	statusUnknown = ofMandate << iota
	cancelled
	signed
	unsigned
	hasLink
	wished
	asked
	letBe
	inOrder
	asking
	askOver
	same
	askRefused
	askRests
)

// words puts each statement into words: as it holds, and as it does not.
var words = []struct {
	set      conditions
	yes, not string
}{
	{linked, "linked", "not linked"},
	{unread, "no read of its customer since the last answer or restore", "its customer was read"},
	{left, "the record is excluded, gone or no longer shown", "the record is present and not excluded"},
	{gone, "the record is gone", "the record is there"},
	{excluded, "the record is excluded", "the record is not excluded"},
	{anew, "a person gave the record up, and it has changed since", "no person gave it up, or it is unchanged since"},
	{notShown, "the record is no longer shown", "the record is shown"},
	{unfit, "the record is unfit", "the record is fit"},
	{rekeyed, "the record now has another key", "the record has the same key"},
	{wanted, "the record is included with this key", "the record is no longer included with this key"},
	{rival, "another record claims the key", "no other record claims the key"},
	{creating, "an open create of this payer", "no open create of this payer"},
	{createOver, "its time is over", "it may still arrive"},
	{createOld, "it was sent before a restore still in doubt", "it was sent after any restore"},
	{createRests, "it may not be sent again yet", "it may be sent again"},
	{nobody, "no customer holds the key", "a customer holds the key"},
	{free, "one unlinked holder", "no single unlinked holder"},
	{elsewhere, "the holder, or a customer once linked under the key, belongs to another payer", "the key belongs to no other payer"},
	{several, "several holders", "not several holders"},
	{underWay, "an open create of another payer with the key", "no open create of another payer"},
	{underWayOver, "its time is over", "it may still arrive"},
	{doubt, "requests from before a restore are in doubt", "nothing from before a restore is in doubt"},
	{doubtOver, "their time is over", "they may still arrive"},
	{believed, "the index is believed", "the index is not believed"},
	{readOtherwise, "a read just now shows the holder without the key", "the holder carries the key"},
	{disputed, "a read just now shows that the holder looks like another payer, and no person confirmed it", "there is no evidence against the holder, or a person confirmed it"},
	{alike, "customers without a key look like the record, and no person allowed a new customer", "no customer looks like it, or a person allowed a new customer"},
	{alikeLeft, "the record looks like a payer of ours that left the books, and no person said that they are two", "no payer that left the books looks like it"},
	{alikeTwice, "another record of the same books looks like it, and no person said that they are two", "no other record of the same books looks like it"},
	{refused, "exactly these values were refused, and no person asked to try again", "these values were not refused"},
	{worn, "too many tries without a result, and no person asked to try again", "not too many tries"},
	{young, "the customer is too new for a read to show it", "a read showed the customer"},
	{missing, "the customer does not exist", "the customer exists"},
	{otherKey, "the customer carries another key", "it carries no other key"},
	{noKey, "the customer carries no key", "it carries a key"},
	{holds, "the customer holds the wanted values", "the customer does not hold the wanted values"},
	{holdsOlder, "it holds the values of another update of ours", "it holds no values of another update"},
	{older, "an open update of ours with other values, or an answered one that reads may still lag behind, or a restore in doubt", "no other update can arrive"},
	{olderOver, "their time is over", "they may still arrive"},
	{confirmed, "the wanted values were confirmed before, and no person asked to send them again", "the wanted values were never confirmed, or a person asked to send them again"},
	{shownOtherwise, "a create or update with them was answered, a later read shows other values, or the old ones too often, and no person asked to send them again", "no answered values were overwritten"},
	{lives, "its mandate waits for a signature or is live", "it has no mandate, or a cancelled one"},
	{mayStay, "a person decided that this may stay", "no person decided that this may stay"},
	{unlinking, "a person said that the customer is not the record's", "no person said that the customer is not the record's"},
	{sentBefore, "a request of the payer without an answer, or a restore in doubt", "no request of the payer may arrive"},
	{sentOver, "the time of all requests is over", "one of them may still arrive"},
	{statusUnknown, "the status is not documented", "the status is documented"},
	{cancelled, "the newest mandate is cancelled", "it is not cancelled"},
	{signed, "it is signed", "it is not signed"},
	{unsigned, "a mandate waits for its signature", "no mandate was ever seen"},
	{hasLink, "its link is stored", "its link was never seen"},
	{wished, "the record wants a mandate", "the record wants no mandate"},
	{asked, "a person has asked since", "no person has asked since"},
	{letBe, "a person closed it in its present state", "no person closed it in its present state"},
	{inOrder, "the customer is linked, read, the only one with its key, and belongs to no other payer", "the customer is not in order"},
	{asking, "an open request for a link, or a restore in doubt", "no open request for a link"},
	{askOver, "their time is over", "they may still arrive"},
	{same, "asking again gives the same mandate", "asking again may make another mandate"},
	{askRefused, "a request was refused, and no person asked to try again", "no request was refused"},
	{askRests, "a recent request got no answer, and its pause is not over", "no pause is under way"},
}

// when puts the conditions of a line into words.
// Only tests call it: they print README.md.
func (l line) when() string {
	var parts []string
	for _, w := range words {
		switch {
		case l.all&w.set != 0:
			parts = append(parts, w.yes)
		case l.none&w.set != 0:
			parts = append(parts, w.not)
		}
	}
	if parts == nil {
		return "anything else"
	}
	return strings.Join(parts, "; ")
}

// when returns s when it holds, and nothing otherwise.
func (s conditions) when(holds bool) conditions {
	if holds {
		return s
	}
	return 0
}

// conditions returns every statement that is true by the facts.
func (f *Facts) conditions() conditions {
	c := f.ofRecord() | f.ofKey() | f.ofMandate()
	if f.Link.Customer == "" {
		return c
	}
	return c | linked | f.ofCustomer() | f.ofUnlink()
}

// ofUnlink describes the state of an unlink. Every request must have ended before it: an open one could still
// change the customer when it is unlinked, or linked to another payer.
func (f *Facts) ofUnlink() conditions {
	if f.Words.Unlink == 0 {
		return 0
	}
	waits, over := f.Doubt.open(f.readAt()), f.Doubt.Over != 0
	if !waits {
		over = true
	}
	for _, a := range f.Attempts {
		if a.Answered == 0 && a.Open(f.seen(a)) {
			waits, over = true, over && a.Over != 0
		}
	}
	return unlinking | sentBefore.when(waits) | sentOver.when(waits && over)
}

func (f *Facts) ofRecord() conditions {
	claims := f.Record.Standing == Included || f.Record.Standing == Unfit
	moved := claims && f.Record.Key != "" && f.Record.Key != f.Key
	return left.when(!claims) |
		excluded.when(f.Record.Standing == Excluded) |
		anew.when(f.Record.Standing == Excluded && f.Record.Anew) |
		gone.when(f.Record.Standing == Gone) |
		notShown.when(f.Record.Standing == NotShown) |
		mayStay.when(f.Words.Leave != 0) |
		unfit.when(f.Record.Standing == Unfit) |
		rekeyed.when(moved) |
		wanted.when(f.Record.Standing == Included && !moved) |
		rival.when(f.Rival == RivalRecord) |
		refused.when(f.Refusal.Reason != "" && f.Refusal.Hash == f.Record.Hash && f.Words.Retry <= f.Refusal.Seq) |
		worn.when(f.Worn != 0 && f.Words.Retry <= f.Worn)
}

// ofKey describes the holders of the key, and the claims to it.
func (f *Facts) ofKey() conditions {
	lost := f.Doubt.open(f.Index.Since)
	c := nobody.when(f.Holders == Nobody) |
		free.when(f.Holders == Free || f.Holders == Own) |
		elsewhere.when(f.Holders == Another || f.Rival == RivalLink) |
		several.when(f.Holders == Several) |
		doubt.when(lost) |
		doubtOver.when(lost && f.Doubt.Over != 0) |
		believed.when(f.Index.Since != 0 && !lost) |
		readOtherwise.when(f.Look.Now && f.Look.Shows != Ours) |
		disputed.when(f.Look.Now && f.Look.Shows == Ours && f.Look.Disputed && f.Words.Adopt == 0) |
		alike.when(f.Alike && f.Words.Create == 0) |
		alikeLeft.when(f.AlikeLeft && f.Words.Create == 0) |
		alikeTwice.when(f.AlikeTwice && f.Words.Create == 0)
	for _, a := range f.Attempts {
		if a.Action != connector.ActionCreate || !a.Open(f.Index.Since) {
			continue
		}
		c |= creating | createOver.when(a.Over != 0) | createOld.when(lost || a.Seq <= f.Doubt.Since) | createRests.when(a.Rest)
	}
	for _, a := range f.Others {
		if a.Open(f.Index.Since) {
			c |= underWay | underWayOver.when(a.Over != 0)
		}
	}
	return c
}

// ofCustomer describes the linked customer. A read from before a restore, or before the newest answer, shows
// nothing.
func (f *Facts) ofCustomer() conditions {
	stale := f.Look.Shows == Unseen || f.Look.Seq <= f.Doubt.Since || f.Look.Seq <= f.Link.AnsweredAt
	if stale {
		return unread
	}
	shown := f.Look.Holds != "" && f.Look.Shows == Ours
	here := shown && f.Look.Holds == f.Record.Hash
	lost := f.Doubt.open(f.readAt())
	// A restore may hide that a difference is of our own making. A difference seen before the restore is not.
	known := f.Link.ConfirmedAt > f.Doubt.Since || f.Look.Since > f.Link.ConfirmedAt && f.Look.Since <= f.Doubt.Since
	c := young.when(f.Look.Shows == NotYet) |
		missing.when(f.Look.Shows == Missing) |
		otherKey.when(f.Look.Shows == OtherKey) |
		noKey.when(f.Look.Shows == NoKey) |
		holds.when(here) |
		confirmed.when(f.Link.Confirmed == f.Record.Hash && known && f.Words.Retry <= f.Look.Since) |
		shownOtherwise.when(f.Link.Answered == f.Record.Hash && f.Link.AnsweredAt > f.Doubt.Since && !here && f.Words.Retry <= f.Look.Since && (!f.Look.Unmoved || f.Worn != 0 && f.Words.Retry <= f.Worn)) |
		older.when(lost) |
		olderOver.when(lost && f.Doubt.Over != 0)
	for _, a := range f.Attempts {
		if a.Action != connector.ActionUpdate || a.Hash == f.Record.Hash {
			continue
		}
		c |= holdsOlder.when(shown && a.Hash == f.Look.Holds) // also when this very look ends it
		if f.open(a) {
			c |= older | olderOver.when(a.Over != 0)
		}
	}
	return c
}

func (f *Facts) ofMandate() conditions {
	m, read := f.Mandate, f.Look.Shows == Ours && f.Look.Seq > f.Doubt.Since && f.Look.Seq > f.Link.AnsweredAt
	lost := f.Doubt.open(f.readAt())
	c := lives.when(m.Status != "" && m.Status != connector.MandateCancelled) |
		statusUnknown.when(m.Status != "" && !m.Status.Known()) |
		cancelled.when(m.Status == connector.MandateCancelled) |
		signed.when(m.Status.Underway() || m.Status == connector.MandateActive) |
		unsigned.when(m.Status == connector.MandateCreated) |
		hasLink.when(m.Link) |
		wished.when(f.Record.Mandate && f.Record.Standing == Included && f.Record.Key == f.Key && f.Rival == NoRival) |
		asked.when(f.Words.Ask > m.Seq && f.Words.Ask > m.Asked) |
		letBe.when(f.Words.LetBe != 0) |
		inOrder.when(f.Link.Customer != "" && read && f.Holders != Several && f.Holders != Another) |
		same.when(m.Again == AgainSame) |
		askRefused.when(m.Refused != 0 && f.Words.Retry <= m.Refused) |
		askRests.when(m.Rest) |
		asking.when(lost) |
		askOver.when(lost && f.Doubt.Over != 0)
	for _, a := range f.Attempts {
		if a.Action == connector.ActionLink && a.Open(f.readAt()) {
			c |= asking | askOver.when(a.Over != 0)
		}
	}
	return c
}
