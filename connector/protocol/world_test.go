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
	// 0 for none; 1 while requests from before a restore may arrive; then 2, and one more for each list that began since
	doubt byte
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
	statuses = [...]connector.MandateStatus{"", connector.MandateCreated, connector.MandateActive,
		connector.MandateCancelled}
	values  = [...]string{"", "first values", "second values"}
	ids     = [...]string{"", "c1", "c2", "c3", "c4"}
	actions = [...]connector.Action{"", connector.ActionCreate, connector.ActionUpdate, connector.ActionLink}
	oneself = [...]string{"record A", "record B"}
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
		if bit := byte(1) << i; !s.book.knows(i) && (s.backup == 0 || !w.backups[s.backup].knows(i)) &&
			(s.reading.list.ids|s.reading.list.carry)&bit == 0 {
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
