package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"payersync/connector"
	"payersync/connector/protocol"
)

// Lease is how long a run may stay silent before another process takes its
// connection over. A running run renews it several times in that span.
const Lease = 2 * time.Minute

// leaseRanOut is the problem of an interrupted run.
const leaseRanOut = "the process stopped; its lease ran out"

// ErrLeaseLost means that another process has taken the run's connection over.
var ErrLeaseLost = errors.New("another run has taken this connection over")

// ErrRunOpen means that another run holds the connection.
type ErrRunOpen struct {
	Connection string
	RunID      int64 // 0 for a process that has no run, and holds its lock all the same
	Since      time.Time
}

// Error says which run holds the connection, and what to do.
func (e *ErrRunOpen) Error() string {
	if e.RunID == 0 {
		return fmt.Sprintf("another process holds the connection %s; try again when it has ended", e.Connection)
	}
	return fmt.Sprintf("another run (number %d, since %s) holds the connection %s; try again when it has ended", e.RunID,
		e.Since.Format(time.RFC3339), e.Connection)
}

// ErrOtherEnvironment means that a connection belongs to another source or organisation
// than the configuration names (fault F28).
type ErrOtherEnvironment struct{ Connection, What, Ledger, Config string }

// Error says what differs and what to do.
func (e *ErrOtherEnvironment) Error() string {
	return fmt.Sprintf("the connection %s was set up for the %s %q, the configuration now names %q; use the old one, or a new connection name with a new ledger",
		e.Connection, e.What, e.Ledger, e.Config)
}

// Connection pins a connection to its source.
type Connection struct {
	Name string
	Info connector.SourceInfo
}

// PinConnection records a connection's source at its first use and refuses another one later with
// *ErrOtherEnvironment. The source's other descriptions are stored as SourceInfo returns them.
func (tx *Tx) PinConnection(c Connection) error {
	if err := tx.exec(`INSERT INTO connections (name, source_kind, tenant_id, tenant_name, updated_at)
		VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING`,
		c.Name, c.Info.Kind, c.Info.Tenant, c.Info.TenantName, stamp(tx.now)); err != nil {
		return fmt.Errorf("save connection %s: %w", c.Name, err)
	}
	var have Connection
	if err := tx.row([]any{&have.Info.Kind, &have.Info.Tenant},
		"SELECT source_kind, tenant_id FROM connections WHERE name = ?", c.Name); err != nil {
		return fmt.Errorf("read connection %s: %w", c.Name, err)
	}
	for _, d := range []struct{ what, ledger, config string }{
		{"source kind", have.Info.Kind, c.Info.Kind}, {"organisation", have.Info.Tenant, c.Info.Tenant},
	} {
		if d.ledger != d.config {
			return &ErrOtherEnvironment{c.Name, d.what, d.ledger, d.config}
		}
	}
	return tx.describe(c)
}

// SaveMapping keeps the text of a mapping version, once per content hash.
func (tx *Tx) SaveMapping(hash, text, author string) error {
	return tx.exec("INSERT INTO mapping_versions (hash, body, author, saved_at) VALUES (?, ?, ?, ?) ON CONFLICT (hash) DO NOTHING",
		hash, tx.l.seal.box([]byte(text), placeOfMapping(hash)), author, stamp(tx.now))
}

// NewRun describes a run at its start.
type NewRun struct {
	Connection string
	Kind       connector.RunKind
	Trigger    string // manual, schedule or catch_up
	Mapping    string // version hash
	Holder     string // the process, for people
}

