package syncer

import (
	"fmt"
	"math"
	"strings"

	"payersync/state"
)

// Guards are the limits above which a plan waits for a person (fault F74).
// Changes are counted over the whole plan; what was approved no longer counts.
type Guards struct {
	MaxChanges      Limit // customers that exist and would be touched
	MaxChangesFloor int   // MaxChanges and MaxIdentity are never less than this
	MaxCreates      int   // customers that would be made
	MaxBlanks       int   // fields that would be emptied
	MaxIdentity     Limit // customers whose name or e-mail address would change
}

// Limit is a count, or a percentage of the linked customers when Percent is set.
type Limit struct {
	Count   int
	Percent float64
}

// Of returns the limit for n linked customers.
func (l Limit) Of(n int) int {
	if l.Percent > 0 {
		return int(math.Ceil(float64(n) * l.Percent / 100))
	}
	return l.Count
}

// Exceeded says in words which limits the plan is above, one sentence each; ""
// when it is within all of them. linked is how many customers are linked now.
func (g Guards) Exceeded(w state.Weight, linked int) string {
	var over []string
	for _, check := range []struct {
		n, limit int
		what     string
	}{
		{w.Creates, g.MaxCreates, "customers would be created"},
		{w.Changes, max(g.MaxChanges.Of(linked), g.MaxChangesFloor), "existing customers would be changed"},
		{w.Blanks, g.MaxBlanks, "fields would be emptied"},
		{w.Identity, max(g.MaxIdentity.Of(linked), g.MaxChangesFloor), "names or e-mail addresses would change"},
	} {
		if check.n > check.limit {
			over = append(over, fmt.Sprintf("%d %s (the limit is %d).", check.n, check.what, check.limit))
		}
	}
	return strings.Join(over, " ")
}
