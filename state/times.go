package state

import (
	"database/sql"
	"time"

	"payersync/connector"
)

// layout is how the ledger writes times: UTC, fixed width, so that text order is
// time order.
const layout = "2006-01-02T15:04:05.000Z"

// stamp writes t for the ledger; the zero time becomes NULL.
func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(layout)
}

// parseTime parses the format of stamp; NULL becomes the zero time.
func parseTime(s sql.NullString) (time.Time, error) {
	if !s.Valid {
		return time.Time{}, nil
	}
	as := layout
	if len(s.String) == len(layout) && s.String[len(layout)-1] == 'Z' && s.String[len("2006-01-02T15:04:05")] == '.' {
		as = time.RFC3339 // which is the same then, and read six times as fast
	}
	t, err := time.Parse(as, s.String)
	return t, connector.Wrap(err, "read a time of the ledger")
}
