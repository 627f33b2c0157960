package protocol

import (
	"fmt"

	"payersync/connector"
)

// The small world: one key, two records that may claim it, up to four customers of
// the service, and two requests under way. Everything that happens in it is a move
// from one state to the next; moves_test.go lists them.
//
// Several processes may act on the ledger at the same time: one decides on a payer again while another still
// waits for an answer. A process gathers, decides and commits in one transaction.

const (
	maxCustomers = 4
	maxUnderWay  = 2
)

// customer is one customer as it truly is.
type customer struct {
	maker byte // absent, or who made it
	holds byte // which values of ours it holds: 0 for somebody else's
	flags byte
	was   byte // what a read that lags behind still shows it to hold, plus 1; 0 for nothing else
}

// Makers of a customer. Our own are told apart by the bytes that made them.
const (
	absent   byte = 0
	stranger byte = 1
	our      byte = 2 // plus 2 for the second record, plus 1 for the second values
)

const (
	live    byte = 1 << iota // it exists
	carries                  // it carries the key
	known                    // the service still remembers the bytes that made it
	fresh                    // reads and lists may not show it yet
)

// Records of the world: 0 makes no claim, 1 and 2 are included with the first or the
// second values, 3 has another key.
const (
	claimsNone byte = 0
	otherName  byte = 3
)

// message is a request under way.
type message struct {
	op, rec, ver byte
	customer     byte
	awaited      bool // a process waits for its answer
	old          bool // it was sent before a restore
	raced        bool // another link request of ours made a mandate since
}

const (
	opCreate byte = 1 + iota
	opUpdate
	opLink
)

// tried is an attempt in the ledger.
type tried struct {
	op, rec, ver byte
	again        bool // sent more than once
	answered     byte // 1 when it was; 2 when one that left later was, too
	after        bool // it left after the other update was answered
	rests        bool // refused, while an earlier sending may have been taken
	over         byte // 0 while it may arrive; then 1, and one more for each list that began since and agrees
	old          bool // from before a restore
}

// payer is what the ledger holds of one payer.
type payer struct {
	link      byte // customer + 1
	confirmed byte // values that a read found as wanted
	answered  byte // values of the newest update or create that was answered
	refused   byte // values that the service refused
	shows     Shows
	holds     byte
	flags     byte
	mandate   byte // status, as in the service
	hasLink   bool
	before    byte // what the customer held before the newest update, plus 1; 0 when none was sent
	unmoved   bool // the newest read shows that
}

const (
	readSince    byte = 1 << iota // the newest look began after the newest answer
	lookOld                       // it began before a restore
	confirmedOld                  // what is confirmed was before a restore
	answeredOld
	lookEarly // it began before the doubt of a restore was over
)

// ledger is what a process knows.
type ledger struct {
	payers   [2]payer
	attempts [maxUnderWay]tried
	index    byte // customers that carry the key
	alike    byte // customers without a key that hold values of ours
	listed   byte // customers that the newest list showed
	lists    byte // lists that agree: 0, 1 or 2 and more
	unlinks  byte // payers of whose customers a person said that they are not theirs, a bit each
	doubt    byte // 0 for none; 1 while requests from before a restore may arrive; then 2, and one more for each list that began since
}

// reading is a read that has begun and is not recorded yet.
type reading struct {
	kind  byte // 0 for none; 1 and 2 for a record's customer, 3 for the list
	list  listing
	shows Shows
	holds byte
	over  byte // attempts whose time was over when it began
	doubt bool // the same of a restore
	stale bool // a read that began later was recorded
}

const readList byte = 3

// listing holds a list's content: the customers, those with the key, and those without a key that look like a
// record.
type listing struct{ ids, carry, alike byte }

// state is the whole world.
type state struct {
	customers [maxCustomers]customer
	mandates  [maxCustomers]byte // true status of each customer's newest mandate
	records   [2]byte
	messages  [maxUnderWay]message
	book      ledger
	reading   reading
	spent     byte   // faults that may happen once
	backup    uint32 // number of a ledger that was copied; 0 for none
}

const (
	spentSlip byte = 1 << iota
	spentRestore
)

