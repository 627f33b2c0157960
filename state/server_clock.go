package state

import (
	"context"
	"fmt"
	"time"
)

// heardTime is a reading of the database's clock, with the local time of the reading.
type heardTime struct {
	said time.Time
	here time.Time // by the clock of this machine that nobody sets
}

// noteTime stores a reading of the database's clock.
func (s *Server) noteTime(said time.Time) {
	s.heard.Store(&heardTime{said.UTC(), time.Now()}) //nolint:forbidigo // it measures how long ago that was, and tells no time
}

// Now returns the time by the database's clock: its last reading, renewed by every write and every
// check for deliveries, plus the time since. All nodes use the same time, regardless of their own
// clocks.
func (s *Server) Now() time.Time {
	r := s.heard.Load()
	return r.said.Add(time.Since(r.here)) //nolint:forbidigo // see noteTime
}

// firstTime hears the database's clock for the first time.
func (s *Server) firstTime(ctx context.Context) error {
	var now time.Time
	if err := s.read.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return fmt.Errorf("ask the database for the time: %w", err)
	}
	s.noteTime(now)
	return nil
}
