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

// WrittenBack holds the facts about a record's write-back field.
type WrittenBack struct {
	Applied   connector.FieldStatus // what it says of ours; none while nothing was written
	AppliedAt time.Time             // since when; zero while nothing was written
	Wanted    connector.FieldStatus // what the open request says; "" for no request
	WriteID   string
	FrozenAt  time.Time // when the last request was frozen
	SentAt    time.Time // when the open one last left, or may have; zero before
	Attempts  int       // of the open one
	Day       string    // on which requests were counted last
	DayWrites int
	Approved  connector.FieldStatus // what a person let go; "" for nothing
	Refused   connector.FieldStatus // what the system would not write; "" for nothing
	Problem   string
	ProblemAt time.Time
	ForeignAt time.Time // since when it is left to whoever changed it; zero while it is ours
	Taken     bool      // a person gave it back, and it was not read since
	Doubted   bool      // what it says is not known before it is read: it was taken, or the ledger was put back since
	Echoes    int
}

// WritebackField holds the field's values at several times. Unread values are nil.
type WritebackField struct {
	Earlier *string `json:"earlier,omitempty"` // before the first write
	Holds   *string `json:"holds,omitempty"`   // after the last write
	Foreign *string `json:"foreign,omitempty"` // when somebody else had changed it
}

// WritebackPayer is a payer with the status of its mandate, as reads have shown it, and what
// is known of its field.
type WritebackPayer struct {
	RecordID
	Key       connector.Key
	BillingID string
	MandateID string
	Status    connector.MandateStatus // "" for no mandate
	Since     time.Time               // of the status; zero for no mandate
	Open      bool                    // its record is there and can be written to, for all that is known
	WrittenBack
}

// doubtedField is the condition that a field's value may differ from the ledger: a person changed
// it, or the ledger was restored to an earlier time. Without a recorded write, a lost entry may
// have been one. The payer's mandate must have been there by the first sweep after the restore and
// differ from before.
const doubtedField = `(coalesce(w.taken, 0) = 1 OR coalesce(w.known_at < g.restored_at, false) OR w.known_at IS NULL AND coalesce(m.status_since > g.restored_at
	AND m.first_seen_at <= coalesce((SELECT min(s.finished_at) FROM passes s WHERE s.started_at > g.restored_at), m.first_seen_at), false))`

// EachWriteback passes on every payer of a connection, in the order of their source ids, with the
// known state of the setup's field.
func (l *Ledger) EachWriteback(ctx context.Context, connection, setup string, do func(WritebackPayer) error) error {
	return l.eachWriteback(ctx, "payers p ON p.connection = ?1", []any{connection, setup}, do)
}

// WritebacksOf returns the rows of EachWriteback for these payers.
func (l *Ledger) WritebacksOf(ctx context.Context, connection, setup string, sourceIDs []string) (out []WritebackPayer,
	err error) {
	asked, err := json.Marshal(sourceIDs)
	if err != nil {
		return nil, err
	}
	err = l.eachWriteback(ctx, "json_each(?3) j CROSS JOIN payers p ON p.connection = ?1 AND p.source_id = j.value",
		[]any{connection, setup, string(asked)},
		func(p WritebackPayer) error { out = append(out, p); return nil })
	return out, err
}

