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

// longestQuiet is the number of days in which a window is looked for. A window has at least one day of the week, and
// holidays may fall on it for some weeks.
const longestQuiet = 60

// opens returns the first moment, from now on, at which letters to payers of a connection may leave; the zero time
// when there is none in the next 60 days.
func (s *Settings) opens(connection string, now time.Time) time.Time {
	if s.isOpen(connection, now) {
		return now
	}
	zone := s.zone(connection)
	local := now.In(zone)
	for days := range longestQuiet {
		day := DayOf(local).Plus(days)
		from := time.Date(day.Year, day.Month, day.Day, s.Window.From/60, s.Window.From%60, 0, 0, zone)
		if !s.isQuiet(connection, day) && from.After(now) {
			return from
		}
	}
	return time.Time{}
}

// Opens returns the first moment, from the look on, at which letters of any connection may leave. It is the moment of
// the look while the window is open, and the zero time when no window opens in the next 60 days.
func (d *Desk) Opens(p *Plan) (first time.Time) {
	for name := range p.setups {
		if t := d.Settings.opens(name, p.At); !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}
