package show

import "time"

// Time returns a time as people read it, to the minute, in their own zone, which is named;
// blank for the zero time. Other programs get UTC in RFC 3339.
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
