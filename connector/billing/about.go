package billing

import (
	"slices"
	"strings"
)

// About returns the subject of a type's events, by its name.
type About int

// The subjects of events. payersync follows customers and mandates. It ignores payments, invoices and the biller: other
// systems own these.
const (
	AboutUnknown About = iota
	AboutFollowed
	AboutLeft
)

// Known reports whether the subject of a type's events is known, or a person has marked the type as settled.
func (p EventPaths) Known(eventType string) bool {
	return EventAbout(eventType) != AboutUnknown || slices.Contains(p.Settled, eventType)
}

// EventAbout returns the subject of a type's events. No list of the types is public, so the words in a name
// decide.
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
