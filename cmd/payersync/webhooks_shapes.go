package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/billing"
	"payersync/state"
)

// shapesReport is the output of `webhooks list --shapes --output json`; its keys are public.
type shapesReport struct {
	billing.Surveyed
	EventPaths map[string][]string `json:"event_paths"` // to set below billing.webhook.event_paths
}

const (
	quarantineBatch = 200
	shapesShown     = 10
)

func (a *app) webhooksShapesCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "shapes",
		Short: "Show the members of quarantined deliveries, and the likely places of their ids",
		Long: `Groups the quarantined deliveries by their shape: their members and the kinds of
these. It shows no value. From the values of all of them it infers the places of
customers, mandates, types, event ids and times. It prints these as
billing.webhook.event_paths to paste, after the configured paths, with the number of
deliveries that support each. After the change, payersync webhooks replay
--quarantined parses them anew.`,
		Example: "  payersync webhooks list --shapes\n  payersync webhooks list --shapes --output json",
		RunE: a.runs(a.openLedger, func(ctx context.Context, s *session.Session, _ []string) error {
			r, err := surveyQuarantine(ctx, s)
			if err != nil {
				return err
			}
			if a.JSON() {
				return show.JSON(a.Out, r)
			}
			a.printShapes(r)
			return nil
		}),
	}
}

func eventPaths(s *session.Session) billing.EventPaths {
	if hook := s.Config.Billing.Webhook; hook != nil {
		return hook.EventPaths
	}
	return billing.DefaultEventPaths()
}

func surveyQuarantine(ctx context.Context, s *session.Session) (shapesReport, error) {
	known, err := s.Ledger.KnownIDs(ctx)
	if err != nil {
		return shapesReport{}, err
	}
	survey := billing.Survey{Paths: eventPaths(s), Customer: known.Customers.Has, Mandate: known.Mandates.Has}
	if err := eachQuarantined(ctx, s, func(deliveries []state.QuarantinedDelivery) error {
		for _, d := range deliveries {
			survey.Add(d.ReceivedAt, d.Type != "", d.Body)
		}
		return nil
	}); err != nil {
		return shapesReport{}, err
	}
	r := shapesReport{Surveyed: survey.Found()}
	_, r.EventPaths = survey.Paths.With(r.Proposals)
	return r, nil
}

// eachQuarantined passes on the quarantined deliveries, in parts.
func eachQuarantined(ctx context.Context, s *session.Session, do func([]state.QuarantinedDelivery) error) error {
	for after := int64(0); ; {
		deliveries, err := s.Ledger.QuarantinedAfter(ctx, after, quarantineBatch)
		if err != nil || len(deliveries) == 0 {
			return err
		}
		if err := do(deliveries); err != nil {
			return err
		}
		after = deliveries[len(deliveries)-1].ID
	}
}

func (a *app) printShapes(r shapesReport) {
	if r.Deliveries == 0 {
		fmt.Fprintln(a.Out, "No delivery is quarantined.")
		return
	}
	fmt.Fprintf(a.Out, "%s not understood, in %s.%s\n", connector.Plural(r.Deliveries, "delivery"),
		connector.Plural(len(r.Shapes), "shape"), besides(r.Surveyed))
	for i, shape := range r.Shapes[:min(len(r.Shapes), shapesShown)] {
		fmt.Fprintf(a.Out, "\nShape %d: %s, first %s, last %s\n", i+1, connector.Plural(shape.Count, "delivery"),
			show.Time(shape.First), show.Time(shape.Last))
		rows := connector.Map(shape.Members, func(m billing.EventMember) []string { return []string{m.Path, m.Kind} })
		show.Table(a.Out, []string{"Member", "Value"}, rows)
	}
	if more := len(r.Shapes) - shapesShown; more > 0 {
		fmt.Fprintf(a.Out, "\nAnd %s more: --output json shows them.\n", connector.Plural(more, "shape"))
	}
	a.printProposals(r)
}

func besides(r billing.Surveyed) string {
	text := ""
	for _, part := range []struct {
		n    int
		what string
	}{{r.Erased, "without a stored body"}, {r.Unreadable, "of no JSON object"}, {r.MoreShapes, "of further shapes"}} {
		if part.n > 0 {
			text += fmt.Sprintf(" %d %s.", part.n, part.what)
		}
	}
	return text
}

func (a *app) printProposals(r shapesReport) {
	if len(r.EventPaths) == 0 {
		fmt.Fprintln(a.Out, "\nThe deliveries support no other paths: no unused member contains an id known to the ledger in at least half of its deliveries. After a sweep the ledger knows more ids.")
		return
	}
	fmt.Fprintln(a.Out, "\nLikely places of the facts")
	var rows [][]string
	for _, p := range r.Proposals {
		rows = append(rows, []string{p.Key, p.Path, fmt.Sprintf("%d of %d", p.Evidence, p.Deliveries), p.Why})
	}
	show.Table(a.Out, []string{"Key", "Path", "Deliveries", "Why"}, rows)
	fmt.Fprint(a.Out, "\nTo paste into the configuration:\n\nbilling:\n  webhook:\n    event_paths:\n")
	for _, key := range []string{"type", "customer_id", "mandate_id", "event_id", "occurred_at"} {
		if paths := r.EventPaths[key]; len(paths) > 0 {
			fmt.Fprintf(a.Out, "      %s: [%s]\n", key, strings.Join(quoted(paths), ", "))
		}
	}
	fmt.Fprintf(a.Out, "\nWith it %d of %d are understood: payersync webhooks replay --quarantined reads them anew.\n",
		r.Understood, r.Deliveries)
}

// quoted writes texts as YAML strings, whatever the names of strangers' members.
func quoted(texts []string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = strconv.QuoteToASCII(text)
	}
	return out
}
