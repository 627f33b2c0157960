package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/state"
)

func (a *app) plansListCmd() *cobra.Command {
	var connection string
	var all bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the plans that wait for approval; --all lists every one",
		Long: `Lists the plans that wait for a person, with the reasons. With --all it lists every
plan, also sent, rejected and superseded ones.`,
		Example: "  payersync plan list\n  payersync plan list --all --connection acme --output json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), a.openReport, func(s *session.Session) error {
				return a.listPlans(cmd.Context(), s, connection, all, a.limitOf(cmd))
			})
		},
	}
	c.Flags().StringVar(&connection, "connection", "", "only this connection")
	c.Flags().BoolVar(&all, "all", false, "every plan, not only waiting ones")
	limitFlag(c)
	return asCSV(c)
}

func (a *app) listPlans(ctx context.Context, s *session.Session, connection string, all bool, limit int) error {
	if err := s.Config.Has(connection); err != nil {
		return err
	}
	plans, err := s.Ledger.StoredPlans(ctx, connection)
	if err != nil {
		return err
	}
	rejected := 0
	if !all {
		plans = slices.DeleteFunc(plans, func(p state.Plan) bool {
			if p.State == state.PlanRejected {
				rejected++
			}
			return p.State != state.PlanWaiting
		})
	}
	if limit > 0 && len(plans) > limit {
		defer a.Print("There are older ones: these are the newest %d, and --limit 0 lists every one.", limit)
		plans = plans[len(plans)-limit:]
	}
	rows := make([]admin.PlanProgress, len(plans))
	for i, p := range plans {
		if rows[i], err = admin.PlanOf(ctx, s.Ledger, p); err != nil {
			return err
		}
	}
	if rejected > 0 {
		a.Print("Beside them: %s; payersync plan list --all", connector.Plural(rejected, "rejected plan"))
	}
	return planListing().On(a.Console).Print(rows)
}

func planListing() *show.Listing[admin.PlanProgress] {
	type row = admin.PlanProgress
	return &show.Listing[row]{Columns: []show.Column[row]{
		show.Number("plan", "Plan", func(p row) int64 { return p.ID }),
		{Name: "connection", Title: "Connection", Cell: func(p row) string { return p.Connection }},
		{Name: "state", Title: "State", Cell: func(p row) string { return string(p.State) }},
		show.Moment("created_at", "Made", func(p row) time.Time { return p.CreatedAt }),
		show.Number("creates", "Create", func(p row) int { return p.Creates }),
		show.Number("adopts", "Link", func(p row) int { return p.Adopts }),
		show.Number("updates", "Update", func(p row) int { return p.Updates }),
		show.Number("links", "Signing links", func(p row) int { return p.Links }),
		show.Number("holds", "On hold", func(p row) int { return p.Holds }),
		show.Number("pending", "Unsent", func(p row) int { return p.Pending }),
		{Name: "sent_by", Title: "Sent by run",
			Cell: func(p row) string { return strings.ReplaceAll(strings.Trim(fmt.Sprint(p.SentBy), "[]"), " ", ", ") }},
		{Name: "limits", Title: "Above the limits", Cell: func(p row) string { return p.Limits }},
	}}
}

func (a *app) plansShowCmd() *cobra.Command {
	var p privacy
	var limit int
	c := &cobra.Command{
		Use:   "show PLAN",
		Short: "Show the changes of a plan, in numbers and one by one",
		Long: `Shows one plan, by its number or the beginning of its hash. It shows the intended
changes, the exceeded limits, and the person that rejected it. For a standstill it
lists the payers on hold or excluded. It lists the changed fields of existing
customers, and each change on hold with the old and new value of its fields. For a
sent or superseded plan it shows its runs, and the outcome of each change: sent,
refused, failed, put off to a later plan, or replaced. The values are kept, sealed, as
long as the audit log; forgetting a payer erases its values. The command reads only
the ledger. It shortens personal values and omits names, unless you give
--show-values.`,
		Example: "  payersync plan show 12\n  payersync plan show 12 --limit 0 --show-values\n  payersync plan show 3f9a01bc --output json",
		Args:    cobra.ExactArgs(1),
		RunE: a.runs(a.openLedger, func(ctx context.Context, s *session.Session, args []string) error {
			plan, err := findPlan(ctx, s, "show", args[0])
			if err != nil {
				return err
			}
			return a.showStored(ctx, s, plan, limit, p)
		}),
	}
	c.Flags().IntVar(&limit, "limit", 20, "print at most so many changes; 0 prints all, and so does JSON")
	p.flag(c)
	return c
}