// OpenRun opens a run and returns its number. It fails with *ErrRunOpen while another run holds the
// connection, and with *MovedError after it moved to another one. It first closes a run with an expired lease
// as incomplete.
func (tx *Tx) OpenRun(r NewRun) (int64, error) {
	if err := tx.closedBooks(r.Connection); err != nil {
		return 0, err
	}
	var open int64
	var since, until sql.NullString
	err := tx.row([]any{&open, &since, &until},
		"SELECT run_id, started_at, lease_until FROM runs WHERE connection = ? AND finished_at IS NULL", r.Connection)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("look for an open run: %w", err)
	}
	if err == nil {
		if err := tx.takeOver(r.Connection, open, since, until); err != nil {
			return 0, err
		}
	}
	var id int64
	err = tx.row([]any{&id}, `INSERT INTO runs (connection, kind, trigger, mapping_version, holder, lease_until, started_at)
		VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING run_id`,
		r.Connection, r.Kind, r.Trigger, r.Mapping, r.Holder, stamp(tx.now.Add(Lease)), stamp(tx.now))
	if err != nil {
		return 0, fmt.Errorf("open a run: %w", err)
	}
	return id, nil
}

func (tx *Tx) takeOver(connection string, run int64, since, until sql.NullString) error {
	started, err := parseTime(since)
	if err != nil {
		return err
	}
	lease, err := parseTime(until)
	if err != nil {
		return err
	}
	if connector.OutcomeAt(connector.RunRunning, lease, tx.now) == connector.RunRunning {
		return &ErrRunOpen{connection, run, started}
	}
	tx.run = 0
	return errors.Join(tx.noteSentPlan(run),
		tx.exec("UPDATE runs SET finished_at = ?, outcome = 'incomplete', error = ? WHERE run_id = ?",
			stamp(tx.now), leaseRanOut, run))
}

// EndLease ends the lease of a connection's open run at once. Its caller holds the connection's lock, so the
// run is dead.
func (tx *Tx) EndLease(connection string) error {
	return tx.exec("UPDATE runs SET lease_until = ? WHERE connection = ? AND finished_at IS NULL", stamp(tx.now),
		connection)
}

// HasOpenRun reports whether a run of the connection is open.
func (tx *Tx) HasOpenRun(connection string) (bool, error) {
	return txSingle[bool](tx, "SELECT EXISTS (SELECT 1 FROM runs WHERE connection = ? AND finished_at IS NULL)",
		connection)
}

// LastRun returns the result of a connection's newest run, and whether the run is active; a run
// with an expired lease is not. "" for no run.
func (tx *Tx) LastRun(connection string) (outcome connector.RunOutcome, holds bool, err error) {
	err = tx.row([]any{&outcome, &holds},
		"SELECT outcome, finished_at IS NULL AND lease_until > ? FROM runs WHERE connection = ? ORDER BY run_id DESC LIMIT 1",
		stamp(tx.now), connection)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return outcome, holds, err
}

// RenewLease keeps the run's hold on its connection; ErrLeaseLost when it is gone.
func (tx *Tx) RenewLease(run int64) error {
	n, err := tx.count("UPDATE runs SET lease_until = ? WHERE run_id = ? AND finished_at IS NULL",
		stamp(tx.now.Add(Lease)), run)
	if err == nil && n == 0 {
		return ErrLeaseLost
	}
	return err
}

// holds fails with ErrLeaseLost unless the run is still open. It guards every write that leads to a
// request.
func (tx *Tx) holds(run int64) error {
	if run != 0 && run == tx.run { // nobody else has ended it since: nobody else writes
		return nil
	}
	var open int64
	err := tx.row([]any{&open}, "SELECT run_id FROM runs WHERE run_id = ? AND finished_at IS NULL", run)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrLeaseLost
	}
	tx.run = open
	return err
}

// Counts are a run's results, counted in records of its source. Pulled is the sum of the others but
// LinksRequested: every record ends in exactly one of them.
type Counts struct {
	Pulled         int `json:"pulled"`
	Unchanged      int `json:"unchanged"`
	Excluded       int `json:"excluded"`
	Created        int `json:"created"`
	Adopted        int `json:"adopted"`
	Updated        int `json:"updated"`
	LinksRequested int `json:"links_requested"`
	Held           int `json:"held"`
	Failed         int `json:"failed"`
	Waiting        int `json:"waiting"` // planned and not done: approval, an outage or an interruption is in between

	OwnEchoes int `json:"own_echoes,omitempty"` // of the others: nothing but what we wrote back ourselves had changed
}