// eachWriteback passes on payers p of the connection in the first argument.
func (l *Ledger) eachWriteback(ctx context.Context, payers string, args []any, do func(WritebackPayer) error) error {
	type row struct {
		WritebackPayer
		billing, mandate, status, since, applied, wanted, writeID, frozen, sent, day, approved, refused, problem, problemAt,
		foreign, appliedAt sql.NullString
		attempts, dayWrites, echoes sql.NullInt64
		name, value                 string
	}
	err := each(ctx, l, `SELECT p.connection, p.source_id, p.key_name, p.key_value, p.billing_id, p.mandate_id, m.status, m.status_since,
		r.state = 'active' AND r.forgotten = '' AND r.unseen = 0,
		w.applied, w.applied_at, w.wanted, w.write_id, w.frozen_at, w.sent_at, w.attempts, w.day, w.day_writes, w.approved, w.refused, w.problem, w.problem_at, w.foreign_at, w.echoes, coalesce(w.taken, 0), `+doubtedField+`
		FROM ledger g CROSS JOIN `+payers+` JOIN source_records r ON r.connection = p.connection AND r.source_id = p.source_id
		LEFT JOIN mandates m ON m.mandate_id = p.mandate_id
		LEFT JOIN writebacks w ON w.connection = p.connection AND w.source_id = p.source_id AND w.setup = ?2
		ORDER BY p.source_id`, args, func(r *row) []any {
		return []any{&r.Connection, &r.SourceID, &r.name, &r.value, &r.billing, &r.mandate, &r.status, &r.since, &r.Open,
			&r.applied, &r.appliedAt, &r.wanted, &r.writeID, &r.frozen, &r.sent, &r.attempts, &r.day, &r.dayWrites, &r.approved,
			&r.refused, &r.problem, &r.problemAt, &r.foreign, &r.echoes, &r.Taken, &r.Doubted}
	}, func(r row) error {
		p := r.WritebackPayer
		p.Key, p.BillingID, p.MandateID = connector.ParseKey(r.name, r.value), r.billing.String, r.mandate.String
		p.Status = connector.MandateStatus(r.status.String)
		p.WrittenBack = WrittenBack{
			Applied: connector.FieldStatus(r.applied.String), Wanted: connector.FieldStatus(r.wanted.String),
			WriteID: r.writeID.String, Attempts: int(r.attempts.Int64),
			Day: r.day.String, DayWrites: int(r.dayWrites.Int64), Approved: connector.FieldStatus(r.approved.String),
			Refused: connector.FieldStatus(r.refused.String),
			Problem: r.problem.String, Echoes: int(r.echoes.Int64), Taken: r.Taken, Doubted: r.Doubted,
		}
		if !r.applied.Valid {
			p.Applied = connector.FieldNone
		}
		if err := parseTimes(map[*time.Time]sql.NullString{
			&p.Since: r.since, &p.AppliedAt: r.appliedAt, &p.FrozenAt: r.frozen, &p.SentAt: r.sent, &p.ProblemAt: r.problemAt,
			&p.ForeignAt: r.foreign,
		}); err != nil {
			return err
		}
		return do(p)
	})
	if err != nil {
		return fmt.Errorf("read what was written back: %w", err)
	}
	return nil
}

func placeOfWriteback(column string, id RecordID) []byte {
	return place("writebacks", column, id.Connection, id.SourceID)
}

// WritebackField returns what the field of a record held; nothing where it is not about this
// setup.
func (l *Ledger) WritebackField(ctx context.Context, id RecordID, setup string) (f WritebackField, err error) {
	var box []byte
	err = l.queryRow(ctx, "SELECT field FROM writebacks WHERE connection = ? AND source_id = ? AND setup = ?",
		id.Connection, id.SourceID, setup).Scan(&box)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return f, nil
	case err == nil:
		err = l.openJSON(box, placeOfWriteback("field", id), &f)
	}
	if err != nil {
		return f, fmt.Errorf("read the earlier value of the field of record %s: %w", id.SourceID, err)
	}
	return f, nil
}

// WritebackRequest returns the frozen bytes of a record's open request.
func (l *Ledger) WritebackRequest(ctx context.Context, id RecordID) ([]byte, error) {
	var box []byte
	var digest string
	err := l.queryRow(ctx, "SELECT request, digest FROM writebacks WHERE connection = ? AND source_id = ? AND request IS NOT NULL", id.Connection, id.SourceID).Scan(&box, &digest)
	if err != nil {
		return nil, fmt.Errorf("read the request for record %s: %w", id.SourceID, err)
	}
	return l.openFrozen(box, digest, placeOfWriteback("request", id), "the request for record "+id.SourceID)
}

// FrozenWrite is a write before its first byte leaves.
type FrozenWrite struct {
	RecordID
	Setup  string
	ID     string
	Wanted connector.FieldStatus
	Field  WritebackField
	Body   []byte
}

// writebackRow makes the row of a record and a setup. Writes of another setup belong to another
// field.
func (tx *Tx) writebackRow(id RecordID, setup string) error {
	return tx.exec(`INSERT INTO writebacks (connection, source_id, setup) VALUES (?1, ?2, ?3)
		ON CONFLICT (connection, source_id) DO UPDATE SET setup = ?3, applied = 'none', applied_at = NULL, field = NULL, wanted = '', write_id = '', request = NULL, digest = '',
		  sent_at = NULL, attempts = 0, approved = '', refused = '', problem = '', problem_at = NULL, foreign_at = NULL, taken = 0, known_at = NULL WHERE writebacks.setup <> ?3`, id.Connection, id.SourceID, setup)
}

