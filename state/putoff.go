package state

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"payersync/connector"
)

// PutOff is a person's decision to postpone a report. The reason stays unchanged.
type PutOff struct {
	Until string `json:"until"`
	At    string `json:"at"`
	By    string `json:"by"`
	Note  string `json:"note"`
}

// The values of Filter.PutOff; "" does not narrow.
const (
	NotPutOff  = "no"   // what is told now
	OnlyPutOff = "only" // what a person put off
)

// putOffs returns, by record, the reasons that people put off until later, with the time of each
// decision. It returns those of the given records, or of all records when none is given.
func (l *Ledger) putOffs(ctx context.Context, of ...RecordID) (map[RecordID]map[connector.Reason]time.Time, error) {
	type row struct {
		RecordID
		reason connector.Reason
		at     sql.NullString
	}
	out := map[RecordID]map[connector.Reason]time.Time{}
	query, args := "SELECT connection, source_id, reason, at FROM put_off WHERE until > ?", []any{stamp(l.Now())}
	for _, id := range of {
		query, args = query+" AND connection = ? AND source_id = ?", append(args, id.Connection, id.SourceID)
	}
	err := each(ctx, l, query, args, func(r *row) []any {
		return []any{&r.Connection, &r.SourceID, &r.reason, &r.at}
	}, func(r row) error {
		at, err := parseTime(r.at)
		if out[r.RecordID] == nil {
			out[r.RecordID] = map[connector.Reason]time.Time{}
		}
		out[r.RecordID][r.reason] = at
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read what was put off: %w", err)
	}
	return out, nil
}

// tellings are the findings for a person: a row for each record and reason. A reason found for both the
// record's link and its mandate is one row, with both details.
const tellings = `(SELECT connection, source_id, reason, group_concat(detail, ' ' ORDER BY detail) AS detail, min(since) AS since
	FROM v_attention GROUP BY connection, source_id, reason)`

// reportedRows are the reports that need a person, with their postponement at the time ?1. A word holds
// until its time has come, and of what was told already when it was said.
const reportedRows = `SELECT v.connection AS connection, v.source_id AS source_id, v.reason AS reason, v.detail AS detail, v.since AS since,
	coalesce(o.until, '') AS until, coalesce(o.at, '') AS at, coalesce(w.actor, '') AS actor, coalesce(w.reason, '') AS note FROM ` + tellings + ` v
	LEFT JOIN put_off o ON o.connection = v.connection AND o.source_id = v.source_id AND o.reason = v.reason AND o.at >= v.since AND o.until > ?1
	LEFT JOIN audit w ON w.seq = o.word`

// keepsOnHold is the condition that finding h keeps its record on hold. Findings about a mandate do not.
const keepsOnHold = "h.topic IN ('record', 'link')"

// reportedQuery returns the query of the filter, and its values.
func (l *Ledger) reportedQuery(f Filter) (query string, args []any) {
	where := []string{"(v.connection = ?2 OR ?2 = '')", "(v.reason = ?3 OR ?3 = '')"}
	if f.OnHold {
		where = append(where, "EXISTS (SELECT 1 FROM attention h WHERE h.connection = v.connection AND h.source_id = v.source_id AND h.reason = v.reason AND "+keepsOnHold+")")
	}
	switch f.PutOff {
	case NotPutOff:
		where = append(where, "o.until IS NULL")
	case OnlyPutOff:
		where = append(where, "o.until IS NOT NULL")
	}
	if f.Alone {
		where = append(where, "NOT "+hasSuccessor)
	}
	return reportedRows + " WHERE " + strings.Join(where, " AND "), []any{stamp(l.Now()), f.Connection, f.State}
}

// reportedNow is the condition that the report v needs a person now: it is not postponed (o), and is
// not reported with another record.
var reportedNow = "o.until IS NULL AND NOT " + hasSuccessor

// needsPerson is the query of the records that need a person at a time for a reason, or for any
// reason if both are "".
var needsPerson = "SELECT v.connection, v.source_id FROM " + tellings + ` v
	LEFT JOIN put_off o ON o.connection = v.connection AND o.source_id = v.source_id AND o.reason = v.reason AND o.at >= v.since AND o.until > ?
	WHERE (v.reason = ? OR ? = '') AND ` + reportedNow

// reportedRow is a row of reportedRows.
type reportedRow struct {
	AttentionRow
	put PutOff
}

func (r *reportedRow) dest() []any {
	return []any{&r.Connection, &r.SourceID, &r.Reason, &r.Detail, &r.Since, &r.put.Until, &r.put.At, &r.put.By,
		&r.put.Note}
}

// shown returns the row for the caller.
func (r reportedRow) shown() AttentionRow {
	if r.put.Until != "" {
		r.PutOff = &r.put
	}
	return r.AttentionRow
}

// PutOff notes a person's wish to see a report on a record again at a time, and not before. It reports false
// if there is no such finding.
func (tx *Tx) PutOff(id RecordID, reason connector.Reason, until time.Time, word Entry) (told bool, err error) {
	if err := tx.row([]any{&told},
		"SELECT count(*) > 0 FROM v_attention WHERE connection = ? AND source_id = ? AND reason = ?", id.Connection,
		id.SourceID, reason); err != nil || !told {
		return false, err
	}
	seq, err := tx.auditDecision(word)
	if err != nil {
		return false, err
	}
	if err := tx.exec(`INSERT INTO put_off (connection, source_id, reason, at, until, word) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (connection, source_id, reason) DO UPDATE SET at = excluded.at, until = excluded.until, word = excluded.word`,
		id.Connection, id.SourceID, reason, stamp(tx.now), stamp(until), seq); err != nil {
		return false, fmt.Errorf("put off what is told of %s: %w", id.SourceID, err)
	}
	return true, nil
}

// RevokePutOff revokes PutOff. It reports false where nothing was put off.
func (tx *Tx) RevokePutOff(id RecordID, reason connector.Reason, word Entry) (news bool, err error) {
	n, err := tx.count("DELETE FROM put_off WHERE connection = ? AND source_id = ? AND reason = ? AND until > ?",
		id.Connection, id.SourceID, reason, stamp(tx.now))
	if err != nil || n == 0 {
		return false, err
	}
	return true, tx.Audit(word)
}
