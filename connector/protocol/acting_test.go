package protocol

import (
	"fmt"
	"slices"
)

// room returns the place of a customer that does not exist; -1 for none.
func (s *state) room() int {
	return slices.IndexFunc(s.customers[:], func(c customer) bool { return c.maker == absent })
}

// lagged marks, in a move, an act whose read lagged behind.
const lagged = 9

// sight is how a process sees the service while it acts.
type sight struct {
	miss int  // the customer that a list misses
	lags bool // a read lags behind
}

// lagging reports whether a read of the record's customer may lag behind.
func (s *state) lagging(rec byte) bool {
	p := s.book.payers[rec]
	return p.link != 0 && s.customers[p.link-1].was != 0
}

// nothingMissed is a list that shows every customer.
const nothingMissed = -1

// act lets a process decide on a payer and do it. It makes each necessary read once, and then decides again;
// a list may miss one customer.
func (w *world) act(s *state, rec byte, how sight) (done Do, broken string) {
	p := &s.book.payers[rec]
	if s.elsewhere(rec) {
		return Nothing, ""
	}
	done = Nothing
	f := w.gather(s, rec)
	var now struct{ list, look bool }
	for {
		step := w.step(f)
		switch {
		case step.Do == ReadList && !now.list:
			now.list = true
			w.list(s, how.miss)
			f = w.gather(s, rec)
		case step.Do == ReadCustomer && !now.look:
			now.look = true
			f = w.readOne(s, rec, step, how.lags)
		case step.Do == Adopt:
			w.adopt(s, rec, byte(slices.Index(ids[:], step.Customer)))
			return Adopt, ""
		case step.Do == Unlink && f.Look.Shows != Ours:
			*p = payer{}
			s.book.unlinks &^= 1 << rec
			return Unlink, ""
		case step.Do.Sends():
			if broken, sent := w.send(s, rec, step); sent {
				return step.Do, broken
			}
			return done, ""
		case w.weak == closeOnDoubled && step.Line == "key doubled", w.weak == closeOnLeave && s.records[rec] == claimsNone &&
			p.link == 0:
			return s.close(rec, done)
		default:
			return done, ""
		}
		done = step.Do
		f.Index.Now, f.Look.Now = now.list, now.look
	}
}

// elsewhere reports whether the record's payer stands for another key, which is
// another world.
func (s *state) elsewhere(rec byte) bool {
	return s.records[rec] == otherName && s.book.payers[rec].link == 0 && !s.creates(rec)
}

// readOne reads the customer that a step names.
func (w *world) readOne(s *state, rec byte, step Step, lags bool) *Facts {
	customer := byte(slices.Index(ids[:], step.Customer)) - 1
	shows, holds := s.shown(customer)
	if lags {
		holds = s.customers[customer].was - 1
	}
	if s.book.payers[rec].link != 0 {
		w.record(s, rec, shows, holds, s.overNow(), s.book.doubt > 1)
		return w.gather(s, rec)
	}
	s.book.index &^= 1 << customer
	s.book.alike &^= 1 << customer
	if shows == NoKey && holds != 0 {
		s.book.alike |= 1 << customer
	}
	if shows == Ours {
		s.book.index |= 1 << customer
	}
	f := w.gather(s, rec)
	f.Look = Look{Seq: atNow, Shows: shows}
	return f
}

// list reads the list of customers, but for one that the list may miss.
func (w *world) list(s *state, miss int) {
	shown := s.truth()
	if miss != nothingMissed {
		shown.ids &^= 1 << miss
		shown.carry &^= 1 << miss
		if s.customers[miss].flags&fresh == 0 {
			s.spent |= spentSlip
		}
	}
	w.passed(s, shown, s.overNow(), s.book.doubt > 1)
}

// countable reports whether a list may miss the customer: once any, and always one
// that was just made.
func (w *world) countable(s *state, i int) bool {
	c := s.customers[i]
	return w.lists && c.flags&(live|carries) == live|carries && (c.flags&fresh != 0 || s.spent&spentSlip == 0)
}

