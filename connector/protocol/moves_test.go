package protocol

import (
	"fmt"
	"slices"
)

// move is what happened between one state and the next, for the story.
type move struct {
	kind moveKind
	a, b byte
	do   Do
}

type moveKind byte

const (
	begins moveKind = iota
	acts
	answered
	unanswered
	refuses
	lost
	givenUp
	timeOver
	doubtIsOver
	settles
	listed
	listedShort
	read
	readLagging
	readBegins
	readEnds
	recordMoves
	strangerAdds
	strangerDeletes
	strangerTakesKey
	strangerEdits
	mandateMade
	mandateSigned
	mandateEnds
	unlinkSaid
	unlinkTaken
	copied
	restored
	sweeps
)

func (m move) String() string {
	record, id := oneself[m.a&1], ""
	if int(m.a)+1 < len(ids) {
		id = ids[m.a+1]
	}
	switch m.kind {
	case acts:
		if m.b == lagged {
			return fmt.Sprintf("%s: %s, with a read that lags behind", record, m.do)
		}
		if m.b != 0 {
			return fmt.Sprintf("%s: %s, with a list that misses %s", record, m.do, ids[m.b])
		}
		return fmt.Sprintf("%s: %s", record, m.do)
	case answered:
		return fmt.Sprintf("request %d arrives and is answered", m.a+1)
	case unanswered:
		return fmt.Sprintf("request %d arrives; its answer is lost", m.a+1)
	case refuses:
		return fmt.Sprintf("request %d is refused", m.a+1)
	case lost:
		return fmt.Sprintf("request %d is lost on the way", m.a+1)
	case givenUp:
		return fmt.Sprintf("nobody waits for the answer to request %d any more; it is still under way", m.a+1)
	case timeOver:
		return fmt.Sprintf("the time of attempt %d is over", m.a+1)
	case settles:
		return fmt.Sprintf("every read shows customer %s by now", id)
	case doubtIsOver:
		return "the time of everything sent before the restore is over"
	case listed:
		return "the customers are listed"
	case listedShort:
		return fmt.Sprintf("the customers are listed; the list misses %s", id)
	case read:
		return fmt.Sprintf("the customer of %s is read", record)
	case readLagging:
		return fmt.Sprintf("the customer of %s is read as it was before, because the read lags behind", record)
	case readBegins:
		if m.a+1 == readList {
			return "a slow list begins"
		}
		return fmt.Sprintf("a slow read of the customer of %s begins", record)
	case readEnds:
		return "the slow read ends and is recorded"
	case recordMoves:
		return fmt.Sprintf("%s %s", record, [...]string{"is excluded", "is included with the first values", "is included with the second values", "gets another key"}[m.b])
	case strangerAdds:
		return fmt.Sprintf("somebody makes customer %s with the key", id)
	case strangerDeletes:
		return fmt.Sprintf("somebody deletes customer %s", id)
	case strangerTakesKey:
		return fmt.Sprintf("somebody takes the key off customer %s, or puts it back", id)
	case strangerEdits:
		return fmt.Sprintf("somebody edits customer %s", id)
	case mandateMade:
		return fmt.Sprintf("somebody makes a mandate for customer %s", id)
	case mandateSigned:
		return fmt.Sprintf("the mandate of customer %s is signed", id)
	case mandateEnds:
		return fmt.Sprintf("the mandate of customer %s is cancelled", id)
	case sweeps:
		return "a sweep reads everything"
	case unlinkSaid:
		return fmt.Sprintf("somebody says that the customer of %s is not its own", record)
	case unlinkTaken:
		return fmt.Sprintf("somebody says that the customer of %s is its own after all", record)
	case copied:
		return "the ledger is copied"
	case restored:
		return "the ledger is put back to the copy"
	}
	return "it begins"
}