// findPlan returns the plan with this number or beginning of a hash; what was to be done
// with it goes into the error.
func findPlan(ctx context.Context, s *session.Session, do, id string) (state.Plan, error) {
	plan, err := s.Ledger.FindPlan(ctx, id)
	if errors.Is(err, state.ErrPlanNotWaiting) {
		return plan, fmt.Errorf("cannot %s plan %s: no plan has this number, or a hash that begins with it (8 characters at least); payersync plan list --all shows all plans", do, id)
	}
	return plan, err
}

// plannedChange is one change in `plan show --output json`.
type plannedChange struct {
	changeReport
	Approved bool                `json:"approved"`
	LeftOut  bool                `json:"left_out"`
	ID       int64               `json:"change_id"`
	Outcome  state.ChangeOutcome `json:"outcome"`
	Plan     int64               `json:"plan_id"`          // the last plan with it
	Run      int64               `json:"run_id"`           // the last run with it
	Reason   connector.Reason    `json:"reason,omitempty"` // the reason of the outcome
	Detail   string              `json:"detail,omitempty"`
	Erased   state.Erasure       `json:"values_erased,omitempty"` // why there is no diff
}

func (a *app) showStored(ctx context.Context, s *session.Session, plan state.Plan, limit int, p privacy) error {
	row, err := admin.PlanOf(ctx, s.Ledger, plan)
	if err != nil {
		return err
	}
	fields, err := admin.Touched(ctx, s.Ledger, plan)
	if err != nil {
		return err
	}
	if a.JSON() {
		return a.storedJSON(ctx, s, row, fields, p)
	}
	a.printStored(row, s.Config.Billing.RatePerSecond)
	if err := a.printLost(ctx, s, plan, limit, p); err != nil {
		return err
	}
	a.printFieldCounts(fields)
	if err := a.eachNotAskedOf(ctx, s, plan, a.printUnasked); err != nil {
		return err
	}
	if err := a.printPending(ctx, s, row, limit, p); err != nil {
		return err
	}
	if row.Settled() == 0 {
		return nil
	}
	return a.printListed(ctx, s, plan, limit, p)
}

// storedJSON prints a plan as JSON. Its changes are read and written page by page.
func (a *app) storedJSON(ctx context.Context, s *session.Session, row admin.PlanProgress, fields []syncer.FieldCount,
	p privacy) error {
	out := show.NewList(a.Out)
	out.Open(row)
	out.List("fields", func() error {
		return connector.Each(fields, func(f syncer.FieldCount) error { return out.Element(f) })
	})
	out.List("changes", func() error {
		return errors.Join(
			admin.EachPlanned(ctx, s.Ledger, row.Plan, 0, func(c state.Change) error {
				found, err := admin.Alike(ctx, s.Ledger, c)
				if err != nil {
					return err
				}
				return out.Element(plannedChange{
					changeReport: changeReport{c.Payer.SourceID, c.Payer.Key, c.Does(), c.BillingID, p.Diff(c.Diff), found},
					Approved:     c.Approved, LeftOut: c.LeftOut, ID: c.ID, Outcome: state.OutcomeWaiting, Plan: row.ID, Run: c.Run,
				})
			}),
			admin.EachListed(ctx, s.Ledger, row.Plan, 0, func(c state.ListedChange) error {
				return out.Element(plannedChange{
					changeReport: changeReport{c.SourceID, c.Key, c.Action, c.BillingID, p.Diff(c.Diff), nil},
					Approved:     c.Approved, LeftOut: c.LeftOut, ID: c.ID, Outcome: c.Outcome, Plan: c.Plan, Run: c.RunID,
					Reason: c.Reason, Detail: c.Detail, Erased: c.Erased,
				})
			}))
	})
	out.List("losses", func() error {
		return admin.EachLost(ctx, s.Ledger, row.Plan, 0, func(l state.LostPayer) error { return out.Element(l) })
	})
	out.List("not_asked", func() error {
		return a.eachNotAskedOf(ctx, s, row.Plan, func(n admin.NotAsked) error { return out.Element(n) })
	})
	return out.Close()
}

// printPending prints the changes still to be sent by a plan.
func (a *app) printPending(ctx context.Context, s *session.Session, row admin.PlanProgress, limit int, p privacy) error {
	if row.Pending == 0 {
		return nil
	}
	fmt.Fprintln(a.Out, "\nChange by change")
	if err := admin.EachPlanned(ctx, s.Ledger, row.Plan, limit, func(c state.Change) error {
		found, err := admin.Alike(ctx, s.Ledger, c)
		if err != nil {
			return err
		}
		who, err := p.named(ctx, s, state.RecordID{Connection: c.Payer.Connection, SourceID: c.Payer.SourceID})
		if err != nil {
			return err
		}
		a.printPlanned(c, who, p)
		a.printAlike(c, found)
		return nil
	}); err != nil {
		return err
	}
	if limit > 0 && row.Pending > limit {
		fmt.Fprintf(a.Out, "  … and %d more (--limit 0 prints every one)\n", row.Pending-limit)
	}
	return nil
}

