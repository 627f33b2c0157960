package state

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"payersync/connector"
)

// RecordRow is a record of a source and its state, with or without a payer.
type RecordRow struct {
	PayerRow            // blank for a record that is no payer, but for the record's own ids and time
	RecordState  string `json:"record_state"`  // in its books
	Decision     string `json:"decision"`      // of the last plan: included, held, excluded, or none
	GivenUp      bool   `json:"given_up"`      // by a person
	Left         bool   `json:"left"`          // it does not count as a payer: it left the books, or was left out
	MandateSince string `json:"mandate_since"` // since when the mandate has its status; "" without one
	ChangedAt    string `json:"changed_at"`    // when the record, the payer or the mandate changed last

	Label     *connector.Label `json:"-"` // nil where none was made yet, or the ledger has no key
	Financial Financial        `json:"-"` // of its customer; zero too where the ledger has no key
}

// ID names the record.
func (r RecordRow) ID() RecordID { return RecordID{r.Connection, r.SourceID} }

// RecordSort is an order of records; those that are equal in it follow by connection and id.
type RecordSort string

// The orders.
const (
	ByRecord  RecordSort = "record"
	ByKey     RecordSort = "key" // by the key's name and value; records that are no payers last
	ByLink    RecordSort = "link"
	ByMandate RecordSort = "mandate"
	BySince   RecordSort = "since"   // those whose mandate has waited longest first, those without one last
	ByChanged RecordSort = "changed" // the newest first
)

const (
	changedAt = "max(r.updated_at, coalesce(p.updated_at, ''), coalesce(m.status_since, ''))"
	noSince   = "9"          // after every time
	noKey     = "\U0010FFFF" // after every key
)

// sorts are the expressions of the orders, with their values in a row.
var sorts = map[RecordSort]struct {
	expression string
	of         func(RecordRow) string
}{
	ByKey: {"coalesce(p.key_name || char(31) || p.key_value, '" + noKey + "')", func(r RecordRow) string {
		if r.KeyName == "" {
			return noKey
		}
		return r.KeyName + "\x1f" + r.scopedValue()
	}},
	ByLink:    {"coalesce(p.link_state, '')", func(r RecordRow) string { return r.LinkState }},
	ByMandate: {"coalesce(m.status, '')", func(r RecordRow) string { return orBlank(r.MandateStatus) }},
	BySince: {"coalesce(m.status_since, '" + noSince + "')", func(r RecordRow) string {
		if r.MandateSince == "" {
			return noSince
		}
		return r.MandateSince
	}},
	ByChanged: {changedAt, func(r RecordRow) string { return r.ChangedAt }},
}

// Compare compares two rows as they follow each other in this order.
func (s RecordSort) Compare(a, b RecordRow) int {
	of := sorts[s].of
	if of == nil {
		of = func(RecordRow) string { return "" }
	}
	c := cmp.Or(cmp.Compare(of(a), of(b)), cmp.Compare(a.Connection, b.Connection), cmp.Compare(a.SourceID, b.SourceID))
	if s == ByChanged {
		return -c
	}
	return c
}