// next calls emit for every possible next state of s. broken is the law broken by the move itself.
func (w *world) next(s state, emit func(next state, m move, broken string)) {
	say := func(n state, m move, broken string) {
		for i, p := range s.book.payers {
			if now := n.book.payers[i].link; p.link != 0 && now != p.link && m.kind != restored && (now != 0 || m.kind != acts || m.do != Unlink) {
				broken = "a payer moved to another customer by itself"
			}
		}
		w.tidy(&n)
		emit(n, m, broken)
	}
	for rec := range byte(2) {
		for miss := nothingMissed; miss < maxCustomers; miss++ {
			if miss != nothingMissed && !w.countable(&s, miss) {
				continue
			}
			n := s
			if do, broken := w.act(&n, rec, sight{miss: miss}); do != Nothing && n != s {
				say(n, move{kind: acts, a: rec, b: byte(miss + 1), do: do}, broken)
			}
		}
		if s.lagging(rec) {
			n := s
			if do, broken := w.act(&n, rec, sight{nothingMissed, true}); do != Nothing && n != s {
				say(n, move{kind: acts, a: rec, b: lagged, do: do}, broken)
			}
		}
	}
	w.arrivals(s, say)
	w.times(s, say)
	w.looks(s, say)
	w.people(s, say)
	if w.restores {
		w.restoring(s, say)
	}
}

// arrivals are what may become of requests under way.
func (w *world) arrivals(s state, say func(state, move, string)) {
	for i, m := range s.messages {
		if m.op == 0 {
			continue
		}
		n := s
		if made, broken, ok := w.arrive(&n, i); ok {
			say(n, move{kind: unanswered, a: byte(i)}, broken)
			if m.awaited {
				w.answer(&n, m, made)
				say(n, move{kind: answered, a: byte(i)}, broken)
			}
		}
		n = s
		n.messages[i] = message{}
		say(n, move{kind: lost, a: byte(i)}, "")
		if !m.awaited {
			continue
		}
		n = s
		n.messages[i].awaited = false
		say(n, move{kind: givenUp, a: byte(i)}, "")
		if w.refuses && m.op != opLink {
			n = s
			n.refuse(i)
			say(n, move{kind: refuses, a: byte(i)}, "")
		}
	}
}

// refuse answers a request with a refusal. An earlier sending of the same bytes is unaffected.
func (s *state) refuse(i int) {
	m := s.messages[i]
	s.messages[i] = message{}
	at := s.attempt(m)
	switch {
	case at < 0:
	case s.book.attempts[at].again:
		s.book.attempts[at].rests = true
	default:
		s.forget(at)
		s.book.payers[m.rec].refused = m.ver
	}
}

// attempt returns the place of the attempt that a message belongs to; -1 for none.
func (s *state) attempt(m message) int {
	return slices.IndexFunc(s.book.attempts[:], func(a tried) bool { return a.op == m.op && a.rec == m.rec && a.ver == m.ver && a.answered == 0 })
}

// times are times that come to be over.
func (w *world) times(s state, say func(state, move, string)) {
	for i := range s.book.attempts {
		n := s
		if n.timeOver(i) {
			if w.weak == timeAlone {
				n.forget(i)
			}
			say(n, move{kind: timeOver, a: byte(i)}, "")
		}
	}
	for i, c := range s.customers {
		if c.flags&fresh != 0 || c.was != 0 {
			n := s
			n.customers[i].flags &^= fresh
			n.customers[i].was = 0
			say(n, move{kind: settles, a: byte(i)}, "")
		}
	}
	n := s
	if n.doubtOver() {
		say(n, move{kind: doubtIsOver}, "")
	}
}

// timeOver notes that the time of an attempt is over, and reports whether it can be.
func (s *state) timeOver(i int) bool {
	a := &s.book.attempts[i]
	if a.op == 0 || a.over != 0 {
		return false
	}
	for _, m := range s.messages {
		if m.op == a.op && m.rec == a.rec && m.ver == a.ver {
			return false
		}
	}
	a.over = 1
	if link := s.book.payers[a.rec].link; link != 0 {
		s.customers[link-1].was = 0 // the time is over when reads show what it did, too
	}
	for i := range s.customers {
		if c := &s.customers[i]; a.op == opCreate && c.maker == our+2*a.rec+a.ver-1 {
			c.flags &^= fresh
		}
	}
	return true
}

