package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/state"
)

func (a *app) planCmd() *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:   "plan [NAME…]",
		Args:  cobra.ArbitraryArgs,
		Short: "Read, plan, print the difference and send nothing",
		Long: `Reads the accounting systems and the billing service, decides the changes of a run,
and prints them. It creates and changes nothing in the billing service. payersync
keeps the plan. A plan above the limits waits for a person: payersync plan approve
releases it, in whole or in part, and payersync plan reject rejects it.`,
		Example: "  payersync plan acme\n  payersync plan show 12\n  payersync plan reject 12 --reason 'the export was wrong'",
		RunE:    func(cmd *cobra.Command, names []string) error { return a.runPlan(cmd, names, limit) },
	}
	c.AddCommand(a.plansListCmd(), a.plansShowCmd(), a.approveCmd(), a.plansRejectCmd())
	c.Flags().IntVar(&limit, "limit", 50,
		"print at most so many changes of a connection, and as many records on hold; 0 prints all, and so does JSON")
	return c
}

func (a *app) runPlan(cmd *cobra.Command, names []string, limit int) error {
	return a.runConnections(cmd.Context(), names,
		func(ctx context.Context, s *session.Session, conn syncer.Connection) (int, error) {
			res, err := a.runOne(ctx, s, conn, syncer.RunOptions{Kind: connector.RunPlan, Trigger: "manual"})
			if err != nil {
				return exitCode(err), err
			}
			if res.Err != nil && (res.Plan == nil || res.Plan.Lost == 0) {
				return codeOf(res), res.Err
			}
			return codeOf(res), a.showPlan(ctx, s, res, limit)
		})
}

// changeReport is one change in `plan --output json`.
type changeReport struct {
	SourceID  string                  `json:"source_id"`
	Key       connector.Key           `json:"key"`
	Action    connector.Action        `json:"action"`
	BillingID string                  `json:"billing_id,omitempty"`
	Diff      []connector.FieldChange `json:"diff,omitempty"`
	Alike     []state.Lookalike       `json:"alike,omitempty"` // our payers similar to a new customer
}

func (a *app) showPlan(ctx context.Context, s *session.Session, res syncer.Result, limit int) error {
	if a.JSON() {
		return a.printPlan(ctx, s, res)
	}
	fmt.Fprintf(a.Out, "Plan %d of %s: %s\n", res.Plan.ID, res.Connection, summary(*res.Plan))
	a.printSendingTime(*res.Plan, s.Config.Billing.RatePerSecond)
	if err := eachChange(ctx, s, res.Connection, limit, func(c state.Change) error {
		found, err := admin.Alike(ctx, s.Ledger, c)
		if err != nil {
			return err
		}
		a.printChange(c)
		a.printAlike(c, found)
		return nil
	}); err != nil {
		return err
	}
	if total := res.Plan.Creates + res.Plan.Adopts + res.Plan.Updates + res.Plan.Links; limit > 0 && total > limit {
		fmt.Fprintf(a.Out, "  … and more: %s in all (--limit 0 prints every one)\n", connector.Plural(total, "change"))
	}
	held := 0
	if err := eachHeld(ctx, s, res.Connection, func(h state.AttentionRow) error {
		if held++; limit > 0 && held > limit {
			return nil
		}
		_, err := fmt.Fprintf(a.Out, "  %s %s  %s\n", a.action("hold"), show.Visible(h.SourceID), show.Visible(h.Detail))
		return err
	}); err != nil {
		return err
	}
	if more := held - limit; limit > 0 && more > 0 {
		fmt.Fprintf(a.Out, `  … and %d more on hold (--limit 0 prints every one)
`, more)
	}
	if err := a.printNotAsked(ctx, s, res.Connection); err != nil {
		return err
	}
	if res.Note != "" {
		fmt.Fprintln(a.Out, res.Note)
	}
	var stands *syncer.Standstill
	switch {
	case errors.As(res.Err, &stands):
		fmt.Fprintf(a.Out, "A standstill: %s\n", errorText(stands))
	case res.Plan.WaitsForDecision():
		fmt.Fprintln(a.Out, limitsText(res.Plan))
	case res.Plan.Profile != "" && res.Plan.State != state.PlanRejected:
		fmt.Fprintf(a.Out, "%s\nIt waits until: payersync plan approve %d\n", limitsText(res.Plan), res.Plan.ID)
	case res.Plan.Limits != "" && res.Plan.State != state.PlanRejected:
		fmt.Fprintf(a.Out, "Above the limits: %s\nIt waits until: payersync plan approve %d\n", limitsText(res.Plan), res.Plan.ID)
	}
	return nil
}

