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
		return fmt.Sprintf("%s %s", record,
			[...]string{"is excluded", "is included with the first values", "is included with the second values",
				"gets another key"}[m.b])
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
			if now := n.book.payers[i].link; p.link != 0 && now != p.link && m.kind != restored &&
				(now != 0 || m.kind != acts || m.do != Unlink) {
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
	return slices.IndexFunc(s.book.attempts[:],
		func(a tried) bool { return a.op == m.op && a.rec == m.rec && a.ver == m.ver && a.answered == 0 })
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
				// one way in, and the second record never changes
				from == claimsNone && to == 2, from == otherName && to == 2, rec == 1 && to == 2:
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
		}{{mandateMade, mandateNone, mandateCreated}, {mandateSigned, mandateCreated, mandateActive},
			{mandateEnds, mandateCreated, mandateCancelled}, {mandateEnds, mandateActive, mandateCancelled}} {
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