// printListed prints the outcomes of a plan's other changes.
func (a *app) printListed(ctx context.Context, s *session.Session, plan state.Plan, limit int, p privacy) error {
	counts, err := s.Ledger.OutcomeCounts(ctx, plan)
	total := 0
	for _, n := range counts {
		total += n
	}
	if err != nil || total == 0 {
		return err
	}
	fmt.Fprintf(a.Out, "\nWhat became of its changes: %s\n", admin.OutcomesOf(counts))
	if err := admin.EachListed(ctx, s.Ledger, plan, limit, func(c state.ListedChange) error {
		who, err := p.named(ctx, s, state.RecordID{Connection: c.Connection, SourceID: c.SourceID})
		if err != nil {
			return err
		}
		a.printOutcome(plan, c, who, p)
		return nil
	}); err != nil {
		return err
	}
	if limit > 0 && total > limit {
		fmt.Fprintf(a.Out, "  … and %d more (--limit 0 prints every one)\n", total-limit)
	}
	return nil
}

// printOutcome prints a change listed by a plan, its outcome, and its values.
func (a *app) printOutcome(plan state.Plan, c state.ListedChange, who string, p privacy) {
	fmt.Fprintf(a.Out, "  %s %s  %s, run %d\n", a.action(string(c.Action)), who, admin.OutcomeOf(plan, c), c.RunID)
	if why := admin.WhyOf(c.PastChange); why != "" {
		fmt.Fprintf(a.Out, "            %s\n", show.Visible(why))
	}
	if c.Erased != "" {
		fmt.Fprintf(a.Out, "            %s\n", c.Erased.Sentence())
	}
	for _, d := range c.Diff {
		fmt.Fprintf(a.Out, "            %s\n", p.change(d))
	}
}

// printLost prints the payers lost by a standstill.
func (a *app) printLost(ctx context.Context, s *session.Session, plan state.Plan, limit int, p privacy) error {
	shown := 0
	err := admin.EachLost(ctx, s.Ledger, plan, limit, func(l state.LostPayer) error {
		if shown++; shown == 1 {
			fmt.Fprintln(a.Out, "\nPayers that it would lose")
		}
		what := "hold"
		if l.Verdict == state.Excluded {
			what = "leave"
		}
		who, err := p.named(ctx, s, state.RecordID{Connection: plan.Connection, SourceID: l.SourceID})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.Out, "  %s %s  %s\n", a.action(what), who, admin.WhyLost(l))
		return err
	})
	if err == nil && shown > 0 && shown < plan.Lost {
		_, err = fmt.Fprintf(a.Out, "  … and %d more (--limit 0 prints every one)\n", plan.Lost-shown)
	}
	return err
}

// printStored prints a plan and its state.
func (a *app) printStored(r admin.PlanProgress, rate float64) {
	fmt.Fprintf(a.Out, "Plan %d of %s: %s\n", r.ID, r.Connection, summary(r.Plan))
	if r.Pending > 0 {
		a.printSendingTime(r.Plan, rate)
	}
	fmt.Fprintf(a.Out, "Made by run %d at %s, hash %s\n", r.RunID, show.Time(r.CreatedAt), r.Hash[:shortHash])
	if len(r.SentBy) > 0 {
		fmt.Fprintf(a.Out, "Sent by %s\n", admin.RunsText(r.SentBy))
	}
	switch {
	case r.WaitsForDecision():
		fmt.Fprintln(a.Out, limitsText(&r.Plan))
	case r.Limits != "":
		fmt.Fprintf(a.Out, "Above the limits: %s\n", r.Limits)
	}
	if r.RejectedBy != "" {
		fmt.Fprintf(a.Out, "Rejected by %s at %s", show.Visible(r.RejectedBy), show.Time(r.RejectedAt))
		if r.Rejection != "" {
			fmt.Fprintf(a.Out, ": %s", show.Visible(r.Rejection))
		}
		fmt.Fprintln(a.Out)
	}
	fmt.Fprintln(a.Out, standingOf(r))
	if r.Pending > 0 {
		fmt.Fprintf(a.Out, "On hold: %s, %d approved, %d left out of the approval\n", connector.Plural(r.Pending, "change"),
			r.Approved, r.LeftOut)
	}
}

