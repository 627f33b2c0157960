package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/state"
)

// mostNamed is how many look-alikes are named beside a create.
const mostNamed = 3

// alikeOf returns the payers of ours that the record of a create looks like; nobody for any
// other change.
func alikeOf(ctx context.Context, s *session.Session, c state.Change) ([]state.Lookalike, error) {
	if c.Action != connector.ActionCreate {
		return nil, nil
	}
	return s.Ledger.Lookalikes(ctx, c.Payer.Connection, c.Payer.SourceID)
}

// printAlike prints the first look-alikes of a record that would get a customer of its own.
func (a *app) printAlike(c state.Change, found []state.Lookalike) {
	for _, k := range found[:min(mostNamed, len(found))] {
		fmt.Fprintf(a.Out, "            note: %s\n", show.Visible(wordsOf(c, k)))
	}
	if n := len(found) - mostNamed; n > 0 {
		fmt.Fprintf(a.Out, "            note: %d more look like it\n", n)
	}
}

// wordsOf says in words what a record has in common with another payer.
func wordsOf(c state.Change, k state.Lookalike) string {
	var common []string
	if k.Name {
		common = append(common, "name")
	}
	if k.Email {
		common = append(common, "e-mail address")
	}
	said := fmt.Sprintf("same %s as record %s", strings.Join(common, " and "), k.SourceID)
	if k.Connection != c.Payer.Connection {
		said += " of " + k.Connection
	}
	if k.BillingID != "" {
		said += ", customer " + k.BillingID
	}
	if k.Left {
		said += ", which has left the books"
	}
	return said
}

// tellApart notes a person's word that two records of a connection are two payers.
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
	err = s.Ledger.Do(ctx, func(tx *state.Tx) error {
		news, err := tx.TellApart(c.Name, record, other)
		if err != nil || !news {
			report.Before = 1
			return err
		}
		report.Rejected = 1
		return tx.Audit(state.Entry{Actor: actor(), Action: "reject match", Subject: c.Name + "/" + pair{record, other}.String(), Reason: d.reason})
	})
	switch {
	case errors.Is(err, state.ErrNoRecord), errors.Is(err, state.ErrSameRecord):
		return fmt.Errorf("cannot tell record %s from record %s: %w", show.Visible(record), show.Visible(other), err)
	case err != nil:
		return err
	}
	return a.printDecided(report, c.Name, report.Rejected > 0)
}
