package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/reconcile"
	"payersync/connector/server"
	"payersync/connector/syncer"
	"payersync/state"
)

// rereadReport is the output of `webhooks replay --quarantined --output json`; its keys are public.
type rereadReport struct {
	Understood int            `json:"understood"` // deliveries readable now
	Stay       int            `json:"stay"`       // deliveries still unreadable
	Reasons    []rereadReason `json:"reasons"`    // why they stay, the most frequent first
	reconcile.DrainResult
}

type rereadReason struct {
	Reason     string `json:"reason"`
	Deliveries int    `json:"deliveries"`
}

const (
	maxReasons    = 50 // reasons may quote strangers' texts
	reasonsShown  = 5
	bodyNotKept   = "Its body is not kept any more."
	otherwiseStay = "Another reason."
)

// replayQuarantined parses the whole quarantine anew, in parts, each in its own transaction: finished parts
// stay done after an interruption.
func (a *app) replayQuarantined(ctx context.Context, s *session.Session) error {
	r := rereadReport{Reasons: []rereadReason{}}
	reasons := map[string]int{}
	progress := show.NewProgress(a.ErrOut, a.now)
	err := eachQuarantined(ctx, s, func(part []state.QuarantinedDelivery) error {
		n, err := rereadPart(ctx, s, part, reasons)
		r.Understood += n
		progress.Show(syncer.Progress{Stage: "read anew", Done: r.Understood + stay(reasons)})
		return err
	})
	progress.End()
	if err != nil {
		return err
	}
	r.Stay = stay(reasons)
	for reason, n := range reasons {
		r.Reasons = append(r.Reasons, rereadReason{reason, n})
	}
	slices.SortFunc(r.Reasons, func(a, b rereadReason) int {
		return cmp.Or(b.Deliveries-a.Deliveries, cmp.Compare(a.Reason, b.Reason))
	})
	if r.DrainResult, err = s.Reconciler.Drain(ctx); err != nil {
		return err
	}
	if a.JSON() {
		return show.JSON(a.Out, r)
	}
	fmt.Fprintf(a.Out, "%s understood now, %d not.\n", connector.Plural(r.Understood, "delivery"), r.Stay)
	for _, reason := range r.Reasons[:min(len(r.Reasons), reasonsShown)] {
		fmt.Fprintf(a.Out, "  %d: %s\n", reason.Deliveries, show.Visible(reason.Reason))
	}
	if r.Stay > 0 {
		fmt.Fprintln(a.Out, "See payersync webhooks list --shapes for the others, or give them up with payersync webhooks close.")
	}
	return a.showDrained(r.DrainResult)
}

func stay(reasons map[string]int) (n int) {
	for _, of := range reasons {
		n += of
	}
	return n
}

// rereadPart returns the readable deliveries to the inbox, counts the reasons of the others, and returns the
// number of readable ones.
func rereadPart(ctx context.Context, s *session.Session, part []state.QuarantinedDelivery,
	reasons map[string]int) (understood int, err error) {
	anew := map[string][]state.Delivery{}
	for _, q := range part {
		d := []state.Delivery{{State: connector.InboxQuarantined, Detail: bodyNotKept}}
		if len(q.Body) > 0 {
			d = server.RereadEvents(eventPaths(s), q.TypeHeader, q.Type, q.Body)
		}
		if admin.Understood(d) {
			anew[q.Key] = d
			continue
		}
		reason := d[0].Detail
		if _, ok := reasons[reason]; !ok && len(reasons) >= maxReasons {
			reason = otherwiseStay
		}
		reasons[reason]++
	}
	if len(anew) == 0 {
		return 0, nil
	}
	return admin.PutBackAll(ctx, s.Ledger, anew, actor())
}