// close forgets the create of a record, as a weaker protocol does.
func (s *state) close(rec byte, done Do) (Do, string) {
	for i, a := range s.book.attempts {
		if a.op == opCreate && a.rec == rec {
			s.forget(i)
			done = Wait
		}
	}
	return done, ""
}

// step asks the protocol, and weakens it.
func (w *world) step(f *Facts) Step {
	step := Decide(*f).next()
	switch {
	case w.weak == replayLeft && step.Line == "create left behind":
		step.Do = Replay
		for _, a := range f.Attempts {
			step.Attempt = a.Seq
		}
	case w.weak == unlinkAtOnce && step.Line == "unlink, request awaited":
		step.Do = Unlink
	case w.weak == askAgain && step.Line == "request awaited", w.weak == noLookBeforeLink && step.Line == "ask" &&
		step.Do == ReadCustomer:
		step.Do = AskLink
	}
	return step
}

func (s *state) creates(rec byte) bool {
	return slices.ContainsFunc(s.book.attempts[:], func(a tried) bool { return a.op == opCreate && a.rec == rec })
}

// adopt links a customer that was just read.
func (w *world) adopt(s *state, rec, customer byte) {
	p := &s.book.payers[rec]
	*p = payer{link: customer, refused: p.refused}
	shows, holds := s.shown(customer - 1)
	w.record(s, rec, shows, holds, s.overNow(), s.book.doubt > 1)
	if w.weak == closeOnFound {
		s.close(rec, Nothing)
	}
}

// send commits an attempt and sends its bytes, when there is room for one more.
func (w *world) send(s *state, rec byte, step Step) (broken string, sent bool) {
	m := message{rec: rec, ver: s.records[rec], awaited: true}
	place := slices.IndexFunc(s.book.attempts[:], func(a tried) bool { return a.op == 0 })
	switch step.Do {
	case Create:
		m.op = opCreate
	case Update:
		m.op, m.customer = opUpdate, s.book.payers[rec].link
		before := s.customers[m.customer-1].holds + 1
		defer func() {
			if sent {
				s.book.payers[rec].before = before
			}
		}()
	case Unlink: // an update that takes the key off, and what is ours
		m.op, m.ver, m.customer = opUpdate, 0, s.book.payers[rec].link
	case AskLink:
		m.op, m.ver, m.customer = opLink, 0, s.book.payers[rec].link
	case Replay:
		m.op = opCreate
		place = int(step.Attempt % 10)
		m.ver = s.book.attempts[place].ver
		if w.weak == rebuild {
			m.ver = s.records[rec]
		}
	}
	free := slices.IndexFunc(s.messages[:], func(m message) bool { return m.op == 0 })
	if place < 0 || free < 0 || step.Do == Replay && s.underWay(m) {
		return "", false
	}
	broken = s.judge(rec, step, m)
	s.messages[free] = m
	before := s.book.attempts[place]
	s.book.attempts[place] = tried{op: m.op, rec: rec, ver: m.ver, old: before.old, over: before.over,
		again: step.Do == Replay}
	for i := range s.book.attempts {
		if a := &s.book.attempts[i]; i != place && a.op == opUpdate && a.rec == rec && m.op == opUpdate {
			a.after = false
			s.book.attempts[place].after = a.answered != 0
		}
	}
	return broken, true
}

func (s *state) underWay(m message) bool {
	return slices.ContainsFunc(s.messages[:],
		func(o message) bool { return o.op == m.op && o.rec == m.rec && o.ver == m.ver })
}

// judge says which law is broken by sending a request.
func (s *state) judge(rec byte, step Step, m message) string {
	r := s.records[rec]
	switch {
	case m.op != opLink && step.Do != Unlink && (r == claimsNone || r == otherName):
		return fmt.Sprintf("a %s was sent for a record that makes no claim", step.Do)
	case m.op == opUpdate && s.customers[m.customer-1].flags&carries == 0:
		return "an update was sent to a customer without the key"
	case m.op == opUpdate && s.book.payers[1-rec].link == m.customer:
		return "an update was sent to another payer's customer"
	case m.op == opLink && s.mandates[m.customer-1] == mandateCancelled:
		return "a signing link was asked for although the mandate was cancelled"
	case m.op == opLink && s.underWay(m):
		return "a signing link was asked for again while the first request was under way"
	}
	return ""
}

