package letters

import (
	"strings"
	"testing"
	"time"
)

func TestAWindowOpensOnItsDaysBetweenItsTimes(t *testing.T) {
	t.Parallel()
	w, err := ParseWindow("Mon-Thu,Fri 08:30-17:00")
	if err != nil {
		t.Fatal(err)
	}
	london, err := time.LoadLocation("Europe/London")
	if err != nil {
		t.Fatal(err)
	}
	s := Settings{Window: w, Zones: map[string]*time.Location{"uk": london},
		Holidays: map[string][]Day{"uk": {{2026, 8, 31}}, "": {{2026, 5, 1}}}}
	for _, tt := range []struct {
		connection, at string
		want           bool
	}{
		{"other", "2026-11-23T08:29:59Z", false},
		{"other", "2026-11-23T08:30:00Z", true},
		{"other", "2026-11-23T16:59:59Z", true},
		{"other", "2026-11-23T17:00:00Z", false},
		{"uk", "2026-07-20T07:30:00Z", true}, // summer time
		{"uk", "2026-07-20T16:00:00Z", false},
		{"uk", "2026-11-21T12:00:00Z", false}, // Saturday
		{"uk", "2026-08-31T12:00:00Z", false}, // its holiday
		{"other", "2026-08-31T12:00:00Z", true},
		{"uk", "2026-05-01T12:00:00Z", false}, // everybody's
		{"uk", "2026-12-24T12:00:00Z", false},
		{"uk", "2026-12-25T12:00:00Z", false},
		{"uk", "2026-12-28T12:00:00Z", true},
		{"uk", "2026-12-31T12:00:00Z", false},
		{"uk", "2027-01-01T12:00:00Z", false},
	} {
		at, err := time.Parse(time.RFC3339, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.isOpen(tt.connection, at); got != tt.want {
			t.Errorf("open for %s at %s: %v, want %v", tt.connection, tt.at, got, tt.want)
		}
		if got := s.opens(tt.connection, at); got.Equal(at) != tt.want || got.Before(at) || !s.isOpen(tt.connection, got) ||
			s.isOpen(tt.connection, got.Add(-time.Minute)) && !tt.want {
			t.Errorf("for %s at %s it opens at %s", tt.connection, tt.at, got)
		}
	}
}

func TestTheNextOpeningIsInTheTimeOfTheConnectionAndSkipsHolidays(t *testing.T) {
	t.Parallel()
	w, err := ParseWindow("Mon-Fri 08:30-17:00")
	if err != nil {
		t.Fatal(err)
	}
	far := time.FixedZone("NZDT", 13*60*60)
	s := Settings{Window: w, Zones: map[string]*time.Location{"far": far}}
	for at, want := range map[string]string{
		"2026-11-27T03:59:00Z": "2026-11-27T16:59:00+13:00", // open
		"2026-11-27T04:00:00Z": "2026-11-30T08:30:00+13:00", // Friday, 17:00 there
		"2026-12-23T05:00:00Z": "2026-12-28T08:30:00+13:00",
	} {
		now, _ := time.Parse(time.RFC3339, at)
		if got := s.opens("far", now).In(far).Format(time.RFC3339); got != want {
			t.Errorf("at %s it opens at %s, want %s", at, got, want)
		}
	}
	s.Holidays = map[string][]Day{"far": nil}
	for d := (Day{2026, 11, 1}); d.Since(Day{2026, 11, 1}) < 90; d = d.Plus(1) {
		s.Holidays["far"] = append(s.Holidays["far"], d)
	}
	if got := s.opens("far", time.Date(2026, 11, 1, 0, 0, 0, 0, far)); !got.IsZero() {
		t.Errorf("with 90 holidays it opens at %s", got)
	}
}

func TestAWindowThatCannotBeUsedIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                    "days and a time",
		"Mon-Fri":             "days and a time",
		"Mo-Fr 08:30-17:00":   "no day of the week",
		"Mon-Fri 08:30":       "no time of the day",
		"Mon-Fri 17:00-08:30": "ends before it begins",
		"Mon-Fri 08:30-25:00": "no time of the day",
	} {
		if _, err := ParseWindow(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("window %q: %v, want %q in it", text, err, want)
		}
	}
}

func TestDaysAreCountedByTheCalendar(t *testing.T) {
	t.Parallel()
	from, err := ParseDay("2026-02-27")
	if err != nil {
		t.Fatal(err)
	}
	if got := from.Plus(3).String(); got != "2026-03-02" {
		t.Errorf("three days later is %s", got)
	}
	if got := from.Plus(3).Since(from); got != 3 {
		t.Errorf("%d days lie between", got)
	}
	if _, err := ParseDay("27.2.2026"); err == nil {
		t.Error("27.2.2026 was taken for a day")
	}
}
