package main

import (
	"context"
	"errors"
	"fmt"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector/office"
	"payersync/connector/syncer"
	"payersync/state"
)

// mostNamed is how many look-alikes are named beside a create.
const mostNamed = 3

// printAlike prints the first matches of a record about to get a customer of its own.
func (a *app) printAlike(c state.Change, found []state.Lookalike) {
	for _, k := range found[:min(mostNamed, len(found))] {
		fmt.Fprintf(a.Out, "            note: %s\n", show.Visible(office.AlikeWords(c, k)))
	}
	if n := len(found) - mostNamed; n > 0 {
		fmt.Fprintf(a.Out, "            note: %d more look like it\n", n)
	}
}

// tellApart stores a person's decision that two records of a connection are two payers.
func (a *app) tellApart(ctx context.Context, connection, record, other string, d decision) error {
	s, err := a.openLedger(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	c, err := s.Config.One(connection)
	if err != nil {
		return err
	}
	both := fmt.Sprintf("records %s and %s", show.Visible(record), show.Visible(other))
	sure, err := a.Confirms(ctx, d.yes, both+" would be told apart", fmt.Sprintf("Are %s two payers?", both))
	if err != nil {
		return err
	}
	if !sure {
		a.Say("Nothing was decided.")
		return nil
	}
	var report decisionReport
	news, err := office.TellApart(ctx, s.Ledger, state.RecordID{Connection: c.Name, SourceID: record}, other, syncer.Operator{Name: actor(), Reason: d.reason})
	if report.Before = 1; news {
		report = decisionReport{Rejected: 1}
	}
	switch {
	case errors.Is(err, state.ErrNoRecord), errors.Is(err, state.ErrSameRecord):
		return fmt.Errorf("cannot tell record %s from record %s: %w", show.Visible(record), show.Visible(other), err)
	case err != nil:
		return err
	}
	return a.printDecided(report, c.Name, report.Rejected > 0)
}