// arrive lets a request take effect.
func (w *world) arrive(s *state, i int) (made byte, broken string, ok bool) {
	m := s.messages[i]
	switch m.op {
	case opCreate:
		made, ok = w.create(s, m)
		if !ok {
			return 0, "", false
		}
	case opUpdate:
		if w.unlinks && (s.book.payers[m.rec].link != m.customer || m.ver == 0 && s.book.unlinks&(1<<m.rec) == 0) {
			broken = "an update of ours changed a customer that was let go"
		}
		if c := &s.customers[m.customer-1]; c.flags&live != 0 {
			if w.lags {
				c.was = c.holds + 1
			}
			if c.holds, c.flags = m.ver, c.flags|carries; m.ver == 0 {
				c.flags &^= carries
			}
		}
	case opLink:
		broken = s.link(i)
	}
	s.messages[i] = message{}
	if b := s.broken(); b != "" {
		broken = b
	}
	return made, broken, true
}

// create makes a customer, unless the service remembers the bytes.
func (w *world) create(s *state, m message) (made byte, ok bool) {
	maker := our + 2*m.rec + m.ver - 1
	for i, c := range s.customers {
		if c.maker == maker && c.flags&known != 0 {
			return byte(i) + 1, true
		}
	}
	i := s.room()
	if i < 0 {
		return 0, false
	}
	s.customers[i] = customer{maker: maker, holds: m.ver, flags: live | carries | known}
	if w.lists {
		s.customers[i].flags |= fresh
	}
	return byte(i) + 1, true
}

// link creates a mandate if there is none, or only a cancelled one.
func (s *state) link(i int) (broken string) {
	m := s.messages[i]
	at := &s.mandates[m.customer-1]
	if s.customers[m.customer-1].flags&live == 0 || *at == mandateCreated || *at == mandateActive {
		return ""
	}
	if *at == mandateCancelled && m.raced {
		broken = "a late request of ours replaced a mandate that another of ours had made, and that was cancelled"
	}
	*at = mandateCreated
	for j := range s.messages {
		if o := &s.messages[j]; j != i && o.op == opLink && o.customer == m.customer {
			o.raced = true
		}
	}
	return broken
}

// answer commits the answer to a request that a process waits for.
func (w *world) answer(s *state, m message, made byte) {
	switch i := s.attempt(m); {
	case i < 0:
	case m.op == opUpdate && w.weak != answerIsShown:
		s.book.attempts[i].answered = 1
		for j := range s.book.attempts {
			if a := &s.book.attempts[j]; j != i && a.rec == m.rec && a.answered != 0 && s.book.attempts[i].after {
				a.answered = 2
			}
		}
	default:
		s.forget(i)
	}
	p := &s.book.payers[m.rec]
	p.refused = 0
	if s.reading.kind == m.rec+1 {
		s.reading.stale = true // it began before this answer
	}
	switch m.op {
	case opCreate:
		s.book.index |= 1 << (made - 1)
		if p.link != 0 && w.weak != linkOver || s.book.payers[1-m.rec].link == made {
			return // it is linked already: two customers carry the key, and that is told
		}
		*p = payer{link: made, answered: m.ver}
	case opUpdate:
		p.answered = m.ver
		p.flags &^= readSince | answeredOld
		f := w.gather(s, m.rec)
		w.end(s, f)
	case opLink:
		if s.customers[m.customer-1].flags&live == 0 {
			w.record(s, m.rec, Missing, 0, s.overNow(), s.book.doubt > 1) // the answer says so
			return
		}
		p.mandate, p.hasLink = s.mandates[m.customer-1], true
	}
}
