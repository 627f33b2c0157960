package billing

import (
	"slices"
	"strings"
)

// About says what events of a type are about, as far as their name tells.
type About int

// What events are about. Followed are customers and mandates; left are payments, invoices and
// the biller itself, whose truth others keep.
const (
	AboutUnknown About = iota
	AboutFollowed
	AboutLeft
)

// Known reports whether a type says what its events are about, or a person has said that it
// is known.
func (p EventPaths) Known(eventType string) bool {
	return EventAbout(eventType) != AboutUnknown || slices.Contains(p.Settled, eventType)
}

// EventAbout returns what events of a type are about. No list of the types is public, so the
// words in a name decide.
func EventAbout(eventType string) About {
	name := strings.ToLower(eventType)
	has := func(word string) bool { return strings.Contains(name, word) }
	switch {
	case has("mandate") || has("customer"):
		return AboutFollowed
	case has("payment") || has("invoice") || has("biller"):
		return AboutLeft
	}
	return AboutUnknown
}
