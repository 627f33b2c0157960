package protocol

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// found is what a search found.
type found struct {
	states, depth int  // every schedule of depth moves was walked; or, where a law is broken, the moves it takes
	whole         bool // there are no more states
	full          int  // states in which the world was too small to let everything come to rest
	took          time.Duration
	law           string // that is broken; "" for none
	story         []string
}

func (f found) String() string {
	how := "every schedule of up to %d moves, and some of more"
	if f.whole {
		how = "every schedule there is, the longest way to a state %d moves"
	}
	return fmt.Sprintf("%d states, %.1f s: "+how+"; %d had no room to come to rest", f.states, f.took.Seconds(), f.depth,
		f.full)
}

// search walks through the world breadth first, until a law is broken, most states
// are known, or there are no more. The first broken law has the shortest story.
func (w *world) search(most int, calm bool) (f found) {
	began := time.Now()
	w.backups, w.numbers = []ledger{{}}, map[ledger]uint32{}
	t := newTree()
	t.add(&w.start, 0)
	end := 1 // of this depth
	for at := 0; at < t.count; at++ {
		if at == end {
			f.depth++
			end = t.count
		}
		here := t.state(at)
		w.next(here, func(next state, m move, law string) {
			if w.watch != nil {
				before, after := here, next // which would be put on the heap each time, watched or not
				w.watch(&before, &after, m)
			}
			if f.law != "" || t.count >= most && law == "" {
				return
			}
			fresh := t.add(&next, at)
			var rest []string
			if law == "" && fresh && calm && !t.calmed(&next) {
				w.story = w.story[:0]
				end := w.heal(next)
				if end == noRoom {
					f.full++
				} else if end != "" {
					law, rest = end, append(rest, "then everything comes to rest:")
					for _, m := range w.story {
						rest = append(rest, m.String())
					}
				}
			}
			if law != "" {
				f.law = law
				f.story = slices.Concat(w.tell(t, at), []string{m.String()}, rest)
			}
		})
		if f.law != "" || t.count >= most {
			break
		}
		f.whole = at == t.count-1
	}
	if f.law != "" {
		f.depth++ // the move that breaks it
	}
	f.states, f.took = t.count, time.Since(began)
	return f
}

// tell returns the moves that lead to a state. Of several moves from its parent, the first to reach it
// counts.
func (w *world) tell(t *tree, at int) (story []string) {
	for ; at != 0; at = t.parent(at) {
		here, by := t.state(at), ""
		w.next(t.state(t.parent(at)), func(next state, m move, _ string) {
			if by == "" && next == here {
				by = m.String()
			}
		})
		story = append(story, by)
	}
	slices.Reverse(story)
	return story
}

// noRoom is what heal and silent say when the world is too small to tell.
const noRoom = "no room"

// still is the state in which nobody reads and nobody will put a ledger back.
func (s state) still() state {
	s.reading, s.backup, s.spent = reading{}, 0, 0
	return s
}

// heal lets everything come to rest: requests arrive, times end, each request is answered, and nobody else
// acts. Only reads requested by the protocol happen; then a sweep reads everything. It returns the law broken
// in the end.
func (w *world) heal(s state) (law string) {
	s = s.still()
	if law := w.rest(&s); law != "" {
		return law
	}
	if law := w.silent(&s, false); law != "" {
		return law
	}
	w.story = append(w.story, move{kind: sweeps})
	w.list(&s, nothingMissed)
	w.list(&s, nothingMissed)
	for rec, p := range s.book.payers {
		if p.link != 0 {
			shows, holds := s.shown(p.link - 1)
			w.record(&s, byte(rec), shows, holds, s.overNow(), s.book.doubt > 1)
		}
	}
	if law := w.rest(&s); law != "" {
		return law
	}
	return w.silent(&s, true)
}

// longest is how many rounds everything may take to come to rest.
const longest = 60

// rest goes on until nothing moves any more.
func (w *world) rest(s *state) (law string) {
	for range longest {
		moved, law := w.round(s)
		if law != "" || !moved {
			return law
		}
	}
	return "it never comes to rest"
}

// round lets everything happen once that happens by itself.
func (w *world) round(s *state) (moved bool, law string) {
	note := func(m move) { w.story, moved = append(w.story, m), true }
	for i, m := range s.messages {
		if m.op == 0 {
			continue
		}
		made, broken, ok := w.arrive(s, i)
		switch {
		case !ok:
			return false, noRoom
		case m.awaited:
			w.answer(s, m, made)
			note(move{kind: answered, a: byte(i)})
		default:
			note(move{kind: unanswered, a: byte(i)})
		}
		if broken != "" {
			return true, broken
		}
	}
	for i := range s.book.attempts {
		if s.timeOver(i) {
			if w.weak == timeAlone {
				s.forget(i)
			}
			note(move{kind: timeOver, a: byte(i)})
		}
	}
	if s.doubtOver() {
		note(move{kind: doubtIsOver})
	}
	for rec := range byte(2) {
		before := *s
		do, broken := w.act(s, rec, sight{miss: nothingMissed})
		if do != Nothing && *s != before {
			note(move{kind: acts, a: rec, do: do})
		}
		if broken != "" {
			return true, broken
		}
	}
	for i := range s.customers {
		s.customers[i].flags &^= fresh
		s.customers[i].was = 0
	}
	w.tidy(s)
	return moved, ""
}

// silent says what is wrong at rest without anybody being told. Before a sweep,
// only what we did ourselves counts.
func (w *world) silent(s *state, swept bool) string {
	for rec := range byte(2) {
		r, p := s.records[rec], s.book.payers[rec]
		if r == claimsNone || r == otherName {
			continue
		}
		o := Decide(*w.gather(s, rec))
		class := o.Class
		if class == Working && !slices.ContainsFunc(s.book.attempts[:], func(a tried) bool { return a.op == 0 }) {
			return noRoom
		}
		if class == Working || class == Unpassed {
			return fmt.Sprintf("%s is not served in the end: %s", oneself[rec], o.next().Line)
		}
		if len(o.Findings) > 0 {
			continue
		}
		if p.link == 0 {
			return fmt.Sprintf("%s has no customer in the end, and nobody is told", oneself[rec])
		}
		c := s.customers[p.link-1]
		switch {
		case c.flags&live != 0 && c.holds != 0 && c.holds != r:
			return fmt.Sprintf("an older value stays on the customer of %s, and nobody is told", oneself[rec])
		case !swept:
		case c.flags&(live|carries) != live|carries || c.holds != r || s.truth().carry != 1<<(p.link-1):
			return fmt.Sprintf("the customer of %s is not as it should be after a sweep, and nobody is told", oneself[rec])
		}
		if w.mandates && swept &&
			(p.mandate != s.mandates[p.link-1] || p.mandate == mandateNone || p.mandate == mandateCreated && !p.hasLink) {
			return fmt.Sprintf("%s wants a mandate and has none that is known, and nobody is told", oneself[rec])
		}
	}
	return ""
}

// retell puts a story into lines.
func retell(story []string) string {
	var b strings.Builder
	for i, line := range story {
		fmt.Fprintf(&b, "\n  %2d  %s", i+1, line)
	}
	return b.String()
}
