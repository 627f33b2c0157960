package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/state"
)

func (a *app) matchFinishCmd(connection *string) *cobra.Command {
	var d decision
	undo := false
	c := &cobra.Command{
		Use:   "finish",
		Short: "Finish matching: the next runs create customers for records without a match",
		Long: `If the billing service has customers that belong to no record, the first run of a
connection creates no customers: each existing one may be a payer's. Compare them with
payersync payers match, and accept or reject the matches. Then use this command to
finish matching. It sends nothing: the next run creates customers for the other
records, within the limits. Customers that appear in the service later do not stop the
connection again.

--undo takes it back. The created customers stay; the next ones wait again.`,
		Example: "  payersync payers match --finish --reason 'all 41 compared'\n  payersync payers match --finish --connection acme --undo --reason 'too early'",
		RunE: a.runs(a.openLedger, func(ctx context.Context, s *session.Session, _ []string) error {
			one, err := s.Config.One(*connection)
			if err != nil {
				return err
			}
			if undo {
				return a.reopenMatching(ctx, s, one.Name, d)
			}
			return a.finishMatching(ctx, s, one.Name, d)
		}),
	}
	c.Flags().BoolVar(&undo, "undo", false, "take it back: new customers wait again")
	d.flags(c)
	return c
}

// matchingReport is the output of `payers match --finish --output json`.
type matchingReport struct {
	Connection string             `json:"connection"`
	Finished   bool               `json:"finished"`
	Changed    bool               `json:"changed"` // it was otherwise before
	Stops      []state.CreateStop `json:"create_stops"`
}

func (a *app) finishMatching(ctx context.Context, s *session.Session, connection string, d decision) error {
	stops, err := admin.Stops(ctx, s.Ledger, []string{connection})
	if err != nil {
		return err
	}
	counted := 0
	for _, stop := range stops {
		if stop.Cause == state.CauseFirstMatching {
			a.Print("%s", stop.Sentence())
			counted = stop.Records
		}
	}
	alike := 0
	if err := s.Ledger.EachAttention(ctx, state.Filter{Connection: connection, State: string(connector.ReasonLikeness)},
		func(state.AttentionRow) error {
			alike++
			return nil
		}); err != nil {
		return err
	}
	switch {
	case alike > 0 && alike == counted: // the sentence before says how many
		a.Print("These records stay on hold until you decide on each.")
	case alike > 0:
		a.Print("On hold for a match: %s. They stay on hold until you decide on each.", connector.Plural(alike, "record"))
	}
	sure, err := a.Confirms(ctx, d.yes, "Matching is not finished",
		fmt.Sprintf("Is matching of %s finished? The next run then creates customers for records without a match.",
			show.Visible(connection)))
	if err != nil {
		return err
	}
	if !sure {
		a.Print("Nothing was changed.")
		return nil
	}
	news, err := admin.FinishMatching(ctx, s.Ledger, connection, syncer.Operator{Name: actor(), Reason: d.reason})
	if err != nil {
		return err
	}
	return a.printMatching(ctx, s, matchingReport{Connection: connection, Finished: true, Changed: news},
		map[bool]string{true: "Matching of %s is finished.", false: "Matching of %s was finished before."}[news])
}

func (a *app) reopenMatching(ctx context.Context, s *session.Session, connection string, d decision) error {
	err := admin.ReopenMatching(ctx, s.Ledger, connection, syncer.Operator{Name: actor(), Reason: d.reason})
	if errors.Is(err, state.ErrMatchingOpen) {
		return fmt.Errorf("cannot take it back: %w", err)
	}
	if err != nil {
		return err
	}
	return a.printMatching(ctx, s, matchingReport{Connection: connection, Changed: true},
		"Matching of %s is open again: the next run creates nobody while customers belong to no record.")
}

// printMatching prints the progress of matching, and the remaining obstacles to creates.
func (a *app) printMatching(ctx context.Context, s *session.Session, r matchingReport, says string) error {
	var err error
	if r.Stops, err = admin.Stops(ctx, s.Ledger, []string{r.Connection}); err != nil {
		return err
	}
	if a.JSON() {
		return show.JSON(a.Out, r)
	}
	fmt.Fprintf(a.Out, says+"\n", show.Visible(r.Connection))
	if r.Finished {
		if err := a.sayStops(ctx, s, r.Connection); err != nil {
			return err
		}
	}
	a.Print("Nothing is sent yet. To see the next run: payersync plan %s", show.Visible(r.Connection))
	return nil
}

// sayStops says why a connection creates no customers yet.
func (a *app) sayStops(ctx context.Context, s *session.Session, connection string) error {
	stops, err := admin.Stops(ctx, s.Ledger, []string{connection})
	for _, stop := range stops {
		a.Print("%s", stop.Text())
	}
	return err
}
