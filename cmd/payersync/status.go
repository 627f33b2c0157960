package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"payersync/connector"
	"payersync/state"
)

func (a *app) statusCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "Show the funnel, the last runs and what needs a person",
		Example: "  payersync status\n  payersync status --output json | jq .attention",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.openLedger(cmd.Context())
			if err != nil {
				return err
			}
			defer s.close()
			return a.status(cmd, s)
		},
	}
}

// statusReport is what `status --output json` prints; its keys are public.
type statusReport struct {
	state.Funnel
	Runs      []state.RunRow `json:"runs"`
	Approvals []state.Plan   `json:"approvals"`
}

func (a *app) status(cmd *cobra.Command, s *session) error {
	var r statusReport
	var err error
	if r.Funnel, err = s.ledger.Funnel(cmd.Context()); err != nil {
		return err
	}
	if r.Runs, err = s.ledger.LatestRuns(cmd.Context()); err != nil {
		return err
	}
	if r.Approvals, err = s.ledger.WaitingPlans(cmd.Context()); err != nil {
		return err
	}
	if a.json() {
		return printJSON(a.out, r)
	}
	a.printStatus(r)
	return nil
}

func (a *app) printStatus(r statusReport) {
	a.printCounts("Payers", r.Payers, func(s string) string { return s })
	a.printCounts("Mandates", r.Mandates, func(s string) string { return connector.MandateStatus(s).Label() })
	a.printCounts("Webhooks", r.Inbox, func(s string) string { return s })
	if len(r.Runs) > 0 {
		fmt.Fprintln(a.out, "\nLast runs")
		printTable(a.out, []string{"Connection", "Kind", "Started", "Outcome", "Pulled", "Created", "Adopted", "Updated", "Links", "Held", "Failed"}, runRows(r.Runs))
	}
	if len(r.Attention) > 0 {
		fmt.Fprintln(a.out, "\nNeeds a person")
		var rows [][]string
		for _, reason := range slices.Sorted(maps.Keys(r.Attention)) {
			rows = append(rows, []string{fmt.Sprint(r.Attention[reason]), connector.Reason(reason).Sentence(), connector.Reason(reason).Next()})
		}
		printTable(a.out, []string{"Records", "What is the matter", "What to do"}, rows)
	}
	for _, p := range r.Approvals {
		fmt.Fprintf(a.out, "\nPlan %d of %s waits for approval: %s\n  payersync approve %d\n", p.ID, p.Connection, p.Limits, p.ID)
	}
}

func (a *app) printCounts(title string, counts map[string]int, label func(string) string) {
	fmt.Fprintf(a.out, "%-9s", title)
	if len(counts) == 0 {
		fmt.Fprintln(a.out, " none")
		return
	}
	for i, name := range slices.Sorted(maps.Keys(counts)) {
		if i > 0 {
			fmt.Fprint(a.out, ",")
		}
		fmt.Fprintf(a.out, " %d %s", counts[name], visible(label(name)))
	}
	fmt.Fprintln(a.out)
}

func runRows(runs []state.RunRow) [][]string {
	var rows [][]string
	for _, r := range runs {
		row := []string{r.Connection, r.Kind, r.StartedAt, r.Outcome}
		for _, n := range []int{r.Pulled, r.Created, r.Adopted, r.Updated, r.LinksRequested, r.Held, r.Failed} {
			row = append(row, fmt.Sprint(n))
		}
		rows = append(rows, row)
	}
	return rows
}
