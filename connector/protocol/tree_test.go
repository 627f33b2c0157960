package protocol

import (
	"fmt"
	"hash/maphash"
)

// tree is the set of known states, each with the state that first led to it. It stores each state completely,
// in as many bits as its fields need, so two states are never confused.
type tree struct {
	seed  maphash.Seed
	count int
	pages []*page
	slots []uint32 // number of a state + 1, by its hash
}

// pageSize is how many states are kept together. Pages are never moved, as one
// growing slice would be.
const pageSize = 1 << 14

type page struct {
	states  [pageSize]packed
	parents [pageSize]uint32
}

func newTree() *tree { return &tree{seed: maphash.MakeSeed(), slots: make([]uint32, 1<<12)} }

func (t *tree) at(i int) *packed { return &t.pages[i/pageSize].states[i%pageSize] }

func (t *tree) state(i int) state { return t.at(i).unpack() }

func (t *tree) parent(i int) int { return int(t.pages[i/pageSize].parents[i%pageSize]) }

// slot returns the place of a state: its present or its future one.
func (t *tree) slot(p *packed) uint64 {
	mask := uint64(len(t.slots) - 1)
	at := maphash.Comparable(t.seed, *p) & mask
	for t.slots[at] != 0 && *t.at(int(t.slots[at] - 1)) != *p {
		at = (at + 1) & mask
	}
	return at
}

// add reports whether the state was not known before.
func (t *tree) add(s *state, parent int) bool {
	p := s.pack()
	at := t.slot(&p)
	if t.slots[at] != 0 {
		return false
	}
	if t.count%pageSize == 0 {
		t.pages = append(t.pages, new(page))
	}
	last := t.pages[len(t.pages)-1]
	last.states[t.count%pageSize], last.parents[t.count%pageSize] = p, uint32(parent)
	t.count++
	t.slots[at] = uint32(t.count)
	if t.count*2 > len(t.slots) {
		t.grow()
	}
	return true
}

func (t *tree) grow() {
	t.slots = make([]uint32, 2*len(t.slots))
	for i := range t.count {
		t.slots[t.slot(t.at(i))] = uint32(i) + 1
	}
}

// calmed reports whether what heal makes of a state was seen on another that came
// before. Nobody looked what it makes of the very first.
func (t *tree) calmed(s *state) bool {
	still := s.still()
	if still == *s {
		return false
	}
	p := still.pack()
	return t.slots[t.slot(&p)] > 1
}

// packed is a state in 32 bytes.
type packed [4]uint64

// pack keeps every bit of a state: what is unpacked again must be the same.
func (s *state) pack() packed {
	k := &s.book
	var p packed
	for i, c := range s.customers {
		p[0] |= (uint64(c.maker) | uint64(c.holds)<<3 | uint64(c.flags)<<5 | uint64(c.was)<<9 | uint64(s.mandates[i])<<11) << (13 * i)
	}
	p[0] |= uint64(s.records[0])<<52 | uint64(s.records[1])<<54 | uint64(s.spent)<<56
	p[1] = k.payers[0].pack() | k.payers[1].pack()<<25 | uint64(k.index)<<50 | uint64(k.alike)<<54 | uint64(k.listed)<<58 | uint64(k.unlinks)<<62
	p[2] = k.attempts[0].pack() | k.attempts[1].pack()<<13 | s.messages[0].pack()<<26 | s.messages[1].pack()<<37 | uint64(k.lists)<<48 | uint64(k.doubt)<<50
	p[3] = s.reading.pack() | uint64(s.backup)<<32
	if p.unpack() != *s {
		panic(fmt.Sprintf("a state does not fit: %+v", *s))
	}
	return p
}

