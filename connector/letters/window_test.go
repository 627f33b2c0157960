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
	s := Settings{Window: w, Zones: map[string]*time.Location{"uk": london}, Holidays: map[string][]Day{"uk": {{2026, 8, 31}}, "": {{2026, 5, 1}}}}
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
