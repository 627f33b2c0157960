package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
)

// The kinds of a complete read, as runs name them.
const (
	readChanges = "changes"
	readFull    = "full"
)

// RecordRead notes that the run's read of its source was complete, its scope, and its parts.
func (tx *Tx) RecordRead(run int64, full bool, proof connector.Proof) error {
	kind := readChanges
	if full {
		kind = readFull
	}
	return tx.exec("UPDATE runs SET read_kind = ?, pages = ?, repeats = ?, passes = ? WHERE run_id = ? AND finished_at IS NULL",
		kind, proof.Pages, proof.Repeats, proof.Passes, run)
}

// readingStream is the reading position for the completely read parts of its run.
const readingStream = "reading"

// Reading is the knowledge about a complete reading before it is made.
type Reading struct {
	as   string // stands for what it would give; "" for what cannot be told
	last string // stands for what the ledger holds; "" for what no reading gave, or none that can be told
}

// Known reports whether the ledger already holds exactly the content of the reading.
func (r Reading) Known() bool { return r.as != "" && r.as == r.last }

// IfStill returns the reading if a new one would be the same, and otherwise an unknown one.
func (r Reading) IfStill(now Reading) Reading {
	if r.as != now.as {
		r.as = ""
	}
	return r
}

// Reading describes a complete reading by a run. mark is the source's fingerprint of its content; "" if it
// has none. Labels are made by this mapping. The ledger holds an earlier run's reading only if no other run
// of the connection came after it, whatever its result.
func (l *Ledger) Reading(ctx context.Context, run int64, connection, mark, mapping string) (r Reading, err error) {
	if mark == "" {
		return r, nil
	}
	said, err := l.storedTombstones(ctx)
	if err != nil {
		return r, err
	}
	r.as = sha([]byte(fmt.Sprintf("%q %q %q", mark, labelForm+mapping, said.digest())))
	err = l.queryRow(ctx, `SELECT value FROM cursors WHERE connection = ?1 AND stream = ?2
		AND set_by_run = (SELECT run_id FROM runs WHERE connection = ?1 AND run_id < ?3 ORDER BY run_id DESC LIMIT 1)`,
		connection, readingStream, run).Scan(&r.last)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return r, err
}

// EndReading notes that the records of a connection come from a completed reading.
func (tx *Tx) EndReading(run int64, connection string, r Reading) error {
	if r.as == "" {
		return nil
	}
	return tx.SetCursor(connection, readingStream, r.as, run)
}

// LastFullRead returns when the newest complete read of everything began; the
// zero time when there was none. One of the future was noted by a clock that was
// set back since, and does not count.
func (l *Ledger) LastFullRead(ctx context.Context, connection string) (time.Time, error) {
	var at sql.NullString
	err := l.queryRow(ctx, "SELECT max(started_at) FROM runs WHERE connection = ? AND read_kind = 'full' AND started_at <= ?",
		connection, stamp(l.Now())).Scan(&at)
	if err != nil {
		return time.Time{}, fmt.Errorf("look for the last full read: %w", err)
	}
	return parseTime(at)
}

// MissingRecords returns up to limit records, as last read, that the run of MarkMissing did not meet. Deleted
// records are omitted.
func (l *Ledger) MissingRecords(ctx context.Context, connection string, limit int) ([]connector.Record, error) {
	return collect("look for records that are gone", func(scan scanner) (connector.Record, error) {
		var id string
		var box []byte
		if err := scan(&id, &box); err != nil {
			return connector.Record{}, fmt.Errorf("read a record that is gone: %w", err)
		}
		return l.openRecord(connection, id, box)
	})(l.query(ctx, `SELECT source_id, record FROM source_records
		WHERE connection = ? AND missed = 1 AND state <> 'deleted' ORDER BY source_id`+limitTo, connection, limit))
}

func (l *Ledger) openRecord(connection, id string, box []byte) (r connector.Record, err error) {
	plain, err := l.seal.open(box, place("source_records", "record", connection, id))
	if err != nil {
		return r, fmt.Errorf("record %s: %w", id, err)
	}
	if err := json.Unmarshal(plain, &r); err != nil {
		return r, fmt.Errorf("record %s: %w", id, err)
	}
	r.SourceID = id // which newer boxes do not repeat
	return r, nil
}

