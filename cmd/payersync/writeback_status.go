package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/writeback"
	"payersync/state"
)

// writeStatus is a connection in `writeback`; its keys are public.
type writeStatus struct {
	state.WritebackRun
	Payers int            `json:"payers"`
	Says   map[string]int `json:"says"` // payers by the value of their field
	Echoes int            `json:"own_echoes"`
	Look   []writeRow     `json:"look"` // payers for a person to check
}

func (a *app) writebackStatusCmd() *cobra.Command {
	connection := ""
	c := &cobra.Command{
		Use:   "status [--connection NAME]",
		Short: "Show the last run, the fields, and the payers that need attention",
		Long: `Shows from the ledger the written values, the result of the last run, and the payers
that need attention. Somebody else changed their field, the system refused the write,
or payersync wrote too often. The command asks no other system.`,
		Example: "  payersync writeback\n  payersync writeback --output json",
		RunE: a.runs(a.openLedger, func(ctx context.Context, s *session.Session, _ []string) error {
			return a.eachWriter(ctx, s, connection, func(w writeback.Target) error { return a.showWritten(ctx, s, w) })
		}),
	}
	c.Flags().StringVar(&connection, "connection", "", "only the connection with this `NAME`")
	return c
}

func (a *app) showWritten(ctx context.Context, s *session.Session, w writeback.Target) error {
	out := writeStatus{WritebackRun: state.WritebackRun{Connection: w.Name}, Says: map[string]int{}, Look: []writeRow{}}
	runs, err := s.Ledger.WritebackRuns(ctx)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(runs, func(r state.WritebackRun) bool { return r.Connection == w.Name }); i >= 0 {
		out.WritebackRun = runs[i]
	}
	if err := s.Ledger.EachWriteback(ctx, w.Name, w.SetupHash(), func(p state.WritebackPayer) error {
		out.Payers++
		out.Says[string(p.Applied)]++
		out.Echoes += p.Echoes
		return nil
	}); err != nil {
		return err
	}
	if _, err := writeback.MakePlan(ctx, s.Ledger, w, func(i writeback.Item) {
		if i.Doing.Stuck() || i.Doing == writeback.Unclear {
			out.Look = append(out.Look, writeRowOf(writeback.Shown{Item: i}))
		}
	}); err != nil {
		return err
	}
	if a.JSON() {
		return show.JSON(a.Out, out)
	}
	a.printWriteStatus(out)
	return nil
}

func (a *app) printWriteStatus(r writeStatus) {
	line := "nothing was written yet"
	if !r.At.IsZero() {
		line = fmt.Sprintf("last run %s: %s written, %d waiting", show.Time(r.At), connector.Plural(r.Written, "status"),
			r.Waiting)
	}
	a.Hanging(r.Connection+"  ", line)
	var says []string
	for _, standing := range connector.FieldStatuses {
		if n := r.Says[string(standing)]; n > 0 {
			says = append(says, fmt.Sprintf("%d %s", n, standing))
		}
	}
	if len(says) > 0 {
		a.Hanging("  ", "the fields say "+strings.Join(says, ", "))
	}
	if r.Echoes > 0 {
		a.Hanging("  ", fmt.Sprintf("%s read back and taken for no change", connector.Plural(r.Echoes, "own echo")))
	}
	if r.Problem != "" {
		a.Hanging("  ", "it ended early: "+show.Visible(r.Problem))
	}
	rows := [][]string{}
	for _, i := range r.Look {
		rows = append(rows, []string{show.Visible(i.SourceID), show.Visible(i.Key), string(i.From), string(i.To),
			string(i.Doing), show.Visible(i.Why)})
	}
	if len(rows) > 0 {
		a.Rows([]string{"record", "key", "written", "status", "what", "why"}, rows)
		a.Print("payersync writeback take RECORD --connection %s --reason TEXT gives a field back to payersync.", r.Connection)
	}
}