func (tx *Tx) boxField(id RecordID, f WritebackField) ([]byte, error) {
	plain, err := json.Marshal(f)
	return tx.l.seal.box(plain, placeOfWriteback("field", id)), err
}

// FreezeWrite keeps a write before it is sent, in place of one whose end is known.
func (tx *Tx) FreezeWrite(w FrozenWrite) error {
	field, err := tx.boxField(w.RecordID, w.Field)
	if err == nil {
		err = tx.writebackRow(w.RecordID, w.Setup)
	}
	if err == nil {
		day := tx.now.UTC().Format(time.DateOnly)
		err = tx.exec(`UPDATE writebacks SET wanted = ?3, write_id = ?4, request = ?5, digest = ?6, field = ?7, frozen_at = ?8, sent_at = NULL, attempts = 0, refused = '', problem = '', problem_at = NULL,
			day_writes = CASE WHEN day = ?9 THEN day_writes + 1 ELSE 1 END, day = ?9 WHERE connection = ?1 AND source_id = ?2`,
			w.Connection, w.SourceID, w.Wanted, w.ID, tx.l.seal.box(w.Body, placeOfWriteback("request", w.RecordID)),
			digestOf(w.Body), field, stamp(tx.now), day)
	}
	if err != nil {
		return fmt.Errorf("freeze the write to record %s: %w", w.SourceID, err)
	}
	return nil
}

// SendWrite notes that a frozen write is about to leave.
func (tx *Tx) SendWrite(id RecordID, write string) error {
	return tx.touchWriteback(id,
		"UPDATE writebacks SET sent_at = ?4, attempts = attempts + 1 WHERE connection = ?1 AND source_id = ?2 AND write_id = ?3 AND request IS NOT NULL", write, stamp(tx.now))
}

// closedWrite is the SQL for ending a request with a known result.
const closedWrite = "wanted = '', request = NULL, digest = '', sent_at = NULL, attempts = 0"

// WriteApplied stores a write as made, with the field's present value.
func (tx *Tx) WriteApplied(id RecordID, write string, f WritebackField) error {
	field, err := tx.boxField(id, f)
	if err != nil {
		return err
	}
	return tx.touchWriteback(id,
		`UPDATE writebacks SET applied = wanted, applied_at = ?4, field = ?5, approved = '', refused = '', problem = '', problem_at = NULL, foreign_at = NULL, taken = 0, known_at = ?4, echo = 1, `+
			closedWrite+" WHERE connection = ?1 AND source_id = ?2 AND write_id = ?3 AND request IS NOT NULL", write,
		stamp(tx.now), field)
}

// WriteRefused notes that a write was not made, and will not be another time either.
func (tx *Tx) WriteRefused(id RecordID, setup string, wanted connector.FieldStatus, why string) error {
	return errors.Join(tx.writebackRow(id, setup),
		tx.touchWriteback(id, "UPDATE writebacks SET refused = ?3, problem = ?4, problem_at = ?5, approved = '', "+closedWrite+" WHERE connection = ?1 AND source_id = ?2", wanted, why, stamp(tx.now)))
}

// WriteDropped notes that a frozen write was certainly not made. With unsent, it was not sent, and
// no longer counts for the day.
func (tx *Tx) WriteDropped(id RecordID, write string, unsent bool) error {
	return tx.touchWriteback(id,
		`UPDATE writebacks SET frozen_at = CASE WHEN ?4 = 1 THEN NULL ELSE frozen_at END, day_writes = CASE WHEN ?4 = 1 THEN max(day_writes - 1, 0) ELSE day_writes END, `+
			closedWrite+" WHERE connection = ?1 AND source_id = ?2 AND write_id = ?3 AND request IS NOT NULL", write, unsent)
}

// WriteUnclear notes why it is not known whether a write was made.
func (tx *Tx) WriteUnclear(id RecordID, write, why string) error {
	return tx.touchWriteback(id,
		"UPDATE writebacks SET problem = ?4, problem_at = coalesce(problem_at, ?5) WHERE connection = ?1 AND source_id = ?2 AND write_id = ?3 AND request IS NOT NULL", write, why, stamp(tx.now))
}