func orBlank(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// NoMandate is the value of RecordFilter.Mandate for payers without one.
const NoMandate = "none"

// RecordFilter narrows a list of records. Zero fields do not narrow.
type RecordFilter struct {
	Connection string
	Payers     bool // only records that count as payers, or were payers
	Others     bool // only the others
	keyless    bool // only records without a key: nothing was made of them yet
	Bare       bool // only records of which no label was made
	Link       string
	Mandate    string    // status, or NoMandate
	Reason     string    // why it needs a person now, among other reasons perhaps; what was put off is left out
	Told       bool      // only records with a finding now
	Stood      time.Time // only mandates that have their status since this time, or longer
	Since      time.Time
	Until      time.Time  // both of ChangedAt; what changed at Until is left out
	Among      []RecordID // nil for all
	Sort       RecordSort // "" for ByRecord
	After      *RecordRow // the last row before this page; nil for the first page
	Limit      int        // 0 for no limit
}

var listedColumns = `SELECT r.connection, r.source_id, coalesce(p.key_name, ''), coalesce(substr(p.key_value, 1, instr(p.key_value || char(31), char(31)) - 1), ''), p.billing_id,
	coalesce(p.link_state, ''), p.mandate_id, m.status,
	` + fmt.Sprintf(firstTold, "r") + `,
	coalesce(p.updated_at, r.updated_at), coalesce(substr(p.key_value, instr(p.key_value || char(31), char(31)) + 1), ''),
	CASE r.forgotten WHEN '' THEN r.state ELSE 'forgotten' END, r.decision, r.given_up <> 0, ` + isNoPayer +
	`, coalesce(m.status_since, ''), ` + changedAt + `,
	(SELECT b.label FROM labels b WHERE b.connection = r.connection AND b.source_id = r.source_id),
	fs.status, ` + lastSeenOf("fs", "seen_at") + ` FROM`

const recordRows = ` source_records r
	LEFT JOIN payers p ON p.connection = r.connection AND p.source_id = r.source_id
	LEFT JOIN mandates m ON m.mandate_id = p.mandate_id
	LEFT JOIN financial_statuses fs ON fs.billing_id = p.billing_id `

func (r RecordRow) scopedValue() string {
	return connector.Key{Value: r.KeyValue, Scope: r.KeyScope}.ScopedValue()
}

// Records returns one row for each record of the sources that the filter lets through.
func (l *Ledger) Records(ctx context.Context, f RecordFilter) ([]RecordRow, error) {
	if f.Sort == ByKey && f.wide() {
		return l.byKey(ctx, f)
	}
	from, where, args, err := f.narrow(l.Now())
	if err != nil {
		return nil, err
	}
	sort, sorted := sorts[f.Sort]
	order := f.Sort.order()
	if f.After != nil {
		after := []any{f.After.Connection, f.After.SourceID}
		if sorted {
			after = append([]any{sort.of(*f.After)}, after...)
		}
		than := ">"
		if f.Sort == ByChanged {
			than = "<"
		}
		where, args = append(where,
			fmt.Sprintf("(%s) %s (%s?)", strings.Join(f.Sort.columns(), ", "), than, strings.Repeat("?, ", len(after)-1))),
			append(args, after...)
	}
	limit := math.MaxInt32 // no limit
	if f.Limit > 0 {
		limit = f.Limit
	}
	args = append(args, limit)
	page := from + conditions(where) + " ORDER BY " + order + limitTo
	query := listedColumns + page
	if sorted { // what is sorted is the ids: the other columns are read of one page alone
		query = listedColumns + " (SELECT r.connection AS connection, r.source_id AS source_id FROM" + page + `) o
			CROSS JOIN ` + recordRows + "WHERE r.connection = o.connection AND r.source_id = o.source_id ORDER BY " + order
	}
	return l.listed(ctx, query, args...)
}

// columns are the expressions by which records are ordered.
func (s RecordSort) columns() []string {
	if sort, sorted := sorts[s]; sorted {
		return []string{sort.expression, "r.connection", "r.source_id"}
	}
	return []string{"r.connection", "r.source_id"}
}

// order returns the order as SQL.
func (s RecordSort) order() string {
	if s == ByChanged {
		return strings.Join(s.columns(), " DESC, ") + " DESC"
	}
	return strings.Join(s.columns(), ", ")
}

// RecordIDs returns the ids of all rows of Records for the filter, without page and limit, in the
// same order.
func (l *Ledger) RecordIDs(ctx context.Context, f RecordFilter) ([]RecordID, error) {
	from, where, args, err := f.narrow(l.Now())
	if err != nil {
		return nil, err
	}
	return list(ctx, l, "SELECT r.connection, r.source_id FROM"+from+conditions(where)+" ORDER BY "+f.Sort.order(), args,
		func(id *RecordID) []any { return []any{&id.Connection, &id.SourceID} })
}

// wide reports whether the filter keeps most payers, so that an index gives the order faster than a
// sort.
func (f RecordFilter) wide() bool {
	f.Connection, f.Payers = "", false
	return f.Among == nil && !f.Narrows()
}

// Narrows reports whether the filter leaves any record out of a list, or of those in Among.
func (f RecordFilter) Narrows() bool {
	return f.Connection != "" || f.Payers || f.Others || f.keyless || f.Bare || f.Link != "" || f.Mandate != "" ||
		f.Reason != "" || f.Told || !f.Stood.IsZero() || !f.Since.IsZero() || !f.Until.IsZero()
}

// byKey returns the rows of a wide filter by key: the payers in the order of their index, and then
// the records without a payer.
func (l *Ledger) byKey(ctx context.Context, f RecordFilter) (rows []RecordRow, err error) {
	const order = "p.key_name, p.key_value, p.connection, p.source_id"
	if f.After == nil || f.After.KeyName != "" {
		where, args, limit := []string{"(p.connection = ?1 OR ?1 = '')"}, []any{f.Connection}, math.MaxInt32
		if a := f.After; a != nil {
			where, args = append(where, "("+order+") > (?, ?, ?, ?)"),
				append(args, a.KeyName, a.scopedValue(), a.Connection, a.SourceID)
		}
		if f.Limit > 0 {
			limit = f.Limit
		}
		rows, err = l.listed(ctx,
			listedColumns+" (SELECT p.connection AS connection, p.source_id AS source_id FROM payers p"+conditions(where)+" ORDER BY "+order+limitTo+`) o
			CROSS JOIN `+recordRows+"WHERE r.connection = o.connection AND r.source_id = o.source_id ORDER BY "+order,
			append(args, limit)...)
		if err != nil || f.Limit > 0 && len(rows) == f.Limit {
			return rows, err
		}
		f.After = nil
	}
	f.keyless, f.Sort = true, ByRecord
	if f.Limit > 0 {
		f.Limit -= len(rows)
	}
	others, err := l.Records(ctx, f)
	return append(rows, others...), err
}

// listed returns the rows of a query for listedColumns.
func (l *Ledger) listed(ctx context.Context, query string, args ...any) ([]RecordRow, error) {
	type row struct {
		RecordRow
		box, status []byte
		seen        sql.NullString
	}
	out := []RecordRow{}
	err := each(ctx, l, query, args, func(r *row) []any {
		return []any{&r.Connection, &r.SourceID, &r.KeyName, &r.KeyValue, &r.BillingID, &r.LinkState, &r.MandateID,
			&r.MandateStatus, &r.AttentionReason,
			&r.UpdatedAt, &r.KeyScope, &r.RecordState, &r.Decision, &r.GivenUp, &r.Left, &r.MandateSince, &r.ChangedAt, &r.box,
			&r.status, &r.seen}
	}, func(r row) (err error) {
		if r.Label, err = l.openLabel(r.ID(), r.box); err != nil {
			return err
		}
		if r.status != nil {
			if r.Financial, err = l.openFinancial(*r.BillingID, r.status, r.seen); err != nil {
				return err
			}
		}
		out = append(out, r.RecordRow)
		return nil
	})
	return out, err
}

// CountRecords returns how many rows Records gives for the filter without page and limit.
func (l *Ledger) CountRecords(ctx context.Context, f RecordFilter) (n int, err error) {
	from, where, args, err := f.narrow(l.Now())
	if err != nil {
		return 0, err
	}
	err = l.queryRow(ctx, "SELECT count(*) FROM"+from+conditions(where), args...).Scan(&n)
	return n, err
}

// RecordsAmong returns the records in Among that pass the filter, on any page.
func (l *Ledger) RecordsAmong(ctx context.Context, f RecordFilter) (map[RecordID]bool, error) {
	from, where, args, err := f.narrow(l.Now())
	if err != nil {
		return nil, err
	}
	out := make(map[RecordID]bool, len(f.Among))
	return out, each(ctx, l, "SELECT r.connection, r.source_id FROM"+from+conditions(where), args,
		func(id *RecordID) []any { return []any{&id.Connection, &id.SourceID} },
		func(id RecordID) error { out[id] = true; return nil })
}

// AllRecords counts the records of all sources.
func (l *Ledger) AllRecords(ctx context.Context) (int, error) {
	return single[int](l.queryRow(ctx, "SELECT count(*) FROM source_records"))
}

func conditions(where []string) string {
	if len(where) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(where, " AND ")
}

// narrow returns the filter as tables, conditions and their values, as it is at a time.
func (f RecordFilter) narrow(now time.Time) (from string, where []string, args []any, err error) {
	from = recordRows
	if f.Among != nil {
		asked, err := json.Marshal(f.Among)
		if err != nil {
			return "", nil, nil, err
		}
		from = " json_each(?) j CROSS JOIN " + recordRows
		args = append(args, string(asked))
		where = append(where, "r.connection = j.value ->> 'Connection' AND r.source_id = j.value ->> 'SourceID'")
	}
	add := func(wanted bool, condition string, values ...any) {
		if wanted {
			where, args = append(where, condition), append(args, values...)
		}
	}
	add(f.Connection != "", "r.connection = ?", f.Connection)
	add(f.Payers, "(p.connection IS NOT NULL OR NOT "+isNoPayer+")")
	add(f.Others, "(p.connection IS NULL AND "+isNoPayer+")")
	add(f.keyless, "p.connection IS NULL")
	add(f.Bare, "NOT EXISTS (SELECT 1 FROM labels b WHERE b.connection = r.connection AND b.source_id = r.source_id)")
	add(f.Link != "", "p.link_state = ?", f.Link)
	add(f.Mandate == NoMandate, "p.connection IS NOT NULL AND m.mandate_id IS NULL")
	add(f.Mandate != "" && f.Mandate != NoMandate, "m.status = ?", f.Mandate)
	add(f.Reason != "" || f.Told, "(r.connection, r.source_id) IN ("+needsPerson+")", stamp(now), f.Reason, f.Reason)
	add(!f.Stood.IsZero(), "m.status_since <= ?", stamp(f.Stood))
	add(!f.Since.IsZero(), changedAt+" >= ?", stamp(f.Since))
	add(!f.Until.IsZero(), changedAt+" < ?", stamp(f.Until))
	return from, where, args, nil
}
