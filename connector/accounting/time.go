package accounting

import "time"

// EditTime returns a time of last edit in UTC; the zero time outside of the years 1 to 9999, which no ledger
// can store. The time decides nothing, so the record is read all the same.
func EditTime(t time.Time) time.Time {
	if t = t.UTC(); t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}