// countChanged returns for every record with an action of this run, or with an open change, its
// class, whether the run caused it, and its class otherwise. A customer that a run creates or
// adopts, and then updates, counts as created. An update with nothing to send changed nothing.
//
// The last column says that a record changed after a change of it was carried out. A create that was
// carried out needs no look at the record's other changes.
var countChanged = `SELECT c.source_id, c.run_id = ?1, CASE c.state
    WHEN 'done' THEN CASE WHEN c.action = 'create' THEN 'created' ELSE CASE (SELECT min(CASE d.action WHEN 'create' THEN 1 WHEN 'adopt' THEN 2 ELSE 3 END) FROM changes d
      WHERE d.connection = ?2 AND d.source_id = c.source_id AND d.lane = 'customer' AND d.state = 'done' AND (d.run_id = c.run_id OR d.change_id = c.change_id)) WHEN 1 THEN 'created' WHEN 2 THEN 'adopted'
        ELSE CASE WHEN c.sent THEN 'updated' ELSE 'unchanged' END END END
    WHEN 'failed' THEN 'failed' WHEN 'held' THEN 'held' ELSE 'waiting' END, r.class, r.missed,
    c.run_id = ?1 AND (r.unseen = 0 OR r.planned_hash <> '') -- DropUnseen has blanked it for a row that is gone
      AND (NOT ` + isPlanned + ` OR NOT EXISTS (SELECT 1 FROM runs u WHERE u.run_id = ?1 AND ` +
	plannedWith("u.mapping_version") + `))
      AND (c.state = 'done' OR EXISTS (SELECT 1 FROM changes d
        WHERE d.connection = ?2 AND d.source_id = c.source_id AND d.lane = 'customer' AND d.state = 'done' AND d.run_id = ?1))
  FROM (
    SELECT change_id, run_id, source_id, action, state, body IS NOT NULL AS sent FROM changes WHERE run_id = ?1 AND connection = ?2 AND lane = 'customer' AND state <> 'void'
    UNION ALL
    SELECT change_id, run_id, source_id, action, state, body IS NOT NULL FROM changes WHERE connection = ?2 AND lane = 'customer' AND ` + openStates + ` AND run_id <> ?1
  ) AS c CROSS JOIN source_records r ON r.connection = ?2 AND r.source_id = c.source_id
  WHERE NOT EXISTS (SELECT 1 FROM changes x WHERE x.connection = ?2 AND x.source_id = c.source_id AND x.lane = 'customer'
    AND x.change_id > c.change_id AND x.state <> 'void' AND (x.run_id = ?1 OR x.state IN ('pending', 'frozen', 'unknown')))`

// CloseRun counts a run's actions and met records, stores its outcome and releases its connection. It returns
// the recorded outcome. Waiting records turn RunComplete into RunIncomplete, because a run with undone work
// is never complete (invariant V2). A run that only plans leaves them on purpose. It fails with ErrLeaseLost
// when another process closed the run. met holds the records met by the run; nil stands for all records of
// the last complete reading.
func (tx *Tx) CloseRun(run int64, connection string, outcome connector.RunOutcome, problem string,
	met *connector.IDs) (Counts, connector.RunOutcome, error) {
	counts, again, err := tx.countRun(run, connection, met)
	if err != nil {
		return counts, outcome, fmt.Errorf("count run %d: %w", run, err)
	}
	undone, err := tx.workLeft(again || counts.Waiting > 0, connection)
	if err != nil {
		return counts, outcome, err
	}
	tx.run = 0
	err = tx.row([]any{&outcome}, `UPDATE runs SET finished_at = ?1,
		outcome = CASE WHEN ?2 = 'complete' AND kind <> 'plan' AND ?15 = 1 THEN 'incomplete' ELSE ?2 END, waiting = ?3, error = ?4,
		pulled = ?5, unchanged = ?6, excluded = ?7, created = ?8, adopted = ?9, updated = ?10, links_requested = ?11, held = ?12, failed = ?13
		WHERE run_id = ?14 AND finished_at IS NULL RETURNING outcome`,
		stamp(tx.now), outcome, counts.Waiting, problem, counts.Pulled, counts.Unchanged, counts.Excluded, counts.Created,
		counts.Adopted, counts.Updated, counts.LinksRequested, counts.Held, counts.Failed, run, undone)
	if errors.Is(err, sql.ErrNoRows) {
		return counts, outcome, ErrLeaseLost
	}
	return counts, outcome, errors.Join(err, tx.noteSentPlan(run))
}

