package syncer

import (
	"fmt"
	"math"
	"strings"

	"payersync/connector"
	"payersync/state"
)

// Guards are the limits for plans: a plan above them waits for a person (fault F74). The counts cover the whole plan
// without changes already approved or left out.
type Guards struct {
	MaxChanges      Limit // existing customers with changes
	MaxChangesFloor int   // MaxChanges, MaxIdentity, MaxMissing and MaxHolds are never less than this
	MaxCreates      int   // new customers
	MaxBlanks       int   // emptied fields
	MaxIdentity     Limit // customers with a changed name or e-mail address
	MaxMissing      Limit // known records missing from a full reading
	MaxHolds        Limit // payers of earlier plans newly on hold or excluded

	// FirstMatching blocks creates of a connection without linked customers while the service has unmatched customers,
	// until a person has finished matching.
	FirstMatching bool

	// SameBooks blocks creates of a connection while its records look like the payers of another connection,
	// until a person has answered whether both read the same company.
	SameBooks bool

	// HoldOnlyAbove holds back only the kinds of change above their limits. Otherwise the whole plan waits.
	HoldOnlyAbove bool
}

// Limit is a count, or a percentage if Percent is set. The percentage is of the linked customers, for MaxMissing of the
// known records, and for MaxHolds of the payers of earlier plans.
type Limit struct {
	Count   int
	Percent float64
}

// Of returns the limit for a total of n.
func (l Limit) Of(n int) int {
	if l.Percent > 0 {
		return int(math.Ceil(float64(n) * l.Percent / 100))
	}
	return l.Count
}

// Exceeded describes the exceeded limits, one sentence each, and the changes in need of separate approval; "" for none.
// linked is the number of linked customers.
func (g Guards) Exceeded(w state.Weight, linked int) string {
	var over []string
	for _, c := range g.checks(w, linked) {
		if c.n > c.limit {
			over = append(over, fmt.Sprintf("%s %s (the limit is %d).", c.counted, c.what, c.limit))
		}
	}
	if w.LeftOut > 0 {
		over = append(over, state.LeftOut(w.LeftOut))
	}
	return strings.Join(over, " ")
}

// Over returns the limits exceeded by a plan.
func (g Guards) Over(w state.Weight, linked int) (o state.Over) {
	for _, c := range g.checks(w, linked) {
		*c.over(&o) = c.n > c.limit
	}
	return o
}

// check compares a number of a plan with its limit.
type check struct {
	n, limit int
	counted  string // n and its unit
	what     string // its problem
	over     func(*state.Over) *bool
}

func (g Guards) checks(w state.Weight, linked int) []check {
	addresses := "addresses"
	if w.Identity == 1 {
		addresses = "address"
	}
	return []check{
		{w.Creates, g.MaxCreates, connector.Plural(w.Creates, "customer"), "would be created", func(o *state.Over) *bool { return &o.Creates }},
		{w.Changes, max(g.MaxChanges.Of(linked), g.MaxChangesFloor), connector.Plural(w.Changes, "change") + " to existing customers", "would be sent, signing links included", func(o *state.Over) *bool { return &o.Changes }},
		{w.Blanks, g.MaxBlanks, connector.Plural(w.Blanks, "field"), "would be emptied", func(o *state.Over) *bool { return &o.Blanks }},
		{w.Identity, max(g.MaxIdentity.Of(linked), g.MaxChangesFloor), connector.Plural(w.Identity, "name") + " or e-mail " + addresses, "would change", func(o *state.Over) *bool { return &o.Identity }},
		{w.Scopes, 0, connector.Plural(w.Scopes, "customer"), "would get the organisation written beside the key that they carry", func(o *state.Over) *bool { return &o.Scopes }},
	}
}

// Missing describes a full reading with too few of the known records; "" within the limit. An empty reading always
// exceeds it, even for few records: a revoked permission or an export without rows looks the same. For a source with
// deliberately partial readings, only this case counts.
func (g Guards) Missing(unseen, known int, partial bool) string {
	limit := max(g.MaxMissing.Of(known), g.MaxChangesFloor)
	switch {
	case known > 0 && unseen == known:
		return fmt.Sprintf("A full reading of the accounting system shows none of the %s.", connector.Plural(known, "known record"))
	case unseen > limit && !partial:
		return fmt.Sprintf("%d of %s are missing from a full reading of the accounting system (the limit is %d).", unseen, connector.Plural(known, "known record"), limit)
	}
	return ""
}

// Losses describes a plan with too many former payers on hold or excluded; "" within the limit. A plan
// without any payers left always exceeds it, even for few payers: a mistake in a mapping or a renamed column
// looks the same.
func (g Guards) Losses(l state.Losses) string {
	limit := max(g.MaxHolds.Of(l.Of), g.MaxChangesFloor)
	what := "on hold or excluded"
	switch {
	case l.LeftOut == 0:
		what = "on hold"
	case l.Held == 0:
		what = "excluded"
	}
	switch {
	case l.Lost() > 0 && l.Remain == 0:
		return fmt.Sprintf("%d of %s would be %s, which leaves none.", l.Lost(), connector.Plural(l.Of, "payer"), what)
	case l.Lost() > limit:
		return fmt.Sprintf("%d of %s would be %s (the limit is %d).", l.Lost(), connector.Plural(l.Of, "payer"), what, limit)
	}
	return ""
}

func (g Guards) tooMany(l state.Losses) bool { return g.Losses(l) != "" }

// stops describes all exceeded limits of a plan.
func (g Guards) stops(l state.Losses, w state.Weight, linked int) string {
	return strings.TrimSpace(g.Losses(l) + " " + g.Exceeded(w, linked))
}

// Standstill is the error of a run stopped before sending. The source showed far fewer records than known, or far fewer
// of them make payers.
type Standstill struct{ Plan state.Plan }

// Error says what is missing, and what a person may do about it.
func (e *Standstill) Error() string {
	if e.Plan.Lost > 0 {
		return fmt.Sprintf("%s Nothing is sent. See whom and why: payersync plans show %d; put the mapping or the records right, "+
			"or if it is meant, let them go: payersync approve %[2]d", e.Plan.Limits, e.Plan.ID)
	}
	return fmt.Sprintf("%s None of them counts as gone, and nothing was planned. See what the connected user may read or what was exported; "+
		"if they are meant to be gone, let them go: payersync approve %d", e.Plan.Limits, e.Plan.ID)
}