func (s *state) doubtOver() bool {
	if s.book.doubt != 1 || slices.ContainsFunc(s.messages[:], func(m message) bool { return m.old }) {
		return false
	}
	s.book.doubt = 2
	return true
}

// looks are reads that a sweep or a webhook makes, whether or not they are asked for.
func (w *world) looks(s state, say func(state, move, string)) {
	over, doubtOver := s.overNow(), s.book.doubt > 1
	n := s
	w.list(&n, nothingMissed)
	say(n, move{kind: listed}, "")
	for i := range s.customers {
		if w.countable(&s, i) {
			n := s
			w.list(&n, i)
			say(n, move{kind: listedShort, a: byte(i)}, "")
		}
	}
	for rec, p := range s.book.payers {
		if p.link == 0 {
			continue
		}
		n := s
		shows, holds := s.shown(p.link - 1)
		w.record(&n, byte(rec), shows, holds, over, doubtOver)
		say(n, move{kind: read, a: byte(rec)}, "")
		if s.customers[p.link-1].flags&(fresh|live) == fresh|live {
			n := s
			shows := NotYet
			if w.weak == lagIsGone {
				shows = Missing
			}
			w.record(&n, byte(rec), shows, 0, over, doubtOver)
			say(n, move{kind: readLagging, a: byte(rec)}, "")
		}
		if c := s.customers[p.link-1]; c.was != 0 && c.flags&carries != 0 {
			n := s
			w.record(&n, byte(rec), Ours, c.was-1, over, doubtOver)
			say(n, move{kind: readLagging, a: byte(rec)}, "")
		}
	}
	if w.slow {
		w.slowReads(s, say)
	}
}

// slowReads begin, and are recorded after other things have happened.
func (w *world) slowReads(s state, say func(state, move, string)) {
	r := s.reading
	if r.kind == 0 {
		begin := reading{over: s.overNow(), doubt: s.book.doubt > 1}
		n := s
		n.reading = begin
		n.reading.kind, n.reading.list = readList, s.truth()
		say(n, move{kind: readBegins, a: readList - 1}, "")
		for rec, p := range s.book.payers {
			if p.link == 0 {
				continue
			}
			n := s
			shows, holds := s.shown(p.link - 1)
			n.reading = begin
			n.reading.kind, n.reading.shows, n.reading.holds = byte(rec)+1, shows, holds
			say(n, move{kind: readBegins, a: byte(rec)}, "")
		}
		return
	}
	n := s
	n.reading = reading{}
	over, doubtOver := r.over, r.doubt
	if w.weak == clockOrder {
		over, doubtOver, r.stale = s.overNow(), s.book.doubt > 1, false
	}
	switch {
	case r.stale:
	case r.kind == readList:
		w.passed(&n, r.list, over, doubtOver)
	case n.book.payers[r.kind-1].link != 0:
		w.record(&n, r.kind-1, r.shows, r.holds, over, doubtOver)
	}
	say(n, move{kind: readEnds}, "")
}

// people are what others do, in the books and in the service.
func (w *world) people(s state, say func(state, move, string)) {
	for rec := range byte(2) {
		for to := range byte(4) {
			from := s.records[rec]
			edit := from != claimsNone && from != otherName && to != claimsNone && to != otherName
			switch {
			case to == from, edit && !w.edits, to == otherName && (rec != 0 || !w.rekeys), !edit && to != otherName && !w.leaves,
				from == claimsNone && to == 2, from == otherName && to == 2, rec == 1 && to == 2: // one way in, and the second record never changes
				continue
			}
			n := s
			n.records[rec] = to
			say(n, move{kind: recordMoves, a: rec, b: to}, "")
		}
	}
	if w.strangers {
		w.stranger(s, say)
	}
	if w.unlinks {
		s.unlinking(say)
	}
	if w.mandates {
		w.mandateHolders(s, say)
	}
}

