package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"payersync/state"
)

func (a *app) approveCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "approve PLAN",
		Short: "Let a held plan go, up to its counted ceiling",
		Long: `Approves exactly the changes of one waiting plan, by its number or the beginning
of its hash. The next sync sends them. Whatever a later plan adds must be within
the limits or be approved by itself. Where a run stands still because records are
missing from the source, it lets exactly these records go.`,
		Example: "  payersync status          # shows the plans that wait\n  payersync approve 12\n  payersync sync",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.openLedger(cmd.Context())
			if err != nil {
				return err
			}
			defer s.close()
			plan, err := s.ledger.FindPlan(cmd.Context(), args[0])
			if err == nil {
				err = s.ledger.Do(cmd.Context(), func(tx *state.Tx) error { return tx.Approve(plan.ID, actor()) })
			}
			if errors.Is(err, state.ErrPlanNotWaiting) {
				return fmt.Errorf("cannot approve %s: %w; payersync status lists the plans that wait", args[0], err)
			}
			if err != nil {
				return err
			}
			plan.State, plan.Limits = state.PlanApproved, ""
			if a.json() {
				return printJSON(a.out, plan)
			}
			does := "sends it"
			if plan.Missing > 0 {
				does = "goes on without them"
			}
			_, err = fmt.Fprintf(a.out, "Plan %d is approved: %s.\nThe next sync %s: payersync sync %s\n", plan.ID, summary(plan), does, plan.Connection)
			return err
		},
	}
}
