package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

// approverOf returns the person approving on the command line.
func approverOf(s *session.Session) admin.Approver {
	return admin.Approver{Name: actor(), FourEyes: s.Config.Pages.FourEyes}
}

// fourEyes asks for approval only if this person may approve; otherwise the plan waits. nil asks nobody.
func (a *app) fourEyes(ctx context.Context, s *session.Session,
	ask func(state.Plan) (bool, error)) func(state.Plan) (bool, error) {
	if ask == nil {
		return nil
	}
	return func(p state.Plan) (bool, error) {
		err := approverOf(s).May(ctx, s.Ledger, p)
		if errors.Is(err, admin.ErrSameEyes) {
			a.Print("The plan waits: %s, as pages.four_eyes says. Somebody else may approve it.", err)
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return ask(p)
	}
}

func (a *app) approveCmd() *cobra.Command {
	var part planPart
	c := &cobra.Command{
		Use:   "approve PLAN",
		Short: "Approve a plan on hold, up to its counted ceiling",
		Long: `Approves exactly the changes of one waiting plan. Name the plan by its number or the
beginning of its hash. The next run sends the changes. Further changes in a later plan
must be within the limits, or need an approval of their own. For a standstill, it
accepts exactly the listed records as removed, or the listed payers as excluded or on
hold.

--only, --record and --except approve a part of the plan. They select changes by kind,
by record, and by the fields of existing customers. The next run sends that part. The
other changes stay on hold, even within the limits. They are released when you approve
them, or replaced when the record changes again. --only create creates customers
without signing links; add --only link for these.`,
		Example: `  payersync status          # shows the plans that wait
  payersync plan show 12   # what it would do
  payersync plan approve 12
  payersync plan approve 12 --only create --only link
  payersync plan approve 12 --record C0001 --record C0002
  payersync plan approve 12 --except name --except people.email
  payersync sync`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.runApprove(cmd.Context(), args, part) },
	}
	c.Flags().StringArrayVar(&part.only, "only", nil,
		"approve only changes of this kind: create, adopt, update or link; may be repeated")
	c.Flags().StringArrayVar(&part.records, "record", nil,
		"approve only the changes of the record with this source `ID`; may be repeated")
	c.Flags().StringArrayVar(&part.except, "except", nil,
		"leave out changes to this `FIELD` of existing customers, such as name or people.email; may be repeated")
	return c
}

func (a *app) runApprove(ctx context.Context, args []string, part planPart) error {
	for _, kind := range part.only {
		if err := oneOf("only", kind, connector.ActionCreate, connector.ActionAdopt, connector.ActionUpdate,
			connector.ActionLink); err != nil {
			return err
		}
	}
	return a.with(ctx, a.openLedger, func(s *session.Session) error {
		found, err := s.Ledger.FindPlan(ctx, args[0])
		plan := admin.PlanProgress{Plan: found}
		if err == nil {
			plan, err = admin.PlanOf(ctx, s.Ledger, found)
		}
		switch {
		case err != nil:
		case part.whole():
			err = admin.Approve(ctx, s.Ledger, plan, approverOf(s))
		default:
			err = a.approvePart(ctx, s, plan, part)
		}
		if err != nil || !part.whole() {
			return notApproved(err, args[0], plan.ID)
		}
		if plan.Plan, err = s.Ledger.FindPlan(ctx, fmt.Sprint(plan.ID)); err != nil {
			return err
		}
		if a.JSON() {
			return show.JSON(a.Out, plan.Plan)
		}
		if plan.WaitsForDecision() {
			_, err = fmt.Fprintf(a.Out,
				"Plan %d is approved but for its new customers: %s.\n%s\nThe next sync sends the others: payersync sync %s\n",
				plan.ID, summary(plan.Plan), limitsText(&plan.Plan), plan.Connection)
			return err
		}
		does := "sends it"
		if plan.Missing > 0 {
			does = "goes on without them"
		}
		_, err = fmt.Fprintf(a.Out, "Plan %d is approved: %s.\nThe next sync %s: payersync sync %s\n", plan.ID,
			summary(plan.Plan), does, plan.Connection)
		return err
	})
}

// notApproved says why a requested plan was not approved, and the next step; nil for nil.
func notApproved(err error, asked string, plan int64) error {
	var wait *state.CreatesWaitError
	switch {
	case errors.As(err, &wait):
		return fmt.Errorf("cannot approve plan %d: %w", plan, err)
	case errors.Is(err, state.ErrPlanNotWaiting):
		return fmt.Errorf("cannot approve %s: %w; payersync status lists the waiting plans", asked, err)
	case errors.Is(err, admin.ErrSameEyes):
		return fmt.Errorf("cannot approve plan %d: %w, as pages.four_eyes says; ask another person with permission to approve", plan, err)
	case errors.Is(err, state.ErrPlanChanged):
		return fmt.Errorf("cannot approve plan %d: %w; review it again: payersync plan show %[1]d", plan, err)
	}
	return err
}

