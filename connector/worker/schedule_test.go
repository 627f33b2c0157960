package worker

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestScheduleThatCannotBeUsedIsRefusedInPlainWords(t *testing.T) {
	t.Parallel()
	tests := []struct{ spec, why string }{
		{"", "it has 0 fields, not 5"},
		{"* * * *", "it has 4 fields, not 5"},
		{"* 25 * * *", `"25" is no hour`},
		{"*/0 * * * *", `"*/0" is no minute`},
		{"0 0 * * mo", `"mo" is no day of week`},
		{"0 0 31 2 *", "such a time never comes"},
		{", * * * *", "such a time never comes"},
		{"@sometimes", `"@sometimes" is no schedule with a name`},
		{"@every", `"@every" is no schedule with a name`},
		{"@every soon", `"soon" is no duration of at least a second`},
		{"@every 0s", `"0s" is no duration of at least a second`},
		{"@every -5m", `"-5m" is no duration of at least a second`},
		{"TZ=0", "nothing follows the time zone"},
		{"CRON_TZ=Europe/London", "nothing follows the time zone"},
		{"CRON_TZ=Europe/London\t", "nothing follows the time zone"},
		{"CRON_TZ=Mars/Olympus * * * * *", `"Mars/Olympus" is no time zone known here`},
		{"CRON_TZ= * * * * *", `"" is no time zone known here`},
		{"CRON_TZ=Local * * * * *", `"Local" is no time zone known here`},
		{"CRON_TZ=UTC TZ=0", "it has 1 fields, not 5"},
	}
	for _, tt := range tests {
		t.Run(tt.spec, func(t *testing.T) {
			t.Parallel()
			s, err := ParseSchedule(tt.spec)
			if err == nil {
				t.Fatalf("ParseSchedule(%q) = %v, want an error", tt.spec, s)
			}
			if !strings.Contains(err.Error(), tt.why) || !strings.Contains(err.Error(), "write five fields") {
				t.Errorf("ParseSchedule(%q): %v\nwant it to say: %s", tt.spec, err, tt.why)
			}
		})
	}
}

// covers F72
func TestScheduleKeepsItsTimeZoneThroughSummerTime(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, spec, from string
		want             []string
	}{
		{"UTC unless a zone is named", "30 1 * * *", "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T01:30:00Z", "2026-03-30T01:30:00Z"}},
		{"London moves with summer time", "CRON_TZ=Europe/London 30 12 * * *", "2026-03-28T13:00:00Z",
			[]string{"2026-03-29T11:30:00Z", "2026-03-30T11:30:00Z"}},
		{"a time that is left out is skipped", "CRON_TZ=Europe/London 30 1 * * *", "2026-03-28T12:00:00Z",
			[]string{"2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z"}},
		{"a time that is repeated comes twice", "CRON_TZ=Europe/London 30 1 * * *", "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"}},
		{"blanks do not matter", "  TZ=Europe/London \t @daily ", "2026-07-01T12:00:00Z",
			[]string{"2026-07-01T23:00:00Z", "2026-07-02T23:00:00Z"}},
		{"29 February is waited for", "0 0 29 2 *", "2026-01-01T00:00:00Z",
			[]string{"2028-02-29T00:00:00Z"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := ParseSchedule(tt.spec)
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, tt.from)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for range tt.want {
				at = s.Next(at)
				got = append(got, at.UTC().Format(time.RFC3339))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("times after %s (-want +got):\n%s", tt.from, diff)
			}
		})
	}
}

func FuzzParseSchedule(f *testing.F) {
	for _, spec := range []string{
		"*/15 * * * *", "TZ=0", "CRON_TZ=Europe/London", "CRON_TZ=Europe/London 30 2 * * *", "0 0 31 2 *", "@every 1h",
		"@daily", "1-5,7/2 ? * jan-mar SUN", "@every 9999999h", ", * * * *", "TZ=../../etc/passwd * * * * *", "* * * * * *",
	} {
		f.Add(spec)
	}
	from := time.Date(2026, time.March, 28, 23, 59, 59, 5, time.UTC)
	f.Fuzz(func(t *testing.T, spec string) {
		s, err := ParseSchedule(spec)
		if err != nil {
			return
		}
		if next := s.Next(from); !next.After(from) {
			t.Errorf("%q comes at %s, not after %s", spec, next, from)
		}
	})
}