// workLeft reports whether a later run has work left. It checks known work: records to plan again or
// behind an older create, unfinished changes, unconfirmed customers, and unfinished signing links
// of linked payers.
func (tx *Tx) workLeft(known bool, connection string) (undone bool, err error) {
	if known {
		return true, nil
	}
	err = tx.row([]any{&undone}, `SELECT
		EXISTS (SELECT 1 FROM source_records r WHERE r.connection = ?1 AND r.class = 'working' AND r.planned_hash <> '')
		OR EXISTS (SELECT 1 FROM payers p WHERE p.connection = ?1 AND `+isUnconfirmed+`)
		OR EXISTS (SELECT 1 FROM changes c JOIN payers p ON p.connection = c.connection AND p.source_id = c.source_id
			WHERE c.connection = ?1 AND `+openStates+` AND (c.lane = 'customer' OR `+inOrder+`))`, connection)
	return undone, err
}

// Findings returns how many records of the connection need a person, and how many of them have
// since then or later. Conditions that end by themselves are no finding.
func (tx *Tx) Findings(connection string, since time.Time) (all, fresh int, err error) {
	found := map[string]bool{}
	err = tx.each(findingsSince, []any{stamp(since), connection}, func(scan func(...any) error) error {
		var id string
		var reason connector.Reason
		var is bool
		if err := scan(&id, &reason, &is); err != nil {
			return err
		}
		if protocol.StatusOf(reason) != protocol.Working {
			found[id] = found[id] || is
		}
		return nil
	})
	if err != nil {
		return 0, 0, fmt.Errorf("count the findings: %w", err)
	}
	for _, is := range found {
		if is {
			fresh++
		}
	}
	return len(found), fresh, nil
}

// RunBefore is how an earlier run ended.
type RunBefore struct {
	Outcome connector.RunOutcome // "" when there was none
	Problem string
	Waiting int
}

// RunBefore returns the result of the previous run of the same kind, sending or planning.
func (tx *Tx) RunBefore(run int64) (b RunBefore, err error) {
	err = tx.row([]any{&b.Outcome, &b.Problem, &b.Waiting},
		`SELECT b.outcome, b.error, b.waiting FROM runs b JOIN runs n ON n.run_id = ?
		WHERE b.connection = n.connection AND b.run_id < n.run_id AND b.finished_at IS NOT NULL AND (b.kind = 'plan') = (n.kind = 'plan') ORDER BY b.run_id DESC LIMIT 1`, run)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	if err != nil {
		return b, fmt.Errorf("look how the run before ended: %w", err)
	}
	return b, nil
}

// Cursor returns the reading position of a connection's stream; "" when there is
// none yet.
func (l *Ledger) Cursor(ctx context.Context, connection, stream string) (string, error) {
	var value string
	err := l.queryRow(ctx, "SELECT value FROM cursors WHERE connection = ? AND stream = ?", connection,
		stream).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return value, err
}

// SetCursor moves the reading position. Callers do so only after a complete pass;
// ErrLeaseLost when the run no longer holds its connection.
func (tx *Tx) SetCursor(connection, stream, value string, run int64) error {
	if err := tx.holds(run); err != nil {
		return err
	}
	return tx.exec(`INSERT INTO cursors (connection, stream, value, set_by_run) VALUES (?, ?, ?, ?)
		ON CONFLICT (connection, stream) DO UPDATE SET value = excluded.value, set_by_run = excluded.set_by_run`,
		connection, stream, value, run)
}
