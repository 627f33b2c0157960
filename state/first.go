package state

import (
	"encoding/json"
	"errors"
	"fmt"

	"payersync/connector"
)

// FirstRecord is a record that the ledger has never held, with the decision on it.
type FirstRecord struct {
	Record   connector.Record
	Decision Decision

	box []byte // the record, sealed
}

// NewFirst seals a record and its decision for SaveFirst. The only writer then need not do so for all, one by one.
func (l *Ledger) NewFirst(connection string, r connector.Record, d Decision) (*FirstRecord, error) {
	f := &FirstRecord{Record: r, Decision: d}
	var err, label, wanted error
	f.box, err = l.boxRecord(connection, r)
	if d.Label != nil {
		f.Decision.Label, label = l.boxLabel(connection, *d.Label)
	}
	if d.Customer != nil {
		d.Customer.plain, wanted = json.Marshal(d.Customer.Wanted)
	}
	return f, errors.Join(err, label, wanted)
}

// SaveFirst stores different records that the ledger has never held, together with the decisions on them. The result is
// that of SavePage, SaveLabels and SaveDecisions. A record stored meanwhile is saved without its decision, and the plan
// of this run decides on it again.
func (tx *Tx) SaveFirst(run int64, connection, mapping string, first []FirstRecord) error {
	if err := tx.holds(run); err != nil {
		return err
	}
	held, err := tx.heldOf(connection, first)
	if err != nil {
		return fmt.Errorf("look which records are stored by now: %w", err)
	}
	var late []connector.Record
	var labels []NewLabel
	groups := map[conclusion][]any{} // the records of a page have few different conclusions
	new := additions{payers: make([]any, 0, 6*len(first)), changes: make([]any, 0, 13*len(first))}
	for _, f := range first {
		d := f.Decision
		if d.Label != nil {
			labels = append(labels, *d.Label)
		}
		if held[d.SourceID] {
			late = append(late, f.Record)
			continue
		}
		as := d.conclusion(d.ContentHash, "")
		if groups[as] == nil {
			groups[as] = make([]any, 0, 7*len(first))
		}
		groups[as] = append(groups[as], recordRow(f.Record, d.ContentHash, f.box)...)
	}
	for as, records := range groups {
		if err := tx.insertRows(`INSERT INTO source_records (connection, updated_at, planned_hash, planned_mapping, decision, replan, rests, contested, class,
			not_asked, not_asked_line, not_asked_condition, unfit, wanted_hash, plan_flags, `+recordRowColumns+") VALUES ",
			"(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?, ?, ?, ?, ?, ?, ?)", records, "",
			connection, stamp(tx.now), sameContent, mappingTag(mapping), as.verdict, as.waits, as.rests, as.contested, as.class,
			as.unasked.Why, as.unasked.Line, as.unasked.Condition, as.facts.unfit, as.facts.hash, as.facts.flags); err != nil {
			return fmt.Errorf("save new records: %w", err)
		}
	}
	for _, f := range first {
		if held[f.Decision.SourceID] {
			continue
		}
		if err := tx.saveDecision(run, connection, f.Decision, before{}, &new); err != nil {
			return fmt.Errorf("save the decision on record %s: %w", f.Decision.SourceID, err)
		}
	}
	if err := tx.SavePage(run, connection, late); err != nil {
		return err
	}
	if err := tx.SaveLabels(connection, mapping, labels); err != nil {
		return err
	}
	return tx.add(run, connection, new)
}

// storedOf is the query for those of the ids ?2 that connection ?1 has a record of.
const storedOf = "SELECT r.source_id FROM json_each(?2) j CROSS JOIN source_records r ON r.connection = ?1 AND r.source_id = j.value"

// heldOf returns the ids of those records that are stored.
func (tx *Tx) heldOf(connection string, first []FirstRecord) (map[string]bool, error) {
	ids := make([]string, len(first))
	for i, f := range first {
		ids[i] = f.Decision.SourceID
	}
	page, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	held := map[string]bool{}
	return held, tx.each(storedOf, []any{connection, string(page)},
		func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			held[id] = true
			return err
		})
}
