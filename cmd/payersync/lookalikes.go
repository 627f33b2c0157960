package main

import (
	"context"
	"errors"
	"fmt"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

// mostNamed is how many look-alikes are named beside a create.
const mostNamed = 3

// printAlike prints the first matches of a record about to get a customer of its own.
func (a *app) printAlike(c state.Change, found []state.Lookalike) {
	for _, k := range found[:min(mostNamed, len(found))] {
		fmt.Fprintf(a.Out, "            note: %s\n", show.Visible(admin.AlikeWords(c, k)))
	}
	if n := len(found) - mostNamed; n > 0 {
		fmt.Fprintf(a.Out, "            note: %d more look like it\n", n)
	}
}

// keepApart stores a person's decision that two records of a connection are two payers.
func (a *app) keepApart(ctx context.Context, connection, record, other string, d decision) error {
	s, err := a.openLedger(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	c, err := s.Config.One(connection)
	if err != nil {
		return err
	}
	id := state.RecordID{Connection: c.Name, SourceID: record}
	out, sure, err := a.act(ctx, s,
		admin.Decision{Act: connector.ActTellApart, Record: id, Other: state.RecordID{Connection: c.Name, SourceID: other}},
		asksAlways, d.reason, d.yes)
	switch {
	case errors.Is(err, state.ErrNoRecord), errors.Is(err, state.ErrSameRecord):
		return fmt.Errorf("cannot tell record %s from record %s: %w", show.Visible(record), show.Visible(other), err)
	case err != nil || !sure:
		return err
	case out.News:
		return a.printDecided(decisionReport{Rejected: 1}, c.Name, true)
	}
	return a.printDecided(decisionReport{Before: 1}, c.Name, false)
}