// unlinking lets people unlink a payer's customer, and take that back while no request of it may arrive.
func (s state) unlinking(say func(state, move, string)) {
	for rec := range byte(2) {
		n := s
		switch sent := (message{op: opUpdate, rec: rec}); {
		case s.book.payers[rec].link == 0:
		case s.book.unlinks&(1<<rec) == 0:
			n.book.unlinks |= 1 << rec
			say(n, move{kind: unlinkSaid, a: rec}, "")
		case s.attempt(sent) < 0:
			n.book.unlinks &^= 1 << rec
			say(n, move{kind: unlinkTaken, a: rec}, "")
		}
	}
}

func (w *world) stranger(s state, say func(state, move, string)) {
	if i := s.room(); i >= 0 {
		n := s
		n.customers[i] = customer{maker: stranger, flags: live | carries}
		say(n, move{kind: strangerAdds, a: byte(i)}, "")
	}
	for i, c := range s.customers {
		if c.flags&live == 0 {
			continue
		}
		n := s
		n.customers[i].flags &= known
		say(n, move{kind: strangerDeletes, a: byte(i)}, "")
		n = s
		n.customers[i].flags ^= carries
		say(n, move{kind: strangerTakesKey, a: byte(i)}, n.broken())
		if c.holds != 0 {
			n = s
			n.customers[i].holds = 0
			say(n, move{kind: strangerEdits, a: byte(i)}, "")
		}
	}
}

func (w *world) mandateHolders(s state, say func(state, move, string)) {
	for i, c := range s.customers {
		if c.flags&live == 0 {
			continue
		}
		for _, to := range []struct {
			kind     moveKind
			from, to byte
		}{{mandateMade, mandateNone, mandateCreated}, {mandateSigned, mandateCreated, mandateActive}, {mandateEnds, mandateCreated, mandateCancelled}, {mandateEnds, mandateActive, mandateCancelled}} {
			if s.mandates[i] != to.from {
				continue
			}
			n := s
			n.mandates[i] = to.to
			say(n, move{kind: to.kind, a: byte(i)}, "")
		}
	}
}

// restoring copies the ledger, and puts the copy back once.
func (w *world) restoring(s state, say func(state, move, string)) {
	if s.spent&spentRestore != 0 {
		return
	}
	if s.backup == 0 {
		n := s
		number, ok := w.numbers[s.book]
		if !ok {
			number = uint32(len(w.backups))
			w.backups, w.numbers[s.book] = append(w.backups, s.book), number
		}
		n.backup = number
		say(n, move{kind: copied}, "")
		return
	}
	n := s
	n.book = w.backups[s.backup]
	n.spent |= spentRestore
	n.backup = 0
	n.book.doubt = 1
	for i := range n.book.attempts {
		n.book.attempts[i].old = n.book.attempts[i].op != 0
	}
	for i := range n.book.payers {
		p := &n.book.payers[i]
		if p.shows != Unseen {
			p.flags |= lookOld
		}
		if p.confirmed != 0 {
			p.flags |= confirmedOld
		}
		if p.answered != 0 {
			p.flags |= answeredOld
		}
	}
	for i := range n.messages {
		if n.messages[i].op != 0 {
			n.messages[i].old, n.messages[i].awaited = true, false
		}
	}
	n.reading = reading{} // its process is fenced off
	say(n, move{kind: restored}, "")
}

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
		case w.weak == closeOnDoubled && step.Line == "key doubled", w.weak == closeOnLeave && s.records[rec] == claimsNone && p.link == 0:
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
	case w.weak == askAgain && step.Line == "request awaited", w.weak == noLookBeforeLink && step.Line == "ask" && step.Do == ReadCustomer:
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
	s.book.attempts[place] = tried{op: m.op, rec: rec, ver: m.ver, old: before.old, over: before.over, again: step.Do == Replay}
	for i := range s.book.attempts {
		if a := &s.book.attempts[i]; i != place && a.op == opUpdate && a.rec == rec && m.op == opUpdate {
			a.after = false
			s.book.attempts[place].after = a.answered != 0
		}
	}
	return broken, true
}

func (s *state) underWay(m message) bool {
	return slices.ContainsFunc(s.messages[:], func(o message) bool { return o.op == m.op && o.rec == m.rec && o.ver == m.ver })
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