// Statuses of a mandate in the world. Signed and active are one.
const (
	mandateNone byte = iota
	mandateCreated
	mandateActive
	mandateCancelled
)

var (
	statuses = [...]connector.MandateStatus{"", connector.MandateCreated, connector.MandateActive, connector.MandateCancelled}
	values   = [...]string{"", "first values", "second values"}
	ids      = [...]string{"", "c1", "c2", "c3", "c4"}
	actions  = [...]connector.Action{"", connector.ActionCreate, connector.ActionUpdate, connector.ActionLink}
	oneself  = [...]string{"record A", "record B"}
)

// world selects the possible moves, and the weakened rules.
type world struct {
	name      string
	share     int // of the states that are walked through, in percent
	size      int // how many states there are, where somebody has walked through them all; 0 where nobody has
	start     state
	strangers bool  // others make customers, delete them, rename them, take the key off and put it back
	edits     bool  // the records change their values
	leaves    bool  // the records leave, and come back
	rekeys    bool  // the first record may get another key
	lists     bool  // lists that miss a customer once, or lag behind what was just made
	slow      bool  // reads that others overtake
	lags      bool  // reads that show a customer as it was before the newest update
	refuses   bool  // the service refuses a request
	mandates  bool  // the mandate lane; payers and others who sign, cancel and make mandates
	unlinks   bool  // people say that a payer's customer is not its own, and take it back
	again     Again // what asking again for a mandate is known to do
	restores  bool  // the ledger is put back to an earlier copy, once
	weak      weakness

	watch func(before, after *state, m move) // sees every move; nil for nobody

	story   []move // of what heal did
	backups []ledger
	numbers map[ledger]uint32
	facts   Facts // reused by gather, as are its attempts
	one     [1]Attempt
	two     [2]Attempt
}

// weakness is one way in which a protocol is weaker.
type weakness string

const (
	none             weakness = ""
	closeOnFound     weakness = "close on found"
	closeOnDoubled   weakness = "close on doubled"
	closeOnLeave     weakness = "close when the record leaves"
	forgetAfterOne   weakness = "forget an update after one attempt"
	timeAlone        weakness = "time alone ends an attempt"
	rebuild          weakness = "rebuild the bytes on retry"
	oneList          weakness = "one list pass"
	noLook           weakness = "no look before a create"
	noEpoch          weakness = "no epoch of restores"
	clockOrder       weakness = "clock as order"
	replayLeft       weakness = "replay the create of a record that left"
	askAgain         weakness = "ask for a signing link again while the first may arrive"
	answerIsShown    weakness = "an answered update is forgotten at once"
	lagIsGone        weakness = "a read that may lag behind says who is gone"
	linkOver         weakness = "an answer moves a payer to another customer"
	othersForgotten  weakness = "attempts of others are not looked at"
	linksForgotten   weakness = "a key is free when its customer lost it"
	noLookBeforeLink weakness = "no look before a request for a signing link"
	unlinkAtOnce     weakness = "let a customer go while a request may arrive"
)

// mayArrive reports whether a create with these bytes may arrive. The service
// remembers what it made of them for as long, and no longer.
func (s *state) mayArrive(rec, ver byte) bool {
	for _, m := range s.messages {
		if m.op == opCreate && m.rec == rec && m.ver == ver {
			return true
		}
	}
	for _, a := range s.book.attempts {
		if a.op == opCreate && a.rec == rec && a.ver == ver && a.over == 0 && !a.old {
			return true
		}
	}
	return false
}

// tidy forgets what nobody can ever ask for again, so that equal worlds are equal.
func (w *world) tidy(s *state) {
	for i := range s.customers {
		c := &s.customers[i]
		if c.flags&live == 0 || c.was == c.holds+1 {
			c.was = 0
		}
		if c.flags&known != 0 && !s.mayArrive((c.maker-our)/2, (c.maker-our)%2+1) {
			c.flags &^= known
		}
		if c.flags&(live|carries) == live && c.holds == 0 && !s.book.linkedTo(i) {
			c.maker, c.flags = stranger, live // nothing of ours is left on it
		}
		if c.flags&live != 0 || c.maker == absent {
			continue
		}
		c.holds, c.flags = 0, c.flags&known // who is deleted looks like nothing any more
		if c.flags != 0 {
			continue
		}
		c.maker = stranger
		if bit := byte(1) << i; !s.book.knows(i) && (s.backup == 0 || !w.backups[s.backup].knows(i)) && (s.reading.list.ids|s.reading.list.carry)&bit == 0 {
			c.maker = absent
		}
		s.mandates[i] = mandateNone
	}
}

