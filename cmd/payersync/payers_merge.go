package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/state"
)

// oneRecord finds the one record of an id, in a connection if one is given.
func oneRecord(ctx context.Context, s *session.Session, id, connection string) (state.RecordID, error) {
	found, err := s.Ledger.FindRecords(ctx, id)
	if err != nil {
		return state.RecordID{}, err
	}
	found = slices.DeleteFunc(found, func(r state.RecordID) bool { return connection != "" && r.Connection != connection })
	switch len(found) {
	case 0:
		return state.RecordID{}, fmt.Errorf("no record is called %q; payersync plan reads the accounting system anew",
			show.Visible(id))
	case 1:
		return found[0], nil
	}
	return state.RecordID{}, usage.Errorf("%q names %d records; use an id of only one, or --connection", show.Visible(id),
		len(found))
}

// mergeReport is the output of `payers same --into --output json`.
type mergeReport struct {
	SourceID  string                  `json:"source_id"`
	Into      string                  `json:"into"`       // "" when it is taken back
	BillingID string                  `json:"billing_id"` // of the record's customer; "" for none
	Mandate   string                  `json:"mandate_status"`
	Moves     bool                    `json:"moves"` // the customer comes to be the other record's
	Diff      []connector.FieldChange `json:"diff"`
	Accepted  bool                    `json:"accepted"`
}

func (a *app) merge(ctx context.Context, s *session.Session, r state.RecordID, into string, d decision) error {
	proposal, err := a.attentionOf(s).Propose(ctx,
		admin.Decision{Act: connector.ActMerge, Record: r, Other: state.RecordID{Connection: r.Connection, SourceID: into}})
	m := proposal.Merge
	if errors.Is(err, syncer.ErrSaidBefore) {
		a.Print("Record %s is excluded already, and %s stands for both.", show.Visible(r.SourceID), show.Visible(into))
		return a.Result(mergeReport{SourceID: r.SourceID, Into: into, Diff: []connector.FieldChange{}, Accepted: true})
	}
	if err != nil {
		return notMerged(r.SourceID, err)
	}
	report := mergeReport{SourceID: r.SourceID, Into: into, Mandate: string(m.Mandate), Moves: m.Move != nil,
		Diff: []connector.FieldChange{}}
	if m.Payer != nil {
		report.BillingID = m.Payer.BillingID
	}
	if m.Move != nil {
		report.Diff = append(report.Diff, m.Move.Diff...)
	}
	if report.Accepted, err = a.agrees(ctx, proposal, asksAlways, d.yes); err != nil {
		return err
	}
	if report.Accepted {
		if _, err := proposal.Perform(ctx, by(d.reason)); err != nil {
			return notMerged(r.SourceID, err)
		}
		a.Print("The next sync goes by it.")
	}
	return a.Result(report)
}

func (a *app) separate(ctx context.Context, s *session.Session, r state.RecordID, d decision) error {
	_, sure, err := a.act(ctx, s, admin.Decision{Act: connector.ActSeparate, Record: r}, asksInWalk, d.reason, d.yes)
	if err != nil {
		return notMerged(r.SourceID, err)
	}
	if sure {
		a.Print("Record %s is a payer of its own from the next sync on.", show.Visible(r.SourceID))
	}
	return a.Result(mergeReport{SourceID: r.SourceID, Diff: []connector.FieldChange{}, Accepted: sure})
}

// notMerged says why records are not merged, and what to do.
func notMerged(sourceID string, err error) error {
	next := "payersync payers show says how each of them stands"
	switch {
	case errors.Is(err, state.ErrNoRecord):
		next = "payersync plan reads the accounting system anew"
	case errors.Is(err, syncer.ErrNotSent):
		next = "first correct the record that stands for both: payersync payers show explains its finding"
	case errors.Is(err, state.ErrUnlinking):
		next = "payersync payers different --keep takes that back"
	case errors.Is(err, state.ErrMerged):
		next = "payersync payers same --separate takes that back"
	}
	return fmt.Errorf("cannot merge %s: %w; %s", show.Visible(sourceID), err, next)
}