// FieldSays stores that the field already has this value, whoever wrote it.
func (tx *Tx) FieldSays(id RecordID, setup string, standing connector.FieldStatus, f WritebackField) error {
	field, err := tx.boxField(id, f)
	if err != nil {
		return err
	}
	return errors.Join(tx.writebackRow(id, setup),
		tx.touchWriteback(id, `UPDATE writebacks SET applied = ?3, applied_at = CASE WHEN applied = ?3 THEN coalesce(applied_at, ?4) ELSE ?4 END, field = ?5,
		approved = CASE WHEN approved = ?3 THEN '' ELSE approved END, refused = '', problem = '', problem_at = NULL, foreign_at = NULL, taken = 0, known_at = ?4, `+closedWrite+" WHERE connection = ?1 AND source_id = ?2", standing, stamp(tx.now), field))
}

// FieldIsTheirs leaves the field to the person who changed it, and notes the reason if there is
// more to say.
func (tx *Tx) FieldIsTheirs(id RecordID, setup string, f WritebackField, why string) error {
	field, err := tx.boxField(id, f)
	if err != nil {
		return err
	}
	return errors.Join(tx.writebackRow(id, setup),
		tx.touchWriteback(id, "UPDATE writebacks SET foreign_at = ?3, field = ?4, taken = 0, known_at = ?3, approved = '', refused = '', problem = ?5, problem_at = NULL, "+closedWrite+
			" WHERE connection = ?1 AND source_id = ?2", stamp(tx.now), field, why))
}

// TakeField stores that a person returned a record's field to write-back, including refused writes. Our value
// and the value before it stay known. A field changed by another person is read before the next write. It
// reports false if there is nothing to return.
func (tx *Tx) TakeField(id RecordID, setup string) (bool, error) {
	n, err := tx.count(`UPDATE writebacks SET taken = CASE WHEN foreign_at IS NULL THEN taken ELSE 1 END, foreign_at = NULL, refused = '', problem = '', problem_at = NULL, day = '', day_writes = 0, frozen_at = NULL
		WHERE connection = ? AND source_id = ? AND setup = ? AND request IS NULL AND (foreign_at IS NOT NULL OR refused <> '' OR day_writes > 0 AND day = ?)`,
		id.Connection, id.SourceID, setup, tx.now.UTC().Format(time.DateOnly))
	if err != nil {
		return false, fmt.Errorf("take the field of record %s: %w", id.SourceID, err)
	}
	return n > 0, nil
}

func (tx *Tx) touchWriteback(id RecordID, query string, args ...any) error {
	return connector.Wrap(tx.exec(query, append([]any{id.Connection, id.SourceID}, args...)...),
		"note what was written to record %s", id.SourceID)
}

// WritebackApproval is a person's approval of writes.
type WritebackApproval struct {
	Connection string
	Setup      string
	Batch      string                           // hash of what was shown
	Writes     map[string]connector.FieldStatus // by source id
	Reason     string
}

// ApproveWriteback lets writes go, exactly these. They are all that wait for the connection.
func (tx *Tx) ApproveWriteback(a WritebackApproval, actor string) error {
	for id, to := range a.Writes {
		record := RecordID{a.Connection, id}
		if err := errors.Join(tx.writebackRow(record, a.Setup),
			tx.touchWriteback(record, "UPDATE writebacks SET approved = ?3 WHERE connection = ?1 AND source_id = ?2",
				to)); err != nil {
			return err
		}
	}
	return errors.Join(
		tx.exec("UPDATE writeback_runs SET waiting = 0, waits_at = NULL WHERE connection = ?", a.Connection),
		tx.exec("INSERT INTO writeback_approvals (connection, setup, batch, payers, actor, reason, at) VALUES (?, ?, ?, ?, ?, ?, ?)",
			a.Connection, a.Setup, a.Batch, len(a.Writes), actor, a.Reason, stamp(tx.now)),
		tx.Audit(Entry{Actor: actor, Action: "approve writeback", Subject: a.Connection + " " + a.Batch + ", " +
			connector.Plural(len(a.Writes), "payer"), Reason: a.Reason}))
}

