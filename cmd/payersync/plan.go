package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

func (a *app) planCmd() *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:   "plan [NAME…]",
		Short: "Read, plan, print the difference and send nothing",
		Long: `Reads the connections' sources and the billing service, decides what a sync would
do, and prints it. Nothing is created or changed in the billing service. The plan
is kept: payersync approve lets it go when it is above the limits.`,
		Example: "  payersync plan acme\n  payersync plan --output json > plan.json",
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.runConnections(cmd.Context(), names, func(ctx context.Context, s *session, conn syncer.Connection) (int, error) {
				res, err := a.runOne(ctx, s, conn, syncer.Options{Kind: connector.RunPlan, Trigger: "manual"})
				if err != nil {
					return exitCode(err), err
				}
				if res.Err != nil {
					return codeOf(res), res.Err
				}
				return codeOf(res), a.showPlan(ctx, s, res, limit)
			})
		},
	}
	c.Flags().IntVar(&limit, "limit", 50, "print at most so many changes of a connection; 0 prints all")
	return c
}

// planReport is what `plan --output json` prints for a connection.
type planReport struct {
	syncer.Result
	Changes []changeReport       `json:"changes"`
	Held    []state.AttentionRow `json:"held"`
}

type changeReport struct {
	SourceID  string                  `json:"source_id"`
	Key       connector.Key           `json:"key"`
	Action    connector.Action        `json:"action"`
	BillingID string                  `json:"billing_id,omitempty"`
	Diff      []connector.FieldChange `json:"diff,omitempty"`
}

// pageSize is how many changes are read from the ledger at a time.
const pageSize = 256

func (a *app) showPlan(ctx context.Context, s *session, res syncer.Result, limit int) error {
	held, err := s.held(ctx, res.Connection)
	if err != nil {
		return err
	}
	if a.json() {
		report := planReport{Result: res, Held: held, Changes: []changeReport{}}
		err := s.eachChange(ctx, res.Connection, 0, func(c state.Change) {
			report.Changes = append(report.Changes, changeReport{c.Payer.SourceID, c.Payer.Key, c.Action, c.BillingID, c.Diff})
		})
		if err != nil {
			return err
		}
		return printJSON(a.out, report)
	}
	fmt.Fprintf(a.out, "Plan %d of %s: %s\n", res.Plan.ID, res.Connection, summary(*res.Plan))
	if err := s.eachChange(ctx, res.Connection, limit, a.printChange); err != nil {
		return err
	}
	if total := res.Plan.Creates + res.Plan.Adopts + res.Plan.Updates + res.Plan.Links; limit > 0 && total > limit {
		fmt.Fprintf(a.out, "  … and more: %d changes in all (--limit 0 prints every one)\n", total)
	}
	for _, h := range held {
		fmt.Fprintf(a.out, "  hold    %s  %s\n", visible(h.SourceID), visible(h.Detail))
	}
	if res.Plan.Limits != "" {
		fmt.Fprintf(a.out, "Above the limits: %s\nIt waits until: payersync approve %d\n", res.Plan.Limits, res.Plan.ID)
	}
	return nil
}

func summary(p state.Plan) string {
	return fmt.Sprintf("%d to create, %d to adopt, %d to update, %s, %d held",
		p.Creates, p.Adopts, p.Updates, plural(p.Links, "signing link"), p.Holds)
}

func (a *app) printChange(c state.Change) {
	fmt.Fprintf(a.out, "  %-7s %s  (%s)\n", c.Action, visible(c.Payer.SourceID), visible(c.Payer.Key.String()))
	for _, d := range c.Diff {
		if d.From == "" {
			fmt.Fprintf(a.out, "            %s: %q\n", d.Path, visible(d.To))
			continue
		}
		fmt.Fprintf(a.out, "            %s: %q → %q\n", d.Path, visible(d.From), visible(d.To))
	}
}

// eachChange hands over a connection's pending changes, customers first; a limit
// of 0 means all of them.
func (s *session) eachChange(ctx context.Context, connection string, limit int, do func(state.Change)) error {
	shown := 0
	for _, lane := range []string{state.LaneCustomer, state.LaneMandate} {
		for after := int64(0); ; {
			page, err := s.ledger.Changes(ctx, connection, lane, true, after, pageSize)
			if err != nil {
				return err
			}
			for _, c := range page {
				if limit > 0 && shown == limit {
					return nil
				}
				do(c)
				shown++
			}
			if len(page) < pageSize {
				break
			}
			after = page[len(page)-1].ID
		}
	}
	return nil
}

// held returns what keeps records of a connection from being sent.
func (s *session) held(ctx context.Context, connection string) ([]state.AttentionRow, error) {
	return s.ledger.Attention(ctx, state.Filter{Connection: connection})
}