// planPart chooses the approved changes of a plan.
type planPart struct{ only, records, except []string }

func (p planPart) whole() bool { return len(p.only)+len(p.records)+len(p.except) == 0 }

// String describes the approved part, for the audit log.
func (p planPart) String() string {
	var words []string
	for _, flag := range []struct {
		name   string
		values []string
	}{{"only", p.only}, {"record", p.records}, {"except", p.except}} {
		words = append(words, connector.Map(flag.values, func(v string) string { return "--" + flag.name + " " + v })...)
	}
	return strings.Join(words, " ")
}

var placeInList = regexp.MustCompile(`\[[0-9]*\]`)

// touches reports whether a path is a field, or lies below it, at any position of a list.
func touches(path, field string) bool {
	path, field = placeInList.ReplaceAllString(path, ""), placeInList.ReplaceAllString(field, "")
	return path == field || strings.HasPrefix(path, field+".")
}

// choice is the result of choosing a part of a plan.
type choice struct {
	ids    []int64
	met    map[string]bool // the part's records and fields with a change
	fields map[string]bool // of existing customers, without their places in lists
}

// add takes a change in if the part has it.
func (p planPart) add(to *choice, c state.Change) {
	taken := len(p.only) == 0 || slices.Contains(p.only, string(c.Action))
	if len(p.records) > 0 {
		named := slices.Contains(p.records, c.Payer.SourceID)
		to.met["--record "+c.Payer.SourceID] = named
		taken = taken && named
	}
	if c.Action != connector.ActionCreate {
		for _, d := range c.Diff {
			to.fields[placeInList.ReplaceAllString(d.Path, "")] = true
			for _, field := range p.except {
				if touches(d.Path, field) {
					to.met["--except "+field] = true
					taken = false
				}
			}
		}
	}
	if taken {
		to.ids = append(to.ids, c.ID)
	}
}

// check refuses a value without effect in this plan: the person would approve more or less than intended.
func (p planPart) check(plan admin.PlanProgress, of choice) error {
	for _, id := range p.records {
		if !of.met["--record "+id] {
			return fmt.Errorf("cannot approve part of plan %d: it has no unsent change of record %q; payersync plan show %[1]d --limit 0 lists its changes", plan.ID, id)
		}
	}
	for _, field := range p.except {
		if !of.met["--except "+field] {
			touched := "the plan touches no field of existing customers"
			if len(of.fields) > 0 {
				touched = "the plan touches " + strings.Join(slices.Sorted(maps.Keys(of.fields)), ", ")
			}
			return fmt.Errorf("cannot approve part of plan %d: no change touches %q of an existing customer; %s", plan.ID, field,
				touched)
		}
	}
	if len(of.ids) == 0 {
		return fmt.Errorf("cannot approve part of plan %d: %s leaves no unsent change; payersync plan show %[1]d lists them",
			plan.ID, p)
	}
	return nil
}

// approvePart approves a part of a plan.
func (a *app) approvePart(ctx context.Context, s *session.Session, plan admin.PlanProgress, part planPart) error {
	switch {
	case plan.Missing > 0:
		return fmt.Errorf("cannot approve part of plan %d: it accepts removed records, and you can only approve them together; approve the whole plan, or restore some of the records", plan.ID)
	case plan.Lost > 0:
		return fmt.Errorf("cannot approve part of plan %d: it is a standstill, and excludes payers or puts them on hold; approve the whole plan, or correct the mapping or the records", plan.ID)
	}
	if plan.Profile != "" {
		return fmt.Errorf("cannot approve part of plan %d: it was made with an edited profile, which you can only approve with the whole plan; approve the whole plan, or undo the edit", plan.ID)
	}
	if plan.State != state.PlanWaiting && plan.State != state.PlanRejected && plan.State != state.PlanDraft {
		return state.ErrPlanNotWaiting
	}
	of := choice{met: map[string]bool{}, fields: map[string]bool{}}
	if err := admin.EachPlanned(ctx, s.Ledger, plan.Plan, 0, func(c state.Change) error {
		part.add(&of, c)
		return nil
	}); err != nil {
		return err
	}
	if err := part.check(plan, of); err != nil {
		return err
	}
	if err := admin.ApproveSome(ctx, s.Ledger, plan, of.ids, approverOf(s), part.String()); err != nil {
		return err
	}
	found, err := s.Ledger.FindPlan(ctx, fmt.Sprint(plan.ID))
	if err != nil {
		return err
	}
	if plan, err = admin.PlanOf(ctx, s.Ledger, found); err != nil {
		return err
	}
	return a.Answer(plan, "%d of %s of plan %d approved, %d left out.\nThe next run sends the approved changes: payersync sync %s\n",
		plan.Approved, connector.Plural(plan.Pending, "change"), plan.ID, plan.LeftOut, plan.Connection)
}
