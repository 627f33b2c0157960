package state

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"payersync/connector"
)

// asStored is the part of record r compared by News: all values written by SavePage for known content, or the
// fact and kind of a bar.
const asStored = "CASE r.forgotten WHEN '' THEN r.content_hash || ' ' || r.unreadable || ' ' || r.origin ELSE r.forgotten END"

// PageChanges is the new content of a page. Unchanged records write nothing, however often they are read.
type PageChanges struct {
	Records []connector.Record   // those that the ledger does not hold as they are, has missed, or waits for an echo of
	Bars    map[string]Forgotten // the records to bar that are not barred so
	// those whose label is to be made: the ledger does not hold them as they are, or another mapping made it
	Unlabelled []connector.Record
	// of Records: those that the ledger has never held, as a plan would see them once they are stored
	First []Candidate
}

// PageChanges returns the new content of a page with labels from this mapping.
func (l *Ledger) PageChanges(ctx context.Context, connection, mapping string, records []connector.Record,
	barred map[string]Forgotten) (PageChanges, error) {
	as := make(map[string]string, len(records)+len(barred))
	for _, r := range records {
		text := r.Hash() + " 0 " + r.Origin
		if r.Problem != "" {
			text = r.Hash() + " 1 " + r.Origin
		}
		if other, shown := as[r.SourceID]; shown && other != text {
			text = "" // shown as two things, so the page is saved as it comes
		}
		as[r.SourceID] = text
	}
	for id, how := range barred {
		as[id] = string(how)
	}
	asked, err := json.Marshal(as)
	if err != nil {
		return PageChanges{}, err
	}
	type row struct {
		id       string
		labelled bool
	}
	found, err := list(ctx, l,
		`SELECT j.key, EXISTS (SELECT 1 FROM labels b WHERE b.connection = ?1 AND b.source_id = j.key AND b.mapping IN (?3, ?4)) FROM json_each(?2) j
		CROSS JOIN source_records r ON r.connection = ?1 AND r.source_id = j.key AND `+asStored+` = j.value AND r.missed = 0 AND r.unseen = 0
		WHERE NOT EXISTS (SELECT 1 FROM writebacks w WHERE w.connection = ?1 AND w.source_id = j.key AND w.echo = 1)`,
		[]any{connection, string(asked), labelForm + mapping, labelForm + mappingTag(mapping)},
		func(r *row) []any { return []any{&r.id, &r.labelled} })
	if err != nil {
		return PageChanges{}, fmt.Errorf("look for what is new in a page: %w", err)
	}
	labelled := make(map[string]bool, len(found)) // of those held as they are
	for _, r := range found {
		labelled[r.id] = r.labelled
	}
	out := PageChanges{Bars: map[string]Forgotten{}}
	for _, r := range records {
		of, held := labelled[r.SourceID]
		if !held {
			out.Records = append(out.Records, r)
		}
		if !of {
			out.Unlabelled = append(out.Unlabelled, r)
		}
	}
	for id, how := range barred {
		if _, held := labelled[id]; !held {
			out.Bars[id] = how
		}
	}
	out.First, err = l.newRecords(ctx, connection, out.Records, as)
	return out, err
}

// newRecords returns the records of a page that the ledger has never held. The map as holds the content hash of each
// record. The hash is "" if the page shows the record twice with different contents.
func (l *Ledger) newRecords(ctx context.Context, connection string, records []connector.Record,
	as map[string]string) ([]Candidate, error) {
	if len(records) == 0 {
		return nil, nil
	}
	shown := make(map[string]bool, len(records))
	for _, r := range records {
		shown[r.SourceID] = true
	}
	ids, err := json.Marshal(slices.Collect(maps.Keys(shown)))
	if err != nil {
		return nil, err
	}
	held, err := l.ids(ctx, storedOf, connection, string(ids))
	if err != nil {
		return nil, fmt.Errorf("look which records of a page are new: %w", err)
	}
	for _, id := range held {
		shown[id] = false
	}
	out := make([]Candidate, 0, len(records)-len(held))
	stands := (&factRow{}).stands(payerRow{})
	for _, r := range records {
		hash, _, _ := strings.Cut(as[r.SourceID], " ")
		if shown[r.SourceID] && hash != "" && r.Data != nil {
			out = append(out, Candidate{Record: r, ContentHash: hash, Stands: stands})
		}
		shown[r.SourceID] = false // a page may show it twice as the same
	}
	return out, nil
}

// MarkMissing marks the connection's records missing from the run's complete reading. It has no effect of its
// own: MissingCount, MissingRecords and DropMissing use the marks. A record already marked is not written again.
// It fails with ErrLeaseLost when the run no longer holds its connection. met is kept only in memory, because
// a new run begins its reading anew. It returns the number of marked records.
func (l *Ledger) MarkMissing(ctx context.Context, run int64, connection string, met *connector.IDs) (marked int,
	err error) {
	var missed []string
	if err := each(ctx, l, "SELECT source_id FROM source_records WHERE connection = ?", []any{connection},
		func(id *string) []any { return []any{id} }, func(id string) error {
			if !met.Has(id) {
				missed = append(missed, id)
			}
			return nil
		}); err != nil {
		return 0, fmt.Errorf("look for records that were not met: %w", err)
	}
	if len(missed) == 0 {
		return 0, nil
	}
	page, err := json.Marshal(missed)
	if err != nil {
		return 0, err
	}
	return len(missed), l.Do(ctx, func(tx *Tx) error {
		if err := tx.holds(run); err != nil {
			return err
		}
		return tx.exec("UPDATE source_records SET missed = 1 WHERE connection = ?1 AND missed = 0 AND source_id IN (SELECT value FROM json_each(?2))", connection, string(page))
	})
}
