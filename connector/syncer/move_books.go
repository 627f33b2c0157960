package syncer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"payersync/connector"
	"payersync/connector/match"
	"payersync/connector/protocol"
	"payersync/state"
)

// OldPayer is a payer of a moved connection, or one possibly moved, for comparison with another connection's
// records.
type OldPayer struct {
	state.Payer
	Customer connector.Customer // our last values on its customer
}

// OldPayers returns a connection's payers with a customer. The connection need not be configured any more. OldPayers
// reads only the ledger.
func (s *Syncer) OldPayers(ctx context.Context, connection string) ([]OldPayer, error) {
	payers, err := s.Ledger.LinkedPayers(ctx, connection)
	if err != nil {
		return nil, err
	}
	ids := make([]state.RecordID, len(payers))
	for i, p := range payers {
		ids[i] = state.RecordID{Connection: connection, SourceID: p.SourceID}
	}
	labels, err := s.Ledger.LabelsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	out := make([]OldPayer, len(payers))
	for i, p := range payers {
		out[i].Payer = p
		if p.Applied != nil {
			out[i].Customer = *p.Applied
			continue
		}
		label := labels[ids[i]] // nothing of ours was written on its customer
		out[i].Customer = connector.Customer{Name: label.Name,
			People: []connector.Person{{Name: label.Name, Email: label.Email}}}
	}
	return out, nil
}

// Imported returns the values of fields, of a system's records, that the stored records of another connection show:
// that one read the system's export. They are by source id and field.
func (s *Syncer) Imported(ctx context.Context, connection string, fields []connector.Field) (map[string]map[string]string,
	error) {
	out, after := map[string]map[string]string{}, ""
	for {
		page, err := s.Ledger.StoredRecords(ctx, connection, "", false, after, planPage)
		if err != nil || len(page) == 0 {
			return out, err
		}
		for _, r := range page {
			after = r.Record.SourceID
			if values := connector.ImportedValues(fields, r.Record.Data); len(values) > 0 {
				out[after] = values
			}
		}
	}
}

// Beside returns the payer in the form of a customer, for comparison with records. Its id is the id of the
// payer's record. It has no key, because other accounting systems have other keys.
func (p OldPayer) Beside() match.Customer {
	c := match.Customer{}
	c.ID, c.Name, c.Addresses, c.People = p.SourceID, p.Customer.Name, p.Customer.Addresses, p.Customer.People
	c.ExternalData = map[string]string{}
	for name, value := range p.Customer.ExternalData {
		if name != p.Key.Name && name != connector.ScopeName(p.Key.Name) {
			c.ExternalData[name] = value
		}
	}
	for _, person := range p.Customer.People {
		if person.Email != "" {
			c.Emails = append(c.Emails, person.Email)
		}
		if person.Phone != "" {
			c.Phones = append(c.Phones, person.Phone)
		}
	}
	return c
}

// MoveBooks stores the move of a connection's records to conn and the pairs of old payers and new records.
// From then on the customers belong to the new records, with mandates, history and decisions; the next plan
// of conn writes the keys. MoveBooks returns the pairs left unchanged, and can be repeated after an
// interruption. Its errors are those of state.Ledger.MoveBooks.
func (s *Syncer) MoveBooks(ctx context.Context, conn Connection, from string, pairs []state.MovePair,
	by Operator) (left []state.MoveLeft, err error) {
	if by.Reason == "" {
		return nil, fmt.Errorf("move the connection: %w", ErrReasonNeeded)
	}
	pairs = slices.Clone(pairs)
	for i, p := range pairs {
		if pairs[i].GivenUpOf, err = s.givenUpOf(ctx, conn, p); err != nil {
			return nil, err
		}
	}
	if left, err = s.Ledger.MoveBooks(ctx, decisionOn(from, conn.Name, by), pairs); err != nil {
		return left, err
	}
	return left, s.reportLeftBehind(ctx, from, conn.Name)
}

// givenUpOf returns a digest of the mapped new record of a pair if a person gave the old record up; "" otherwise.
func (s *Syncer) givenUpOf(ctx context.Context, conn Connection, p state.MovePair) (string, error) {
	old, err := s.Ledger.StoredRecord(ctx, p.Old.Connection, p.Old.SourceID, conn.Mapping.Version())
	if err != nil || !old.GivenUp {
		return "", err
	}
	stored, err := s.Ledger.StoredRecord(ctx, p.New.Connection, p.New.SourceID, conn.Mapping.Version())
	if err != nil {
		return "", err
	}
	m, err := (&run{Syncer: s, conn: conn}).mapped(stored.Record)
	return m.digest(stored.ContentHash), err
}

func decisionOn(from, to string, by Operator) state.ConnectionDecision {
	return state.ConnectionDecision{Old: from, New: to, Actor: by.Name, Reason: by.Reason}
}

// TakePairsBack returns the customers of pairs to the payers of the old connection. It returns the pairs left
// unchanged.
func (s *Syncer) TakePairsBack(ctx context.Context, from, to string, pairs []state.MovePair,
	by Operator) ([]state.MoveLeft, error) {
	if by.Reason == "" {
		return nil, fmt.Errorf("take moved records back: %w", ErrReasonNeeded)
	}
	left, err := s.Ledger.TakePairsBack(ctx, decisionOn(from, to, by), pairs)
	if err != nil {
		return left, err
	}
	return left, s.reportLeftBehind(ctx, from, to)
}

// UndoMove reverses the move of a connection's records. The customers return to the old payers and the old
// connection reopens; its next plan writes the old keys. While any pair is left unchanged, the old connection
// stays closed.
func (s *Syncer) UndoMove(ctx context.Context, from, to string, by Operator) (left []state.MoveLeft, err error) {
	pairs, err := s.Ledger.MovePairs(ctx, from, to)
	if err != nil {
		return nil, err
	}
	if left, err = s.TakePairsBack(ctx, from, to, pairs, by); err != nil || len(left) > 0 {
		return left, err
	}
	return nil, s.Ledger.ReopenBooks(ctx, decisionOn(from, to, by))
}

// reportMovedConnections is reportLeftBehind for all connections moved to the run's connection.
func (r *run) reportMovedConnections(ctx context.Context) error {
	before, err := r.Ledger.Predecessors(ctx, r.conn.Name)
	for _, from := range before {
		err = errors.Join(err, r.reportLeftBehind(ctx, from, r.conn.Name))
	}
	return err
}

// reportLeftBehind reports payers of a moved connection with a valid mandate and no record in the new one:
// plans no longer check them.
func (s *Syncer) reportLeftBehind(ctx context.Context, from, to string) error {
	after := ""
	for {
		page, err := s.Ledger.LeftBehind(ctx, from, after, planPage)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := s.Ledger.Do(ctx, func(tx *state.Tx) error {
			for _, c := range page {
				c.Facts.Record = protocol.Record{Usability: protocol.Excluded, Key: c.Payer.Key.ID()}
				next := protocol.Decide(c.Facts)
				n := state.MissingReport{SourceID: c.Record.SourceID, Reason: next.Customer.Reason, OfMandate: next.Mandate.Reason}
				if n.Reason != "" {
					n.Detail = stillHolds(fmt.Sprintf("The connection moved to %s, and no record there continues the payer", to), c,
						c.Facts)
				}
				if err := tx.ReportLeftBehind(from, n); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return fmt.Errorf("tell of payers that no record continues: %w", err)
		}
		after = page[len(page)-1].Record.SourceID
	}
}
