package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"payersync/connector"
)

// Barred returns the records of a page with only their id kept, and why. ForgottenNot marks records
// that no longer need to. label returns the label of a record.
func (l *Ledger) Barred(ctx context.Context, connection string, records []connector.Record,
	label func(connector.Record) connector.Label) (map[string]Forgotten, error) {
	said, err := l.storedTombstones(ctx)
	if err != nil || len(said.stone) == 0 {
		return nil, err
	}
	before, err := l.Predecessors(ctx, connection)
	if err != nil {
		return nil, err
	}
	marked, books := said.marked(), append([]string{connection}, before...)
	ids := make([]string, len(records))
	for i, r := range records {
		ids[i] = r.SourceID
	}
	asked, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	type row struct {
		id  string
		how Forgotten
	}
	rows, err := list(ctx, l,
		"SELECT r.source_id, r.forgotten FROM json_each(?2) j CROSS JOIN source_records r ON r.connection = ?1 AND r.source_id = j.value",
		[]any{connection, string(asked)}, func(r *row) []any { return []any{&r.id, &r.how} })
	if err != nil {
		return nil, fmt.Errorf("look who was forgotten: %w", err)
	}
	known := make(map[string]Forgotten, len(rows))
	for _, r := range rows {
		known[r.id] = r.how
	}
	out := map[string]Forgotten{}
	for _, r := range records {
		was, stored := known[r.SourceID]
		how := said.barred(RecordID{connection, r.SourceID}, stored && was == ForgottenNot, books, marked,
			func() connector.Label { return label(r) })
		if how != ForgottenNot || was != ForgottenNot {
			out[r.SourceID] = how
		}
	}
	return out, nil
}

// marked returns the marks of forgotten payers; false for one that may be kept after all.
func (s tombstones) marked() map[string]bool {
	out := map[string]bool{}
	for _, t := range s.stone {
		for _, m := range t.marks {
			out[m] = t.holds
		}
	}
	return out
}

// alike reports whether a record has a mark of a payer that was forgotten, in any of these connections.
func (s tombstones) alike(books []string, of connector.Label, marked map[string]bool) bool {
	for _, k := range s.keys {
		for _, connection := range books {
			if slices.ContainsFunc(k.marks(connection, of), func(m string) bool { return marked[m] }) {
				return true
			}
		}
	}
	return false
}

// barred returns why only a record's id is kept. books are its connection, and those whose books
// moved there. A record kept all along is compared only by its id: it may share a number, or a name
// and an address, with a forgotten payer.
func (s tombstones) barred(id RecordID, kept bool, books []string, marked map[string]bool,
	label func() connector.Label) Forgotten {
	for _, k := range s.keys {
		t, known := s.stone[k.ofRecord(id)]
		switch {
		case known && !t.holds:
			return ForgottenNot
		case known:
			if of := label(); looksOther(t.marks, k.personMark(of), k.numberMark(id.Connection, of)) {
				return ForgottenOther
			}
			return ForgottenPayer
		}
	}
	if kept {
		return ForgottenNot
	}
	if s.alike(books, label(), marked) {
		return ForgottenAlike
	}
	return ForgottenNot
}

// looksOther reports whether a record names a payer other than the forgotten one. A payer known
// only by number cannot be told from another.
func looksOther(marks []string, person, number string) bool {
	known := slices.DeleteFunc(slices.Clone(marks), func(m string) bool { return m == number })
	return person != "" && len(known) > 0 && !slices.Contains(known, person)
}

// Bar keeps of a record nothing but its id from now on, and with ForgottenNot ends that.
func (tx *Tx) Bar(connection, sourceID string, how Forgotten) error {
	id := RecordID{connection, sourceID}
	if how == ForgottenNot {
		return tx.permitAgain(id)
	}
	var was Forgotten
	err := tx.row([]any{&was}, "SELECT forgotten FROM source_records WHERE connection = ? AND source_id = ?", connection,
		sourceID)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		if _, err := tx.saveRecords(connection, []connector.Record{blank(sourceID)}); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("look whether record %s was forgotten: %w", sourceID, err)
	}
	err = nil
	if was == ForgottenNot {
		err = tx.erase(id, how)
	}
	return errors.Join(err, tx.exec(`UPDATE source_records SET missed = 0, unseen = 0, replan = CASE forgotten WHEN ?1 THEN replan ELSE 1 END, forgotten = ?1
		WHERE connection = ?2 AND source_id = ?3`, how, connection, sourceID))
}
