package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"payersync/connector"
	"payersync/state"
)

// mostNamed is how many look-alikes are named beside a create.
const mostNamed = 3

// alikeOf returns the payers of ours that the record of a create looks like; nobody for any
// other change.
func (s *session) alikeOf(ctx context.Context, c state.Change) ([]state.Lookalike, error) {
	if c.Action != connector.ActionCreate {
		return nil, nil
	}
	return s.ledger.Lookalikes(ctx, c.Payer.Connection, c.Payer.SourceID)
}

// printAlike prints the first look-alikes of a record that would get a customer of its own.
func (a *app) printAlike(c state.Change, found []state.Lookalike) {
	for _, k := range found[:min(mostNamed, len(found))] {
		fmt.Fprintf(a.out, "            note: %s\n", visible(wordsOf(c, k)))
	}
	if n := len(found) - mostNamed; n > 0 {
		fmt.Fprintf(a.out, "            note: %d more look like it\n", n)
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
	defer s.close()
	c, err := s.cfg.one(connection)
	if err != nil {
		return err
	}
	both := fmt.Sprintf("records %s and %s", visible(record), visible(other))
	sure, err := a.confirms(ctx, d.yes, both+" would be told apart", fmt.Sprintf("Are %s two payers?", both))
	if err != nil {
		return err
	}
	if !sure {
		a.say("Nothing was decided.")
		return nil
	}
	var report decisionReport
	err = s.ledger.Do(ctx, func(tx *state.Tx) error {
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
		return fmt.Errorf("cannot tell record %s from record %s: %w", visible(record), visible(other), err)
	case err != nil:
		return err
	}
	return a.printDecided(report, c.Name, report.Rejected > 0)
}
