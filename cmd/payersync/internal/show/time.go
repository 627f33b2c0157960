package show

import (
	"time"

	"payersync/connector"
)

// Time returns a time for people, to the minute, in their own zone with its name; blank for the zero time.
// Other programs get UTC in RFC 3339.
func Time(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.Local().Format("2006-01-02 15:04 MST")
}

// Stored is Time for a time as the ledger has it.
func Stored(text string) string {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return Time(at)
}

// Ago returns how long ago something was, as people say it.
func Ago(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return connector.Plural(int(d/time.Second), "second") + " ago"
	case d < 2*time.Hour:
		return connector.Plural(int(d/time.Minute), "minute") + " ago"
	case d < 48*time.Hour:
		return connector.Plural(int(d/time.Hour), "hour") + " ago"
	}
	return connector.Plural(int(d/(24*time.Hour)), "day") + " ago"
}
