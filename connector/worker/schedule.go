package worker

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// ParseSchedule reads a cron schedule: five fields (minute, hour, day of month, month, day of week), or
// @hourly, @daily, @weekly, @monthly, @yearly, or @every with a duration of at least a second. Times are UTC
// unless the schedule begins with CRON_TZ= and the name of a time zone; there, a time missing on the day of
// the change to summer time is skipped, and a time repeated by the change back comes twice. Jobs must bear
// both, so UTC is the better choice.
//
// An unreadable schedule, or one without any time, is refused with an error for its author.
func ParseSchedule(spec string) (cron.Schedule, error) {
	schedule, why := readSchedule(strings.Join(strings.Fields(spec), " "))
	if why != nil {
		return nil, fmt.Errorf("the schedule %q cannot be used: %w; write five fields (minute, hour, day of month, month, day of week), "+
			`for example "*/15 * * * *", or "CRON_TZ=Europe/London 30 2 * * *"`, spec, why)
	}
	return schedule, nil
}

var fieldNames = []string{"minute", "hour", "day of month", "month", "day of week"}

// readSchedule returns the schedule, or why there is none. The parser is only
// given what it does not panic on: it slices a zone up to a blank without
// looking whether there is one.
func readSchedule(spec string) (cron.Schedule, error) {
	zone, rest, err := cutZone(spec)
	if err != nil {
		return nil, err
	}
	if name, every, ok := strings.Cut(rest, " "); ok && name == "@every" {
		if d, err := time.ParseDuration(every); err != nil || d < time.Second {
			return nil, fmt.Errorf("%q is no duration of at least a second", every)
		}
	}
	schedule, err := cron.ParseStandard("CRON_TZ=" + zone + " " + rest)
	if err != nil {
		return nil, explain(rest)
	}
	if schedule.Next(anyDay).IsZero() {
		return nil, errors.New("such a time never comes")
	}
	return schedule, nil
}

// anyDay is the start of the search for a schedule's first time. Cron looks five years ahead from it, across
// two leap days.
var anyDay = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// cutZone returns the time zone of a schedule, UTC for none, and the rest. It refuses the zone "Local", whose
// meaning depends on cron's caller.
func cutZone(spec string) (zone, rest string, err error) {
	_, zoned, found := strings.Cut(spec, "TZ=")
	if !found || !strings.HasPrefix(spec, "TZ=") && !strings.HasPrefix(spec, "CRON_TZ=") {
		return "UTC", spec, nil
	}
	zone, rest, _ = strings.Cut(zoned, " ")
	if rest == "" {
		return "", "", errors.New("nothing follows the time zone")
	}
	if _, err := time.LoadLocation(zone); err != nil || zone == "" || zone == time.Local.String() {
		return "", "", fmt.Errorf("%q is no time zone known here", zone)
	}
	return zone, rest, nil
}

// explain says in plain words why cron refused a schedule: it names the first field with an error of its own.
func explain(spec string) error {
	fields := strings.Fields(spec)
	if strings.HasPrefix(spec, "@") {
		return fmt.Errorf("%q is no schedule with a name", fields[0])
	}
	if len(fields) != len(fieldNames) {
		return fmt.Errorf("it has %d fields, not %d", len(fields), len(fieldNames))
	}
	for i, field := range fields {
		alone := []string{"*", "*", "*", "*", "*"}
		alone[i] = field
		if _, err := cron.ParseStandard(strings.Join(alone, " ")); err != nil {
			return fmt.Errorf("%q is no %s", field, fieldNames[i])
		}
	}
	return errors.New("it is not understood")
}
