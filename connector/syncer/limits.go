package syncer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"payersync/connector"
	"payersync/state"
	"strconv"
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
		{w.Creates, g.MaxCreates, connector.Plural(w.Creates, "customer"), "would be created",
			func(o *state.Over) *bool { return &o.Creates }},
		{w.Changes, max(g.MaxChanges.Of(linked), g.MaxChangesFloor), connector.Plural(w.Changes, "change") +
			" to existing customers", "would be sent, signing links included", func(o *state.Over) *bool { return &o.Changes }},
		{w.Blanks, g.MaxBlanks, connector.Plural(w.Blanks, "field"), "would be emptied",
			func(o *state.Over) *bool { return &o.Blanks }},
		{w.Identity, max(g.MaxIdentity.Of(linked), g.MaxChangesFloor), connector.Plural(w.Identity, "name") + " or e-mail " +
			addresses, "would change", func(o *state.Over) *bool { return &o.Identity }},
		{w.Scopes, 0, connector.Plural(w.Scopes, "customer"),
			"would get the organisation written beside the key that they carry", func(o *state.Over) *bool { return &o.Scopes }},
	}
}

// Missing describes a full reading with too few of the known records; "" within the limit. An empty reading always
// exceeds it, even for few records: a revoked permission or an export without rows looks the same. For a source with
// deliberately partial readings, only this case counts.
func (g Guards) Missing(unseen, known int, partial bool) string {
	limit := max(g.MaxMissing.Of(known), g.MaxChangesFloor)
	switch {
	case known > 0 && unseen == known:
		return fmt.Sprintf("A full reading of the accounting system shows none of the %s.",
			connector.Plural(known, "known record"))
	case unseen > limit && !partial:
		return fmt.Sprintf("%d of %s are missing from a full reading of the accounting system (the limit is %d).", unseen,
			connector.Plural(known, "known record"), limit)
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
		return e.Plan.Limits + " Nothing is sent. Look at the plan, and put the mapping or the records right. If it is meant, approve the plan."
	}
	return e.Plan.Limits + " None of them counts as gone, and nothing was planned. See what the connected user may read or what was exported. If they are meant to be gone, approve the plan."
}

// Steps returns the steps of a person on the plan.
func (e *Standstill) Steps() []connector.Step {
	steps := StepsOfPlan(e.Plan.ID)
	if e.Plan.Lost > 0 {
		return steps
	}
	return steps[1:] // the plan has no change to show
}

// StepsOfPlan returns the steps that show a plan and approve it.
func StepsOfPlan(id int64) []connector.Step {
	of := strconv.FormatInt(id, 10)
	return []connector.Step{{Do: connector.DoShowPlan, Of: of}, {Do: connector.DoApprovePlan, Of: of}}
}

// guard checks the plan against the limits. A plan above them needs approval and waits until then. If the operator has
// enabled it and nobody has rejected the plan, kinds of change within their own limits go ahead. Changes left out by a
// person always wait. A rejected plan is not offered again. If the plan would lose too many payers, all of it waits and
// the run stands still.
func (r *run) guard(ctx context.Context, plan state.Plan) (state.Plan, error) {
	linked := 0
	if plan.Open.Changes+plan.Open.Identity > 0 { // of nothing, the share is nothing
		var err error
		if linked, err = r.Ledger.LinkedCount(ctx, r.conn.Name); err != nil {
			return plan, err
		}
	}
	var err error
	if plan.Stops, err = r.stopsOf(ctx, plan); err != nil {
		return plan, err
	}
	// regardless of the limits
	waits := strings.TrimSpace(state.LeftOut(plan.Open.LeftOut) + " " + state.StopsText(plan.Stops))
	plan.Limits = strings.TrimSpace(r.Settings.Guards.stops(plan.Losses, plan.Open, linked) + " " +
		state.StopsText(plan.Stops))
	if r.edited {
		plan.Limits = strings.TrimSpace(state.WhyEdited + " " + plan.Limits)
	}
	if plan.Lost > 0 && (r.opts.Approve == nil || r.opts.Kind == connector.RunPlan) {
		return plan, r.standStill(ctx, plan)
	}
	if plan.State == state.PlanRejected {
		r.addNote(Rejected(plan))
		return plan, nil
	}
	if r.edited && (r.opts.Approve == nil || r.opts.Kind == connector.RunPlan) {
		plan.State = state.PlanWaiting
		return plan, r.setPlan(ctx, plan, plan.State)
	}
	if r.opts.Approve == nil {
		if err := r.letWithin(ctx, &plan, linked); err != nil {
			return plan, err
		}
	}
	if r.opts.Kind == connector.RunPlan {
		switch {
		case plan.Limits != "":
			plan.State = state.PlanWaiting
		case plan.State == state.PlanWaiting:
			plan.State = state.PlanDraft // the limits were raised
		}
		return plan, r.setPlan(ctx, plan, plan.State)
	}
	if plan.Limits == "" {
		return plan, r.Ledger.DoAlone(ctx, func(tx *state.Tx) error { return tx.ApproveWithinLimits(plan.ID) })
	}
	if plan.Limits == waits { // everything else is within the limits
		return plan, r.Ledger.DoAlone(ctx, func(tx *state.Tx) error {
			return errors.Join(tx.ApproveWithinLimits(plan.ID), tx.SetPlanState(plan.ID, state.PlanWaiting, waits))
		})
	}
	return r.askApproval(ctx, plan, waits)
}