// printPlan prints a plan as one line of JSON: the run's result, and beside its members the lists "changes"
// and "held". It prints their elements as it reads them, because a plan may be larger than memory.
func (a *app) printPlan(ctx context.Context, s *session.Session, res syncer.Result) error {
	out := show.NewList(a.Out)
	out.Open(res)
	out.List("changes", func() error {
		return eachChange(ctx, s, res.Connection, 0, func(c state.Change) error {
			found, err := admin.Alike(ctx, s.Ledger, c)
			if err != nil {
				return err
			}
			return out.Element(changeReport{c.Payer.SourceID, c.Payer.Key, c.Does(), c.BillingID, c.Diff, found})
		})
	})
	out.List("held", func() error {
		return eachHeld(ctx, s, res.Connection, func(h state.AttentionRow) error { return out.Element(h) })
	})
	out.List("not_asked", func() error {
		return a.eachNotAsked(ctx, s, res.Connection, func(n admin.NotAsked) error { return out.Element(n) })
	})
	return out.Close()
}

func summary(p state.Plan) string {
	if p.Missing > 0 {
		return fmt.Sprintf("%s missing from the source to let go", connector.Plural(p.Missing, "record"))
	}
	alike := ""
	if p.Alike > 0 {
		alike = fmt.Sprintf(" (%d of them like another payer of ours)", p.Alike)
	}
	return fmt.Sprintf("%d to create%s, %d to link, %d to update, %s, %d on hold",
		p.Creates, alike, p.Adopts, p.Updates, connector.Plural(p.Links, "signing link"), p.Holds)
}

// printSendingTime prints the duration of sending a plan at a rate of requests a second, if it is noticeable.
func (a *app) printSendingTime(p state.Plan, rate float64) {
	if text := sendingTime(p, rate); text != "" {
		fmt.Fprintln(a.Out, text)
	}
}

// sendingTime says how long a plan takes to send; "" for less than ten seconds.
func sendingTime(p state.Plan, rate float64) string {
	takes := admin.PlanProgress{Plan: p}.Takes(rate)
	if takes < 10*time.Second {
		return ""
	}
	return fmt.Sprintf("Sending takes about %s, at %v requests a second (billing.rate_per_second).", admin.Roughly(takes),
		rate)
}

func (a *app) printChange(c state.Change) {
	fmt.Fprintf(a.Out, "  %s %s  (%s)\n", a.action(string(c.Does())), show.Visible(c.Payer.SourceID),
		show.Visible(c.Payer.Key.String()))
	for _, d := range c.Diff {
		if d.From == "" {
			fmt.Fprintf(a.Out, "            %s: %q\n", d.Path, show.Visible(d.To))
			continue
		}
		fmt.Fprintf(a.Out, "            %s: %q → %q\n", d.Path, show.Visible(d.From), show.Visible(d.To))
	}
}

// action returns the action for a record, as wide as any, in the colour of its tone.
func (a *app) action(does string) string {
	word := fmt.Sprintf("%-7s", does)
	switch does {
	case string(connector.ActionCreate), string(connector.ActionLink):
		return a.Toned(show.Good, word)
	case "hold", "leave":
		return a.Toned(show.Bad, word)
	case "same":
		return word
	}
	return a.Toned(show.Alert, word)
}

// eachChange passes on a connection's pending changes, customers first; a limit of 0 means all of them.
func eachChange(ctx context.Context, s *session.Session, connection string, limit int,
	do func(state.Change) error) error {
	return admin.PageThrough(limit, func(lane string, after int64) ([]state.Change, error) {
		return s.Ledger.Changes(ctx, connection, lane, true, after, admin.ChangesRead)
	}, do)
}

// eachHeld passes on the reasons for a connection's records on hold.
func eachHeld(ctx context.Context, s *session.Session, connection string, do func(state.AttentionRow) error) error {
	return s.Ledger.EachAttention(ctx, state.Filter{Connection: connection, OnHold: true}, do)
}
