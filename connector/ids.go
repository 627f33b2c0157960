package connector

import "hash/maphash"

// IDs is a set of ids as one process needs it for a while: of each id it keeps 95 bits of keyed hashes, so
// that a million take 15 to 23 MB however long they are. Two of a million that are taken for one are less likely
// than an error of the machine's memory. It is not safe for concurrent use.
type IDs struct {
	seeds  [2]maphash.Seed
	shards [256][]idHash // each a table with open addressing; it grows by itself, so that no growth takes much
	in     [256]int      // how many are in each
	count  int
}

// idHash is what is kept of an id. The first part says where in its table it belongs, the second in which table, and
// the third is never 0.
type idHash [3]uint32

// NewIDs returns an empty set.
func NewIDs() *IDs {
	return &IDs{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// Add puts an id into the set, and reports whether it was not there.
func (s *IDs) Add(id string) (added bool) {
	hash := s.hash(id)
	shard := hash[1] >> 24
	if slots := s.shards[shard]; 5*(s.in[shard]+1) > 4*len(slots) {
		larger := make([]idHash, max(8, len(slots)*3/2))
		for _, h := range slots {
			if h != free {
				*slotOf(larger, h) = h
			}
		}
		s.shards[shard] = larger
	}
	slot := slotOf(s.shards[shard], hash)
	if *slot == hash {
		return false
	}
	*slot = hash
	s.in[shard]++
	s.count++
	return true
}

// Has reports whether an id is in the set.
func (s *IDs) Has(id string) bool {
	hash := s.hash(id)
	slots := s.shards[hash[1]>>24]
	return len(slots) > 0 && *slotOf(slots, hash) == hash
}

// Len returns how many ids there are.
func (s *IDs) Len() int { return s.count }

// free is what is in a slot that is not taken.
var free idHash

// slotOf returns the slot that holds a hash, or else the free one where it belongs. A fifth of all are free.
func slotOf(slots []idHash, hash idHash) *idHash {
	at := uint64(hash[0]) * uint64(len(slots)) >> 32
	for slots[at] != free && slots[at] != hash {
		if at++; at == uint64(len(slots)) {
			at = 0
		}
	}
	return &slots[at]
}

func (s *IDs) hash(id string) idHash {
	a, b := maphash.String(s.seeds[0], id), maphash.String(s.seeds[1], id)
	return idHash{uint32(a >> 32), uint32(b >> 32), uint32(a) | 1} //nolint:gosec // parts of it
}
