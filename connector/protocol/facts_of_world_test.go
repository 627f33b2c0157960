package protocol

import (
	"payersync/connector"
)

// Tickets of the world. Only their order matters.
const (
	atBefore     = 40 // before a restore
	atBeforeLook = 42
	atBeforeLate = 44
	atRestore    = 50
	atEarly      = 60
	atSent       = 80
	atThird      = 95 // over before both lists
	atOlder      = 100
	atSecond     = 105 // over between the two lists
	atNewer      = 110
	atFirst      = 115 // over after both lists
	atLook       = 150
	atLate       = 190
	atOver       = 200 // over after the newest look
	atNow        = 300
)

// answers are tickets of answered updates, before and after the newest one left.
var answers = [...]int64{0, atSent + 1, atSent - 1}

var overs = [...]int64{0, atFirst, atSecond, atThird}

// gather returns the facts of one payer, until it is called again.
func (w *world) gather(s *state, rec byte) *Facts {
	k, me := &s.book, s.book.payers[rec]
	w.facts = Facts{Key: "K", Holders: Nobody, Record: Record{Usability: Included, Key: "K", Mandate: w.mandates}}
	f := &w.facts
	switch s.records[rec] {
	case claimsNone:
		f.Record = Record{Usability: Excluded, Key: "K"}
	case otherName:
		f.Record.Key, f.Record.Hash = "other", values[1]
	default:
		f.Record.Hash = values[s.records[rec]]
	}
	other := k.payers[1-rec]
	if other.link != 0 && other.shows != Missing && w.weak != linksForgotten {
		f.Rival = RivalLink
	}
	if r := s.records[1-rec]; r == 1 || r == 2 {
		f.Rival = RivalRecord
	}
	if me.refused != 0 {
		f.Refusal = Refusal{connector.ReasonRejected, values[me.refused], atEarly}
	}
	w.gatherIndex(s, f, me, other)
	w.gatherAttempts(s, f, rec)
	if me.link != 0 {
		f.gatherLink(me)
	}
	if k.doubt != 0 && w.weak != noEpoch {
		f.Doubt = Doubt{Since: atRestore, Over: overs[k.doubt-1]}
	}
	f.Mandate = Mandate{Status: statuses[me.mandate], Seq: atEarly, Link: me.hasLink, Again: w.again, Approved: true}
	f.Approved = Intent{Hash: f.Record.Hash, Customer: f.Link.Customer, Action: connector.ActionUpdate}
	if k.unlinks&(1<<rec) != 0 {
		f.Words.Unlink, f.Approved.Unlinks = atLook, true
	}
	if me.link == 0 {
		f.Approved = Intent{Hash: f.Record.Hash, Customer: f.Holder, Action: connector.ActionAdopt}
		if f.Holders == Nobody {
			f.Approved.Action = connector.ActionCreate
		}
	}
	return f
}

func (w *world) gatherIndex(s *state, f *Facts, me, other payer) {
	k := &s.book
	for i := range byte(maxCustomers) {
		f.Alike = f.Alike || k.alike&(1<<i) != 0 && i+1 != me.link && i+1 != other.link
		switch {
		case k.index&(1<<i) == 0:
		case f.Holders != Nobody:
			f.Holders, f.Holder = Several, ""
		default:
			f.Holders, f.Holder = Free, ids[i+1]
			switch i + 1 {
			case me.link:
				f.Holders = Own
			case other.link:
				f.Holders = Another
			}
		}
	}
	switch {
	case w.weak == noLook:
		f.Index.Since = atNow
	case k.lists >= 2:
		f.Index.Since = atOlder
	case k.lists == 1 && w.weak == oneList:
		f.Index.Since = atNewer
	}
}

