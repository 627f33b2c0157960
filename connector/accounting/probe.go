package accounting

import (
	"fmt"
	"net/http"
	"time"
)

// Probe is one finding of `payersync check` about a source.
type Probe struct {
	Name   string // credentials, tenant, permissions, clock, one page
	OK     bool
	Detail string // in words, without personal values; with the next step if it is not OK
}

// maxSkew is the largest tolerated difference of two clocks: half of the overlap of reading positions.
const maxSkew = 150 * time.Second

// ProbeClock compares this machine's clock with the Date header of an answer received at now.
func ProbeClock(date string, now time.Time) Probe {
	theirs, err := http.ParseTime(date)
	if err != nil {
		return Probe{"clock", true, "the accounting system does not tell its time"}
	}
	skew := now.Sub(theirs).Round(time.Second)
	if skew.Abs() > maxSkew {
		return Probe{"clock", false,
			fmt.Sprintf("this machine's clock differs from the accounting system's by %s; set it, or edits may be missed",
				skew.Abs())}
	}
	return Probe{"clock", true, fmt.Sprintf("within %s of the accounting system's", max(skew.Abs(), time.Second))}
}
