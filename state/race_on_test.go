//go:build race

package state

// underRace says that the race detector slows this binary down many times over.
const underRace = true
