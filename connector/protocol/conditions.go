package protocol

import (
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
	claims := f.Record.Usability == Included || f.Record.Usability == Unfit
	moved := claims && f.Record.Key != "" && f.Record.Key != f.Key
	return left.when(!claims) |
		excluded.when(f.Record.Usability == Excluded) |
		anew.when(f.Record.Usability == Excluded && f.Record.Anew) |
		gone.when(f.Record.Usability == Gone) |
		notShown.when(f.Record.Usability == NotShown) |
		mayStay.when(f.Words.Leave != 0) |
		unfit.when(f.Record.Usability == Unfit) |
		rekeyed.when(moved) |
		wanted.when(f.Record.Usability == Included && !moved) |
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
		c |= creating | createOver.when(a.Over != 0) | createOld.when(lost ||
			a.Seq <= f.Doubt.Since) | createRests.when(a.Rest)
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
	if stale := f.Look.Shows == Unseen || f.Look.Seq <= f.Doubt.Since || f.Look.Seq <= f.Link.AnsweredAt; stale {
		return unread
	}
	shown := f.Look.Holds != "" && f.Look.Shows == Ours
	here := shown && f.Look.Holds == f.Record.Hash
	lost := f.Doubt.open(f.readAt())
	// A restore may hide that a difference is of our own making. A difference seen before the restore is not.
	known := func(since int64) bool {
		return since > f.Doubt.Since || f.Look.Since > since && f.Look.Since <= f.Doubt.Since
	}
	c := young.when(f.Look.Shows == NotYet) |
		missing.when(f.Look.Shows == Missing) |
		otherKey.when(f.Look.Shows == OtherKey) |
		noKey.when(f.Look.Shows == NoKey) |
		holds.when(here) |
		confirmed.when(f.Link.Confirmed == f.Record.Hash && known(f.Link.ConfirmedAt) && f.Words.Retry <= f.Look.Since) |
		shownOtherwise.when(f.Link.Answered == f.Record.Hash && known(f.Link.AnsweredAt) && !here &&
			f.Words.Retry <= f.Look.Since && (!f.Look.Unmoved || f.Worn != 0 && f.Words.Retry <= f.Worn)) |
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
		wished.when(f.Record.Mandate && f.Record.Usability == Included && f.Record.Key == f.Key && f.Rival == NoRival) |
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