// knows reports whether the ledger may still name the customer.
func (l *ledger) knows(customer int) bool {
	return l.linkedTo(customer) || (l.index|l.alike|l.listed)&(1<<customer) != 0
}

func (l *ledger) linkedTo(customer int) bool {
	return int(l.payers[0].link) == customer+1 || int(l.payers[1].link) == customer+1
}

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
	w.facts = Facts{Key: "K", Holders: Nobody, Record: Record{Standing: Included, Key: "K", Mandate: w.mandates}}
	f := &w.facts
	switch s.records[rec] {
	case claimsNone:
		f.Record = Record{Standing: Excluded, Key: "K"}
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
		at := Attempt{Seq: atEarly + int64(i), Action: actions[a.op], Hash: values[a.ver], Rest: a.rests, Answered: answers[a.answered]}
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
	f.Link = Link{Customer: ids[me.link], Confirmed: values[me.confirmed], ConfirmedAt: atEarly, Answered: values[me.answered], AnsweredAt: atLate, SentAt: atSent}
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

// end forgets the attempts that the facts show to have ended.
func (w *world) end(s *state, f *Facts) {
	for _, at := range f.Attempts {
		open := f.open(at)
		if w.weak == forgetAfterOne && at.Action == connector.ActionUpdate && f.Look.Seq == atNow {
			open = false
		}
		if !open {
			s.forget(int(at.Seq % 10))
		}
	}
}

// forget empties the place of an attempt.
func (s *state) forget(i int) {
	s.book.attempts[i] = tried{}
	s.reading.over &^= 1 << i
}

// passed notes a list. over are the attempts whose time was over before it began.
func (w *world) passed(s *state, shown listing, over byte, doubtOver bool) {
	k := &s.book
	agrees := k.lists > 0 && k.listed == shown.ids
	k.index, k.alike, k.listed = shown.carry, shown.alike, shown.ids
	if k.lists = 1; agrees {
		k.lists = 2
	}
	for i := range k.attempts {
		a := &k.attempts[i]
		if a.op != opCreate || a.over == 0 {
			continue
		}
		switch {
		case over&(1<<i) == 0:
			a.over = 1
		case agrees:
			a.over = min(a.over+1, 3)
		default:
			a.over = 2
		}
	}
	switch {
	case k.doubt < 2 || !doubtOver || k.doubt == 4:
	case agrees:
		k.doubt++
	default:
		k.doubt = 3
	}
	for rec := range byte(2) {
		f := w.gather(s, rec)
		w.end(s, f)
	}
	if s.reading.kind == readList {
		s.reading.stale = true
	}
}

// overNow returns the attempts whose time is over.
func (s *state) overNow() (over byte) {
	for i, a := range s.book.attempts {
		if a.op != 0 && a.over != 0 {
			over |= 1 << i
		}
	}
	return over
}

// truth returns what a list shows that misses nobody.
func (s *state) truth() (shown listing) {
	for i, c := range s.customers {
		bit := byte(1) << i
		switch {
		case c.flags&live == 0:
			continue
		case c.flags&carries != 0:
			shown.carry |= bit
		case c.holds != 0:
			shown.alike |= bit
		}
		shown.ids |= bit
	}
	return shown
}

// broken says which law the state breaks; "" for none.
func (s *state) broken() string {
	ours := 0
	for _, c := range s.customers {
		if c.maker >= our && c.flags&(live|carries) == live|carries {
			ours++
		}
	}
	if ours > 1 {
		return "two live customers of ours carry one key"
	}
	if a, b := s.book.payers[0].link, s.book.payers[1].link; a != 0 && a == b {
		return "two payers are linked to one customer"
	}
	return ""
}

func (s *state) String() string {
	return fmt.Sprintf("customers %v, records %v, under way %v, ledger %+v", s.customers, s.records, s.messages, s.book)
}
