package state

import (
	"encoding/json"
	"fmt"

	"payersync/connector"
	"payersync/connector/protocol"
)

// reportedRecord is a record with a report.
type reportedRecord struct {
	class, told protocol.Status // by its newest decision, and by what is told
	missed      bool            // the last whole reading did not show it
}

// What is told of a connection's records, at the end of each run. Both begin with what is told: there is little of it,
// beside the records.
const (
	findingsSince = "SELECT source_id, reason, since >= ? FROM " + toldOfRecords + " a WHERE connection = ?"
	toldWithClass = "SELECT a.source_id, a.reason, r.class, r.missed FROM " + toldOfRecords + ` a
		CROSS JOIN source_records r ON r.connection = a.connection AND r.source_id = a.source_id WHERE a.connection = ?`
)

// reportedStatus returns the connection's records with a report.
func (tx *Tx) reportedStatus(connection string) (map[string]reportedRecord, error) {
	out := map[string]reportedRecord{}
	err := tx.each(toldWithClass, []any{connection}, func(scan func(...any) error) error {
		var id string
		var reason connector.Reason
		var t reportedRecord
		if err := scan(&id, &reason, &t.class, &t.missed); err != nil {
			return err
		}
		if t.told = protocol.StatusOf(reason); out[id].told != "" {
			t.told = protocol.Worse(t.told, out[id].told)
		}
		out[id] = t
		return nil
	})
	return out, err
}

// countRun counts each record once that the run met or acted on. again reports whether any record,
// met or not, must be planned again, or changed after the run had carried out a change of it.
func (tx *Tx) countRun(run int64, connection string, met *connector.IDs) (c Counts, again bool, err error) {
	changed := map[string]*int{
		"created": &c.Created, "adopted": &c.Adopted, "updated": &c.Updated, "failed": &c.Failed, "waiting": &c.Waiting,
		"held": &c.Held, "unchanged": &c.Unchanged,
	}
	stands := func(class protocol.Status, n int) {
		c.Pulled += n
		switch class {
		case protocol.Working:
			c.Waiting += n
		case protocol.Out:
			c.Excluded += n
		case protocol.InStep:
			c.Unchanged += n
		case protocol.Failed:
			c.Failed += n
		default:
			c.Held += n
		}
	}
	told, err := tx.reportedStatus(connection)
	if err != nil {
		return c, again, err
	}
	var id, how string
	var taken, missed, since bool
	var class protocol.Status
	if err := tx.each(countChanged, []any{run, connection}, func(scan func(...any) error) error {
		if err := scan(&id, &taken, &how, &class, &missed, &since); err != nil {
			return err
		}
		again = again || since
		counts := met == nil && !missed || met != nil && met.Has(id)
		if counts {
			stands(class, -1) // it is among all that were met, below
		}
		if counts || taken {
			*changed[how]++
			c.Pulled++
			delete(told, id)
		}
		return nil
	}); err != nil {
		return c, again, err
	}
	replan, err := tx.countMet(connection, met, stands)
	if again = again || replan; err != nil {
		return c, again, err
	}
	for id, t := range told { // what is told counts in every run until it is settled
		if met == nil && !t.missed || met != nil && met.Has(id) {
			stands(t.class, -1)
			stands(protocol.Worse(t.class, t.told), 1)
		}
	}
	err = tx.row([]any{&c.LinksRequested, &c.OwnEchoes},
		"SELECT (SELECT count(*) FROM changes WHERE run_id = ?1 AND action = 'link' AND state = 'done' AND reason = ''), (SELECT echoes FROM runs WHERE run_id = ?1)", run)
	return c, again, err
}

// countMet counts the records met by a run, by their class. With a nil met it counts all records that are not
// missed. again reports
// whether any record needs another plan, including those that the run did not meet.
func (tx *Tx) countMet(connection string, met *connector.IDs, stands func(protocol.Status, int)) (again bool,
	err error) {
	if met != nil {
		if ids, small := met.Few(); small {
			return tx.countFew(connection, ids, met, stands)
		}
		err = tx.each("SELECT source_id, class, replan FROM source_records WHERE connection = ?", []any{connection},
			func(scan func(...any) error) error {
				var id string
				var class protocol.Status
				var replan bool
				err := scan(&id, &class, &replan)
				if again = again || replan; met.Has(id) {
					stands(class, 1)
				}
				return err
			})
		return again, err
	}
	classes := [...]protocol.Status{protocol.Working, protocol.Failed, protocol.Held, protocol.InStep, protocol.Out}
	var of [len(classes)]int
	query, dest := "SELECT count(*) FILTER (WHERE replan = 1) > 0", []any{&again}
	for i, class := range classes { // not grouped, which would sort every record
		query += fmt.Sprintf(", count(*) FILTER (WHERE missed = 0 AND class = '%s')", class)
		dest = append(dest, &of[i])
	}
	err = tx.row(dest, query+" FROM source_records WHERE connection = ?", connection)
	for i, class := range classes {
		stands(class, of[i])
	}
	return again, err
}

// The queries of countFew. Neither reads the other records of the connection.
const (
	classesOf   = "SELECT r.source_id, r.class FROM json_each(?2) j CROSS JOIN source_records r ON r.connection = ?1 AND r.source_id = j.value"
	anyToReplan = "SELECT EXISTS (SELECT 1 FROM source_records WHERE connection = ? AND replan = 1)"
)

// countFew is countMet for a run that met few records.
func (tx *Tx) countFew(connection string, ids []string, met *connector.IDs,
	stands func(protocol.Status, int)) (again bool, err error) {
	page, err := json.Marshal(ids)
	if err != nil {
		return false, err
	}
	if err := tx.each(classesOf, []any{connection, string(page)}, func(scan func(...any) error) error {
		var id string
		var class protocol.Status
		err := scan(&id, &class)
		if met.Has(id) {
			stands(class, 1)
		}
		return err
	}); err != nil {
		return false, err
	}
	err = tx.row([]any{&again}, anyToReplan, connection)
	return again, err
}
