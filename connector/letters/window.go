package letters

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

var weekdays = []string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"} // by time.Weekday

func parseWindow(text string) (w Window, err error) {
	fields := strings.Fields(text)
	if len(fields) != 2 {
		return w, errors.New("it is not days and a time of the day")
	}
	for part := range strings.SplitSeq(fields[0], ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, to := slices.Index(weekdays, first), slices.Index(weekdays, last)
		if from < 0 || to < 0 {
			return w, fmt.Errorf("%q is no day of the week", part)
		}
		for d := from; ; d = (d + 1) % 7 {
			if w.Days[d] = true; d == to {
				break
			}
		}
	}
	from, to, _ := strings.Cut(fields[1], "-")
	if w.From, err = minutes(from); err != nil {
		return w, err
	}
	if w.To, err = minutes(to); err != nil {
		return w, err
	}
	if w.To <= w.From {
		return w, errors.New("it ends before it begins")
	}
	return w, nil
}

func minutes(text string) (int, error) {
	if text == "24:00" {
		return 24 * 60, nil
	}
	t, err := time.Parse("15:04", text)
	if err != nil {
		return 0, fmt.Errorf("%q is no time of the day", text)
	}
	return t.Hour()*60 + t.Minute(), nil
}

// zone returns the time zone of a connection's payers.
func (s *Settings) zone(connection string) *time.Location {
	if z := s.Zones[connection]; z != nil {
		return z
	}
	return time.UTC
}

// isQuiet reports whether nothing is sent on a day, at any time.
func (s *Settings) isQuiet(connection string, d Day) bool {
	switch {
	case !s.Window.Days[d.noon().Weekday()]:
		return true
	case d.Month == time.December && (d.Day >= 24 && d.Day <= 26 || d.Day == 31), d.Month == time.January && d.Day == 1:
		return true
	}
	return slices.Contains(s.Holidays[connection], d) || slices.Contains(s.Holidays[""], d)
}

// isOpen reports whether letters to payers of a connection may leave at a moment.
func (s *Settings) isOpen(connection string, now time.Time) bool {
	local := now.In(s.zone(connection))
	minute := local.Hour()*60 + local.Minute()
	return !s.isQuiet(connection, DayOf(local)) && minute >= s.Window.From && minute < s.Window.To
}
