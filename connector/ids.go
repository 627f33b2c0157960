package connector

import (
	"hash/maphash"
	"slices"
	"strings"
)

// IDs is a set of ids. It keeps 96 bits of keyed hashes of each, sorted: a million ids take about 17 MB, regardless of
// their length. A map of the hashes would take 38 MB, and a map of the ids 104 MB. It is not safe for concurrent use.
type IDs struct {
	seeds   [2]maphash.Seed
	buckets [1024][]idHash // by the first bits of the hash, so that little moves when one is put in
	count   int
	few     []string // the first of them, up to fewIDs
}

// fewIDs is how many ids a set keeps whole.
const fewIDs = 256

// idHash is the set's hash of an id.
type idHash [3]uint32

// NewIDs returns an empty set.
func NewIDs() *IDs {
	return &IDs{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// Add puts an id into the set, and reports whether it was not there.
func (s *IDs) Add(id string) (added bool) {
	hash, bucket, at, found := s.find(id)
	if !found {
		*bucket = slices.Insert(*bucket, at, hash)
		if s.count++; s.count <= fewIDs {
			s.few = append(s.few, strings.Clone(id))
		}
	}
	return !found
}

// Has reports whether an id is in the set.
func (s *IDs) Has(id string) bool {
	_, _, _, found := s.find(id)
	return found
}

// Few returns the ids of a small set in the order in which they came, and reports whether the set is small.
func (s *IDs) Few() (ids []string, small bool) { return s.few, s.count <= fewIDs }

// Len returns how many ids there are.
func (s *IDs) Len() int { return s.count }

// find returns the position of an id in its bucket, or the position to insert it.
func (s *IDs) find(id string) (hash idHash, bucket *[]idHash, at int, found bool) {
	a, b := maphash.String(s.seeds[0], id), maphash.String(s.seeds[1], id)
	hash = idHash{uint32(a >> 32), uint32(a), uint32(b)} //nolint:gosec // parts of it
	bucket = &s.buckets[hash[0]>>22]
	at, found = slices.BinarySearchFunc(*bucket, hash, func(a, b idHash) int { return slices.Compare(a[:], b[:]) })
	return hash, bucket, at, found
}