// WritebackApproved reports whether a person ever let writes of a setup go.
func (l *Ledger) WritebackApproved(ctx context.Context, connection, setup string) (ever bool, err error) {
	err = l.queryRow(ctx, "SELECT EXISTS (SELECT 1 FROM writeback_approvals WHERE connection = ? AND setup = ?)",
		connection, setup).Scan(&ever)
	if err != nil {
		return false, fmt.Errorf("read the approvals of write-back: %w", err)
	}
	return ever, nil
}

// WritebackRun is the newest run of a connection's write-back.
type WritebackRun struct {
	Connection string    `json:"connection"`
	At         time.Time `json:"at"`
	Written    int       `json:"written"`
	Waiting    int       `json:"waiting"`
	WaitsAt    time.Time `json:"waits_since,omitzero"`
	Stuck      int       `json:"stuck"`
	StuckAt    time.Time `json:"stuck_since,omitzero"`
	Problem    string    `json:"problem,omitempty"`
}

// NoteWriteback keeps how a run ended. Since when payers wait, or are stuck, is kept while
// there are any.
func (tx *Tx) NoteWriteback(r WritebackRun) error {
	err := tx.exec(`INSERT INTO writeback_runs AS w (connection, at, written, waiting, waits_at, stuck, stuck_at, problem)
		VALUES (?1, ?2, ?3, ?4, CASE WHEN CAST(?4 AS BIGINT) > 0 THEN ?2 END, ?5, CASE WHEN CAST(?5 AS BIGINT) > 0 THEN ?2 END, ?6)
		ON CONFLICT (connection) DO UPDATE SET at = ?2, written = ?3, waiting = ?4, waits_at = CASE WHEN CAST(?4 AS BIGINT) > 0 THEN coalesce(w.waits_at, ?2) END,
		  stuck = ?5, stuck_at = CASE WHEN CAST(?5 AS BIGINT) > 0 THEN coalesce(w.stuck_at, ?2) END, problem = ?6`,
		r.Connection, stamp(tx.now), r.Written, r.Waiting, r.Stuck, r.Problem)
	return connector.Wrap(err, "note how the write-back of %s ended", r.Connection)
}

// WritebackRuns returns the newest run of every connection, by name.
func (l *Ledger) WritebackRuns(ctx context.Context) ([]WritebackRun, error) {
	type row struct {
		WritebackRun
		at, waits, stuck sql.NullString
	}
	rows, err := list(ctx, l,
		"SELECT connection, at, written, waiting, waits_at, stuck, stuck_at, problem FROM writeback_runs ORDER BY connection",
		nil, func(r *row) []any {
			return []any{&r.Connection, &r.at, &r.Written, &r.Waiting, &r.waits, &r.Stuck, &r.stuck, &r.Problem}
		})
	if err != nil {
		return nil, fmt.Errorf("read the runs of write-back: %w", err)
	}
	out := make([]WritebackRun, 0, len(rows))
	for _, r := range rows {
		if err := parseTimes(map[*time.Time]sql.NullString{&r.At: r.at, &r.WaitsAt: r.waits,
			&r.StuckAt: r.stuck}); err != nil {
			return nil, err
		}
		out = append(out, r.WritebackRun)
	}
	return out, nil
}

// noteEchoes counts the records of a page whose only change since the last read was our own write.
// unchanged reports for each whether it has no other change.
func (tx *Tx) noteEchoes(run int64, connection string, unchanged map[string]bool) error {
	var waits bool
	if err := tx.row([]any{&waits}, "SELECT EXISTS (SELECT 1 FROM writebacks WHERE connection = ? AND echo = 1)",
		connection); err != nil || !waits {
		return err
	}
	page, err := json.Marshal(unchanged)
	if err != nil {
		return err
	}
	return errors.Join(
		tx.exec(`UPDATE runs SET echoes = echoes + (SELECT count(*) FROM json_each(?2) j CROSS JOIN writebacks w ON w.connection = ?1 AND w.source_id = j.key
			WHERE w.echo = 1 AND CAST(j.value AS BIGINT) = 1) WHERE run_id = ?3`, connection, string(page), run),
		tx.exec(`UPDATE writebacks SET echo = 0, echoes = echoes + (SELECT CAST(j.value AS BIGINT) FROM json_each(?2) j WHERE j.key = source_id)
			WHERE connection = ?1 AND echo = 1 AND source_id IN (SELECT key FROM json_each(?2))`, connection, string(page)))
}
