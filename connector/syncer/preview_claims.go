package syncer

import (
	"hash/maphash"

	"payersync/connector"
)

// claims counts the records of each key. It keeps a 64-bit hash of each key: among a million keys, a collision occurs
// in one of 30 million forecasts.
type claims struct {
	seed      maphash.Seed
	by        map[uint64]int
	elsewhere map[uint64]int // records outside the forecast; not in by until it is complete
}

func newClaims() *claims {
	return &claims{seed: maphash.MakeSeed(), by: map[uint64]int{}, elsewhere: map[uint64]int{}}
}

// hash returns the stored hash of a key; 0 for a key without a value, because nobody claims it.
func (c *claims) hash(key connector.Key) uint64 {
	if key.Value == "" {
		return 0
	}
	return maphash.Comparable(c.seed, key)
}

func (c *claims) add(hash uint64, n int) {
	if hash != 0 {
		c.by[hash] += n
	}
}

func (c *claims) of(key connector.Key) int { return c.by[c.hash(key)] }
