//go:build race

package match

// slow says that the race detector makes everything take many times as long.
const slow = true