// standingOf describes the state of a plan, and the possible next steps.
func standingOf(r admin.PlanProgress) string {
	switch r.State {
	case state.PlanWaiting:
		if r.Missing > 0 {
			return fmt.Sprintf("It waits: payersync plan approve %d lets the records go. They are not listed here; it holds no changes.", r.ID)
		}
		if r.Lost > 0 {
			return fmt.Sprintf("It is a standstill: nothing is sent. Correct the mapping or the records to end it. Or approve it with all its effects on these payers: payersync plan approve %d", r.ID)
		}
		return fmt.Sprintf("It waits: payersync plan approve %d lets it go, payersync plan reject %[1]d says no.", r.ID)
	case state.PlanRejected:
		return fmt.Sprintf("It is rejected: nothing of it is sent while it says the same. payersync plan approve %d sends it all the same.", r.ID)
	case state.PlanApproved:
		return fmt.Sprintf("It is approved: the next sync goes on with it: payersync sync %s", r.Connection)
	case state.PlanApplied:
		return "It was carried out."
	case state.PlanSuperseded:
		return "It is superseded: a newer plan replaces it and has its unsent changes; payersync plan list shows the plans that wait."
	}
	return fmt.Sprintf("It is within the limits: the next sync makes it anew and sends it: payersync sync %s",
		r.Connection)
}

func (a *app) printPlanned(c state.Change, who string, p privacy) {
	said := ""
	switch {
	case c.Approved:
		said = "  approved"
	case c.LeftOut:
		said = "  left out of the approval"
	}
	fmt.Fprintf(a.Out, "  %s %s  (%s)%s\n", a.action(string(c.Does())), who, show.Visible(c.Payer.Key.String()), said)
	for _, d := range c.Diff {
		fmt.Fprintf(a.Out, "            %s\n", p.change(d))
	}
}

func (a *app) plansRejectCmd() *cobra.Command {
	var reason string
	var yes bool
	c := &cobra.Command{
		Use:   "reject PLAN",
		Short: "Say no to a plan: nothing of it is sent",
		Long: `Rejects one plan, by its number or the beginning of its hash. payersync sends nothing
of it, not even its approved part, and the plan waits no more. A run with exactly the
same changes sends nothing and asks nobody: it ends incomplete, with exit status 3.
When its changes become others, a new plan is made. The unchanged part of the rejected
one waits there for approval. payersync plan approve still sends a rejected plan. At a
terminal the command asks first; --yes answers. The audit log keeps it.`,
		Example: "  payersync plan reject 12\n  payersync plan reject 12 --reason 'the export was wrong' --yes",
		Args:    cobra.ExactArgs(1),
		RunE: a.runs(a.openLedger, func(ctx context.Context, s *session.Session, args []string) error {
			return a.rejectPlan(ctx, s, args[0], reason, yes)
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	c.Flags().BoolVar(&yes, "yes", false, "reject without asking")
	return c
}

func (a *app) rejectPlan(ctx context.Context, s *session.Session, id, reason string, yes bool) error {
	plan, err := findPlan(ctx, s, "reject", id)
	if err != nil {
		return err
	}
	switch {
	case plan.Missing > 0:
		return fmt.Errorf("cannot reject plan %d: it accepts removed records, and without approval it sends nothing anyway; restore the records, or accept their removal: payersync plan approve %[1]d", plan.ID)
	case plan.Lost > 0 && plan.State == state.PlanWaiting:
		return fmt.Errorf("cannot reject plan %d: it is a standstill, and nothing is sent anyway; put the mapping or the records right, or let the payers go: payersync plan approve %[1]d", plan.ID)
	case plan.State == state.PlanRejected:
		return fmt.Errorf("cannot reject plan %d: %s rejected it already; payersync plan show %[1]d tells when and why",
			plan.ID, plan.RejectedBy)
	case !yes && a.Unasked() == "":
		a.Print("Plan %d of %s: %s.", plan.ID, plan.Connection, summary(plan))
	}
	sure, err := a.Confirms(ctx, yes, fmt.Sprintf("cannot reject plan %d without a yes", plan.ID), "Reject it?")
	if err != nil {
		return err
	}
	if !sure {
		a.Print("Nothing was changed.")
		return nil
	}
	row, err := admin.PlanOf(ctx, s.Ledger, plan)
	if err != nil {
		return err
	}
	err = admin.Reject(ctx, s.Ledger, row, actor(), reason)
	var open *state.ErrRunOpen
	switch {
	case errors.Is(err, state.ErrPlanChanged):
		return fmt.Errorf("cannot reject plan %d: %w; review it again: payersync plan show %[1]d", plan.ID, err)
	case errors.Is(err, state.ErrPlanNotWaiting):
		return fmt.Errorf("cannot reject plan %d: it is %s by now; payersync plan list shows the waiting plans", plan.ID,
			plan.State)
	case errors.As(err, &open):
		return fmt.Errorf("cannot reject plan %d: a run may be sending it: %w", plan.ID, err)
	case err != nil:
		return err
	}
	if plan, err = s.Ledger.FindPlan(ctx, fmt.Sprint(plan.ID)); err != nil {
		return err
	}
	return a.Answer(plan, "Plan %d is rejected: %s.\nNothing of it is sent while it says the same; payersync plan approve %[1]d sends it all the same.\n", plan.ID, summary(plan))
}
