package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/state"
)

// mostLinks is how many lost links are fetched without a person's word.
const mostLinks = 200

func (a *app) mandatesLinksCmd() *cobra.Command {
	var connection string
	var lost, yes bool
	c := &cobra.Command{
		Use:   "links --lost",
		Short: "Fetch every signing link that was lost",
		Long: `Asks the billing service again for the signing link of every mandate that waits for a
signature and whose link nobody has: its answer was lost, or the ledger was rebuilt.
What another request gives is said by billing.dialect.link_when_created: the same
mandate, a new one in the place of the open one (each is asked about then), or
unknown (all are asked about at once, or --yes is given). Stopped half way, run it
again: it goes on with those that are still lost. The audit log keeps who asked.`,
		Example: "  payersync mandates links --lost\n  payersync mandates links --lost --connection acme --yes",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !lost {
				return usage.Errorf("say which links: payersync mandates links --lost")
			}
			return a.with(cmd.Context(), a.open, func(s *session.Session) error {
				if err := s.Config.Has(connection); err != nil {
					return err
				}
				payers, err := s.Ledger.LostLinks(cmd.Context(), connection, time.Time{})
				if err != nil {
					return err
				}
				if payers, err = a.chooseLost(cmd.Context(), s, payers, yes); err != nil {
					return err
				}
				return a.fetchLost(cmd.Context(), s, payers)
			})
		},
	}
	c.Flags().BoolVar(&lost, "lost", false, "those whose link nobody has")
	c.Flags().StringVar(&connection, "connection", "", "only this connection")
	c.Flags().BoolVar(&yes, "yes", false, "ask no question")
	return c
}

// chooseLost returns the payers whose link may be asked for again.
func (a *app) chooseLost(ctx context.Context, s *session.Session, payers []state.Payer, yes bool) ([]state.Payer, error) {
	mode := s.Config.Billing.Dialect.LinkWhenCreated
	switch {
	case len(payers) == 0, mode != "new" && yes, mode == "same" && len(payers) <= mostLinks:
		return payers, nil
	case mode != "new":
		n := connector.Plural(len(payers), "payer")
		sure, err := a.Confirms(ctx, yes, fmt.Sprintf("the links of %s would be asked for again", n), fmt.Sprintf("Ask again for the signing links of %s?", n))
		if err != nil || !sure {
			return nil, err
		}
		return payers, nil
	case a.Unasked() != "":
		return nil, usage.Errorf("billing.dialect.link_when_created says that another request replaces the open mandate, so each of the %s is asked about, and %s: run it on a terminal, or name one with payersync mandates request", connector.Plural(len(payers), "payer"), a.Unasked())
	}
	var chosen []state.Payer
	for _, p := range payers {
		sure, err := a.Asks(ctx, "Replace the open mandate of record %s by a new one?", show.Visible(p.SourceID))
		if err != nil {
			return nil, err
		}
		if sure {
			chosen = append(chosen, p)
		}
	}
	return chosen, nil
}

// linksReport is what `mandates links` did.
type linksReport struct {
	Asked   int `json:"asked"`
	Fetched int `json:"fetched"`
	Failed  int `json:"failed"`
}

// fetchLost asks for the links one after the other. One payer's refusal keeps no
// other from its turn; a service that does not answer ends it.
func (a *app) fetchLost(ctx context.Context, s *session.Session, payers []state.Payer) error {
	ids := make([]string, len(payers))
	for i, p := range payers {
		ids[i] = p.Connection + "/" + p.SourceID
	}
	if len(payers) > 0 {
		if err := s.Ledger.Do(ctx, func(tx *state.Tx) error {
			return tx.Audit(state.Entry{Actor: actor(), Action: "fetch lost signing links", Subject: connector.Plural(len(payers), "payer"), Reason: strings.Join(ids, ", ")})
		}); err != nil {
			return err
		}
	}
	progress := show.NewProgress(a.ErrOut, a.now)
	defer progress.End()
	r := linksReport{Asked: len(payers)}
	var ended error
	for i, p := range payers {
		progress.Show(syncer.Progress{Stage: "links", Done: i, Total: len(payers)})
		_, err := s.Syncer.RequestLink(ctx, p, syncer.Operator{Name: actor()})
		switch fault := connector.FaultOf(err); {
		case err == nil, errors.Is(err, syncer.ErrHasMandate):
			r.Fetched++
			continue
		case ctx.Err() != nil, fault == connector.FaultThrottled, fault == connector.FaultUnavailable, fault == connector.FaultUnauthorized:
			ended = err
		default:
			r.Failed++
			a.report(fmt.Errorf("%s: cannot fetch the signing link: %w", show.Visible(p.SourceID), err))
		}
		if ended != nil {
			break
		}
	}
	if err := a.showLinks(r); err != nil || ended != nil {
		return errors.Join(err, ended)
	}
	if r.Failed > 0 {
		return exitError(exitAttention)
	}
	return nil
}

func (a *app) showLinks(r linksReport) error {
	if a.JSON() {
		return show.JSON(a.Out, r)
	}
	if r.Asked == 0 {
		_, err := fmt.Fprintln(a.Out, "No signing link is lost, or none was chosen.")
		return err
	}
	_, err := fmt.Fprintf(a.Out, "%s of %d fetched, %d failed. payersync mandates list --links shows them.\n", connector.Plural(r.Fetched, "link"), r.Asked, r.Failed)
	return err
}