func (w *world) gatherAttempts(s *state, f *Facts, rec byte) {
	f.Attempts, f.Others = w.two[:0], w.one[:0]
	for i, a := range s.book.attempts {
		if a.op == 0 {
			continue
		}
		at := Attempt{Seq: atEarly + int64(i), Action: actions[a.op], Hash: values[a.ver], Rest: a.rests,
			Answered: answers[a.answered]}
		switch {
		case a.op == opCreate:
			at.Over = overs[a.over]
		case a.over != 0:
			at.Over = atOver
		}
		if a.old {
			at.Seq = atBefore + int64(i)
		}
		switch {
		case a.rec == rec:
			f.Attempts = append(f.Attempts, at)
		case a.op == opCreate && w.weak != othersForgotten:
			f.Others = append(f.Others, at)
		}
	}
}

func (f *Facts) gatherLink(me payer) {
	f.Link = Link{Customer: ids[me.link], Confirmed: values[me.confirmed], ConfirmedAt: atEarly,
		Answered: values[me.answered], AnsweredAt: atLate, SentAt: atSent}
	f.Look = Look{Seq: atLook, Shows: me.shows, Holds: values[me.holds], Unmoved: me.unmoved}
	if me.flags&confirmedOld != 0 {
		f.Link.ConfirmedAt = atBefore
	}
	switch {
	case me.answered == 0:
		f.Link.AnsweredAt = 0
	case me.flags&answeredOld != 0 && me.flags&readSince == 0:
		f.Link.AnsweredAt = atBeforeLate
	case me.flags&answeredOld != 0:
		f.Link.AnsweredAt = atBefore
	case me.flags&readSince != 0:
		f.Link.AnsweredAt = atRestore + 5
	}
	switch {
	case me.flags&lookOld != 0:
		f.Look.Seq = atBeforeLook
	case me.flags&lookEarly != 0:
		f.Look.Seq = atEarly
	}
}

// shown is what a read of a customer shows.
func (s *state) shown(customer byte) (Shows, byte) {
	c := s.customers[customer]
	switch {
	case c.flags&live == 0:
		return Missing, 0
	case c.flags&carries == 0:
		return NoKey, c.holds
	}
	return Ours, c.holds
}

// identify returns which of our values a customer holds, as far as they are known:
// as wanted, confirmed, or sent.
func (s *state) identify(rec, holds byte) byte {
	if holds == 0 || holds == s.records[rec] || holds == s.book.payers[rec].confirmed {
		return holds
	}
	for _, a := range s.book.attempts {
		if a.op != 0 && a.rec == rec && a.ver == holds {
			return holds
		}
	}
	return 0
}

// record notes a read of a record's linked customer. over are the attempts whose
// time was over before it began.
func (w *world) record(s *state, rec byte, shows Shows, holds byte, over byte, doubtOver bool) {
	p := &s.book.payers[rec]
	if shows == NotYet && p.shows > NotYet {
		return
	}
	p.shows, p.holds = shows, s.identify(rec, holds)
	p.unmoved = shows == Ours && p.before == holds+1
	p.flags = p.flags&(confirmedOld|answeredOld) | readSince
	if !doubtOver && s.book.doubt != 0 {
		p.flags |= lookEarly
	}
	bit := byte(1) << (p.link - 1)
	if shows != NotYet {
		s.book.index &^= bit
		s.book.alike &^= bit
	}
	if shows == Ours {
		s.book.index |= bit
	}
	if shows == Ours && p.holds != 0 {
		p.confirmed = p.holds
		p.flags &^= confirmedOld
	}
	if w.mandates && shows != Missing && shows != NotYet {
		p.mandate = s.mandates[p.link-1]
		if p.mandate == mandateNone {
			p.hasLink = false
		}
	}
	f := w.gather(s, rec)
	f.Look.Seq = atNow
	for i := range f.Attempts {
		if a := &f.Attempts[i]; a.Over != 0 && a.Action != connector.ActionCreate && over&(1<<(a.Seq%10)) == 0 {
			a.Over = atNow + 1 // over, but after the read began
		}
	}
	w.end(s, f)
	if s.reading.kind == rec+1 {
		s.reading.stale = true
	}
}