func (p *packed) unpack() (s state) {
	k := &s.book
	for i := range s.customers {
		b := p[0] >> (13 * i)
		s.customers[i] = customer{maker: low(b, 3), holds: low(b>>3, 2), flags: low(b>>5, 4), was: low(b>>9, 2)}
		s.mandates[i] = low(b>>11, 2)
	}
	s.records, s.spent = [2]byte{low(p[0]>>52, 2), low(p[0]>>54, 2)}, low(p[0]>>56, 2)
	k.payers[0].unpack(p[1])
	k.payers[1].unpack(p[1] >> 25)
	k.index, k.alike, k.listed, k.unlinks = low(p[1]>>50, 4), low(p[1]>>54, 4), low(p[1]>>58, 4), low(p[1]>>62, 2)
	k.attempts[0].unpack(p[2])
	k.attempts[1].unpack(p[2] >> 13)
	s.messages[0].unpack(p[2] >> 26)
	s.messages[1].unpack(p[2] >> 37)
	k.lists, k.doubt = low(p[2]>>48, 2), low(p[2]>>50, 3)
	s.reading.unpack(p[3])
	s.backup = uint32(p[3] >> 32)
	return s
}

// pack takes 25 bits.
func (p *payer) pack() uint64 {
	return uint64(p.link) | uint64(p.confirmed)<<3 | uint64(p.answered)<<5 | uint64(p.refused)<<7 | uint64(p.shows)<<9 | uint64(p.holds)<<12 |
		uint64(p.flags)<<14 | uint64(p.mandate)<<19 | uint64(p.before)<<21 | bit(p.hasLink)<<23 | bit(p.unmoved)<<24
}

func (p *payer) unpack(b uint64) {
	*p = payer{
		link: low(b, 3), confirmed: low(b>>3, 2), answered: low(b>>5, 2), refused: low(b>>7, 2), shows: Shows(low(b>>9, 3)),
		holds: low(b>>12, 2),
		flags: low(b>>14, 5), mandate: low(b>>19, 2), before: low(b>>21, 2), hasLink: b>>23&1 != 0, unmoved: b>>24&1 != 0,
	}
}

// pack takes 13 bits.
func (a *tried) pack() uint64 {
	return uint64(a.op) | uint64(a.rec)<<2 | uint64(a.ver)<<3 | uint64(a.answered)<<5 | uint64(a.over)<<7 |
		bit(a.again)<<9 | bit(a.after)<<10 | bit(a.rests)<<11 | bit(a.old)<<12
}

func (a *tried) unpack(b uint64) {
	*a = tried{
		op: low(b, 2), rec: low(b>>2, 1), ver: low(b>>3, 2), answered: low(b>>5, 2), over: low(b>>7, 2),
		again: b>>9&1 != 0, after: b>>10&1 != 0, rests: b>>11&1 != 0, old: b>>12&1 != 0,
	}
}

// pack takes 11 bits.
func (m *message) pack() uint64 {
	return uint64(m.op) | uint64(m.rec)<<2 | uint64(m.ver)<<3 | uint64(m.customer)<<5 | bit(m.awaited)<<8 | bit(m.old)<<9 | bit(m.raced)<<10
}

func (m *message) unpack(b uint64) {
	*m = message{
		op: low(b, 2), rec: low(b>>2, 1), ver: low(b>>3, 2), customer: low(b>>5, 3),
		awaited: b>>8&1 != 0, old: b>>9&1 != 0, raced: b>>10&1 != 0,
	}
}

// pack takes 23 bits.
func (r *reading) pack() uint64 {
	return uint64(r.kind) | uint64(r.list.ids)<<2 | uint64(r.list.carry)<<6 | uint64(r.list.alike)<<10 | uint64(r.shows)<<14 | uint64(r.holds)<<17 |
		uint64(r.over)<<19 | bit(r.doubt)<<21 | bit(r.stale)<<22
}

func (r *reading) unpack(b uint64) {
	*r = reading{
		kind: low(b, 2), list: listing{ids: low(b>>2, 4), carry: low(b>>6, 4), alike: low(b>>10, 4)},
		shows: Shows(low(b>>14, 3)), holds: low(b>>17, 2),
		over: low(b>>19, 2), doubt: b>>21&1 != 0, stale: b>>22&1 != 0,
	}
}

// low returns the lowest bits.
func low(b uint64, bits int) byte { return byte(b & (1<<bits - 1)) }

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
