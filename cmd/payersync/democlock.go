package main

import (
	"sync/atomic"
	"time"
)

// demoClock is the clock of the demo, its ledger and its sandbox. It starts behind the machine's clock and
// advances until it has caught up: so nothing left by the demo is from the future.
type demoClock struct {
	behind atomic.Int64 // a time.Duration
}

// newDemoClock returns a clock at nine in the morning of the day of demoBegins.
func newDemoClock() *demoClock {
	c := &demoClock{}
	now := time.Now()
	c.behind.Store(int64(now.Sub(demoBegins(now))))
	return c
}

func (c *demoClock) now() time.Time { return time.Now().Add(-time.Duration(c.behind.Load())) }

// pass advances the clock, or sets it to the machine's time if that is nearer. It reports whether the whole
// time has passed.
func (c *demoClock) pass(d time.Duration) bool {
	left := time.Duration(c.behind.Load()) - d
	c.behind.Store(int64(max(0, left)))
	return left >= 0
}

// demoDays is how many days the demo plays at least.
const demoDays = 9

// demoBegins returns the demo's beginning, so that it is over now: nine in the morning of a Monday, by UTC,
// with no holidays soon to delay letters.
func demoBegins(now time.Time) time.Time {
	now = now.UTC()
	day := time.Date(now.Year(), now.Month(), now.Day()-demoDays, 9, 0, 0, 0, time.UTC)
	for day.Weekday() != time.Monday || nearHolidays(day) {
		day = day.AddDate(0, 0, -1)
	}
	return day
}

// nearHolidays reports whether the days from this one on reach into those around the new
// year.
func nearHolidays(day time.Time) bool {
	end := day.AddDate(0, 0, demoDays-1)
	return end.Month() == time.December && end.Day() >= 24 || end.Month() == time.January && day.Month() == time.December
}