// The states of a connection's source, as the last run met it.
const (
	SourceActive       = "active"
	SourceParked       = "parked"       // its request limit is used up until a named time
	SourceDisconnected = "disconnected" // it no longer lets payersync in (fault F29)
)

// SetSourceState notes how a run met the connection's source; until is for a
// parked one.
func (tx *Tx) SetSourceState(connection, state string, until time.Time) error {
	return tx.exec(`UPDATE connections SET state = ?1, parked_until = ?2, updated_at = ?3
		WHERE name = ?4 AND (state <> ?1 OR coalesce(parked_until, '') <> coalesce(?2, ''))`, state, stamp(until),
		stamp(tx.now), connection)
}

// describe stores the source's description of itself; one without fields refused the sign-in and
// described nothing.
func (tx *Tx) describe(c Connection) error {
	if len(c.Info.Fields) == 0 {
		return nil
	}
	described, err := json.Marshal(c.Info)
	if err != nil {
		return fmt.Errorf("describe the source of %s: %w", c.Name, err)
	}
	// Keys may name the organisation, so another name of it is another mapping.
	if err := tx.exec(`UPDATE source_records SET planned_mapping = '' WHERE connection = ?1 AND EXISTS (SELECT 1 FROM connections c
		WHERE c.name = ?1 AND json_valid(c.described) AND coalesce(json_extract(c.described, '$.Organisation'), '') <> ?2)`,
		c.Name, c.Info.Organisation); err != nil {
		return fmt.Errorf("look at the records of %s anew: %w", c.Name, err)
	}
	return tx.exec("UPDATE connections SET described = ?1, updated_at = ?2 WHERE name = ?3 AND described <> ?1",
		string(described), stamp(tx.now), c.Name)
}

// SourceInfo returns the source's description of itself in the last run; the zero value before the
// first. An unreadable description keeps only the connection's pinned values; the next run writes
// it anew.
func (l *Ledger) SourceInfo(ctx context.Context, connection string) (connector.SourceInfo, error) {
	var pinned, info connector.SourceInfo
	var described string
	err := l.queryRow(ctx, "SELECT source_kind, tenant_id, tenant_name, described FROM connections WHERE name = ?",
		connection).
		Scan(&pinned.Kind, &pinned.Tenant, &pinned.TenantName, &described)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return pinned, nil
	case err != nil:
		return pinned, fmt.Errorf("read what the source of %s said: %w", connection, err)
	case json.Unmarshal([]byte(described), &info) != nil:
		return pinned, nil
	}
	return info, nil
}

// SourceRow is a connection's source as people see it.
type SourceRow struct {
	Connection  string    `json:"connection"`
	Kind        string    `json:"kind"`
	Tenant      string    `json:"tenant"`
	TenantName  string    `json:"tenant_name"`
	State       string    `json:"state"`
	ParkedUntil time.Time `json:"parked_until,omitzero"`
	MovedTo     string    `json:"moved_to,omitempty"` // the connection that its books moved to; "" while it is open
}

// Sources returns every connection's source, by name.
func (l *Ledger) Sources(ctx context.Context) ([]SourceRow, error) {
	out, err := collect("read the connections", func(scan scanner) (s SourceRow, err error) {
		var until sql.NullString
		if err := scan(&s.Connection, &s.Kind, &s.Tenant, &s.TenantName, &s.State, &until, &s.MovedTo); err != nil {
			return s, fmt.Errorf("read a connection: %w", err)
		}
		s.ParkedUntil, err = parseTime(until)
		return s, err
	})(l.query(ctx, `SELECT name, source_kind, tenant_id, tenant_name, state, parked_until,
		coalesce((SELECT d.new_connection FROM connection_decisions d WHERE d.old_connection = name AND d.decision = 'moved'), '') FROM connections ORDER BY name`))
	return append([]SourceRow{}, out...), err
}
