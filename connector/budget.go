package connector

import "time"

// Limits is the request budget of one organisation at a remote system; 0 stands
// for no limit.
type Limits struct {
	PerMinute  int
	PerDay     int
	Concurrent int // requests in flight

	// The lengths of the two windows, for systems that count in others; 0 for a minute and a day.
	Minute, Day time.Duration
}

// Turn is the ledger's answer to an application for one request of a budget.
type Turn struct {
	ID        int64     // for ending it; 0 if nothing must be returned
	NotBefore time.Time // zero when the turn is granted, else when to ask again
	Parked    bool      // the remote system itself, or a day's limit, requires the wait
}
