package connector

import "hash/maphash"

// IDs is a set of ids as one process needs it for a while: of each id it keeps 128 bits of keyed hashes, so
// that a million take some 25 MB however long they are. Two ids that are taken for one are less likely than
// an error of the machine's memory. It is not safe for concurrent use.
type IDs struct {
	seeds [2]maphash.Seed
	set   map[[2]uint64]struct{}
}

// NewIDs returns an empty set.
func NewIDs() *IDs {
	return &IDs{[2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, map[[2]uint64]struct{}{}}
}

// Add puts an id into the set, and reports whether it was not there.
func (s *IDs) Add(id string) (added bool) {
	before := len(s.set)
	s.set[s.hash(id)] = struct{}{}
	return len(s.set) > before
}

// Has reports whether an id is in the set.
func (s *IDs) Has(id string) bool {
	_, has := s.set[s.hash(id)]
	return has
}

// Len returns how many ids there are.
func (s *IDs) Len() int { return len(s.set) }

func (s *IDs) hash(id string) [2]uint64 {
	return [2]uint64{maphash.String(s.seeds[0], id), maphash.String(s.seeds[1], id)}
}