// askApproval asks for approval of a plan above the limits. Without approval the plan waits. With approval, only the
// changes on hold for other reasons wait.
func (r *run) askApproval(ctx context.Context, plan state.Plan, waits string) (state.Plan, error) {
	if r.opts.Approve == nil {
		return plan, r.setPlan(ctx, plan, state.PlanWaiting)
	}
	approved, err := r.opts.Approve(plan)
	if err != nil {
		return plan, err
	}
	switch {
	case !approved && plan.Lost > 0:
		return plan, r.standStill(ctx, plan)
	case !approved:
		return plan, r.setPlan(ctx, plan, state.PlanWaiting)
	case plan.Lost > 0:
		r.addNote(fmt.Sprintf("%s They were let go, as plan %d says.", r.Settings.Guards.Losses(plan.Losses), plan.ID))
	}
	r.edited = false // the approval accepts the profile
	if waits != "" {
		plan.Limits = waits
		return plan, r.Ledger.DoAlone(ctx, func(tx *state.Tx) error { return tx.ApproveOpen(plan.ID, r.opts.Actor, waits) })
	}
	if err := r.Ledger.DoAlone(ctx, func(tx *state.Tx) error {
		// Refused changes planned again make the same plan as one approved earlier.
		if err := tx.SetPlanState(plan.ID, state.PlanWaiting, plan.Limits); err != nil {
			return err
		}
		return tx.Approve(plan.ID, r.opts.Actor)
	}); err != nil {
		return plan, err
	}
	plan.State, plan.Limits = state.PlanApproved, ""
	return plan, nil
}

// standStill leaves a plan to a person because it would lose too many payers.
func (r *run) standStill(ctx context.Context, plan state.Plan) error {
	plan.State = state.PlanWaiting
	if err := r.setPlan(ctx, plan, plan.State); err != nil {
		return err
	}
	r.plan = &plan
	return &Standstill{plan}
}

// letWithin releases the changes of a plan above the limits if their kind is within its own limit and the operator has
// enabled it. It notes this beside the limits. A run in plan mode only adds the note.
func (r *run) letWithin(ctx context.Context, plan *state.Plan, linked int) error {
	over := r.Settings.Guards.Over(plan.Open, linked)
	if !r.Settings.Guards.HoldOnlyAbove || over == (state.Over{}) {
		return nil
	}
	return r.Ledger.DoAlone(ctx, func(tx *state.Tx) error {
		n, err := tx.WithinCount(plan.ID, over)
		if err != nil || n == 0 {
			return err
		}
		plan.Limits += " " + state.Within(n)
		if r.opts.Kind == connector.RunPlan {
			return nil
		}
		return tx.ApproveWithin(plan.ID, over)
	})
}

// Rejected describes the effect of a rejected plan.
func Rejected(p state.Plan) string {
	return fmt.Sprintf("Plan %d was rejected by %s: nothing of it is sent while it stays the same. To send it all the same, approve it.", p.ID, p.RejectedBy)
}

// released reports whether something of the plan was approved, though the plan waits.
func (r *run) released(ctx context.Context) (bool, error) {
	customers, err := r.Ledger.ReleasedCount(ctx, r.conn.Name, state.LaneCustomer)
	if err != nil || customers > 0 {
		return customers > 0, err
	}
	links, err := r.Ledger.ReleasedCount(ctx, r.conn.Name, state.LaneMandate)
	return links > 0, err
}

func (r *run) setPlan(ctx context.Context, plan state.Plan, to state.PlanState) error {
	return r.Ledger.Do(ctx, func(tx *state.Tx) error { return tx.SetPlanState(plan.ID, to, plan.Limits) })
}
