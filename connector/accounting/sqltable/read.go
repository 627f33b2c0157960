package sqltable

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
)

// reading is one open snapshot of the database.
type reading struct {
	source  *Source
	db      *sql.DB
	conn    *sql.Conn
	tx      *sql.Tx
	query   string
	columns []column
	ids     []int // places of the id columns
	active  int   // place of the active column, -1 for none
	updated int   // place of the updated_at column, -1 for none
	tenant  string
}

// open connects, begins the snapshot and determines the query's columns. The caller closes the reading.
func (s *Source) open(ctx context.Context) (*reading, error) {
	r, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	if s.preset.check != nil {
		r.tenant, err = s.preset.check(ctx, r)
	}
	if err == nil {
		err = r.describe(ctx)
	}
	if err == nil {
		err = r.locate()
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// begin connects and begins the snapshot. The caller closes the reading.
func (s *Source) begin(ctx context.Context) (_ *reading, err error) {
	r := &reading{source: s}
	if r.query, err = s.statement(); err != nil {
		return nil, err
	}
	if err := s.lookAtFile(); err != nil {
		return nil, err
	}
	if r.db, err = s.dialect.connect(s.config); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if r.conn, err = s.dial(ctx, r.db); err != nil {
		return nil, s.failure(ctx, err)
	}
	if r.tx, err = r.conn.BeginTx(ctx, &s.dialect.options); err != nil {
		return nil, s.failure(ctx, err)
	}
	return r, nil
}

// dial prepares a connection, or gives up on a silent server.
func (s *Source) dial(ctx context.Context, db *sql.DB) (*sql.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return conn, s.dialect.prepare(ctx, conn, s.patience)
}

// close ends the snapshot. Nothing was written, so nothing can be lost.
func (r *reading) close() {
	if r.tx != nil {
		_ = r.tx.Rollback()
	}
	if r.conn != nil {
		_ = r.conn.Close()
	}
	_ = r.db.Close()
}

// describe asks for the columns of the query and none of its rows.
func (r *reading) describe(ctx context.Context) error {
	rows, err := r.tx.QueryContext(ctx, r.wrapped("*")+" WHERE 1 = 0")
	if err != nil {
		return r.source.failure(ctx, err)
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil {
		return r.source.failure(ctx, err)
	}
	if r.columns, err = r.source.columnsOf(types); err != nil {
		return err
	}
	return r.source.check(ctx, rows.Err())
}

// wrapped selects from the query as from a table. The line break ends a possible comment at the end of the
// query.
func (r *reading) wrapped(what string) string {
	return "SELECT " + what + " FROM (\n" + r.query + "\n) AS customers"
}

// locate finds the configured columns.
func (r *reading) locate() (err error) {
	c := r.source.config
	r.ids, r.active, r.updated = nil, -1, -1
	for _, name := range c.ID {
		i, err := find(r.columns, "id", name)
		if err != nil {
			return err
		}
		r.ids = append(r.ids, i)
		r.columns[i].id, r.columns[i].binary, r.columns[i].field.Type = true, false, connector.TypeText
	}
	if c.Active != "" {
		if r.active, err = find(r.columns, "active", c.Active); err != nil {
			return err
		}
	}
	if c.UpdatedAt == "" {
		return nil
	}
	if r.updated, err = find(r.columns, "updated_at", c.UpdatedAt); err != nil {
		return err
	}
	if k := r.columns[r.updated].kind; c.Incremental && r.source.dialect.server && k != kindDate && k != kindNaive &&
		k != kindTime {
		return fmt.Errorf("cannot read incrementally: updated_at names %q, which is no column of times; name another one or remove incremental", c.UpdatedAt)
	}
	return nil
}

// pages hands the rows on as pages, until yield has had enough.
func (r *reading) pages(ctx context.Context, since time.Time, yield func(connector.Page) bool) error {
	shared, err := r.sharedIDs(ctx)
	if err != nil {
		return err
	}
	query, args := r.bounded(since)
	rows, err := r.tx.QueryContext(ctx, query, args...)
	if err != nil {
		return r.source.failure(ctx, err)
	}
	defer rows.Close()
	values, targets := r.targets()
	page, proof := make([]connector.Record, 0, pageSize), connector.Proof{Pages: 1, Passes: 1}
	for n := 1; rows.Next(); n++ {
		if err := rows.Scan(targets...); err != nil {
			return r.source.failure(ctx, err)
		}
		record, ok := r.record(n, values, shared)
		if !ok {
			continue
		}
		if page = append(page, record); len(page) < pageSize {
			continue
		}
		if !yield(connector.Page{Records: page, Proof: proof}) {
			return nil
		}
		page, proof = make([]connector.Record, 0, pageSize), connector.Proof{Pages: 1}
	}
	if err := r.source.check(ctx, rows.Err()); err != nil {
		return err
	}
	if len(page) > 0 {
		yield(connector.Page{Records: page, Proof: proof})
	}
	return nil
}

// targets returns a place for every column and what a scan fills it through.
func (r *reading) targets() (values, targets []any) {
	values, targets = make([]any, len(r.columns)), make([]any, len(r.columns))
	for i := range values {
		targets[i] = &values[i]
	}
	return values, targets
}

// bounded returns the query to run, with a lower bound if there is one.
func (r *reading) bounded(since time.Time) (string, []any) {
	if !r.source.config.Incremental || since.IsZero() {
		return r.wrapped("*"), nil
	}
	d := r.source.dialect
	clause := fmt.Sprintf(d.since, d.name(r.columns[r.updated].field.Name), d.bind)
	return r.wrapped("*") + " WHERE " + clause, []any{r.bound(since)}
}

// bound writes since in the form of the column's times. Without a zone, it goes back one more hour, in case a
// change of clocks repeated an hour.
func (r *reading) bound(since time.Time) string {
	switch k := r.columns[r.updated].kind; {
	case !r.source.dialect.server, k == kindTime && r.source.config.Driver == "mysql":
		return since.UTC().Format("2006-01-02 15:04:05.999")
	case k == kindTime:
		return since.UTC().Format("2006-01-02 15:04:05.999999Z07:00")
	}
	local := since.In(r.source.zone).Add(-time.Hour)
	if r.columns[r.updated].kind == kindDate {
		return local.Format(time.DateOnly)
	}
	return local.Format("2006-01-02 15:04:05.999999")
}

// sharedIDs reads the ids, in the same snapshot, and returns the repeated ones with their number of rows. It
// compares them as records have them: some databases treat "a" and "A", or 1 and 1.0, as equal, and others
// two values with the same spelling as different.
func (r *reading) sharedIDs(ctx context.Context) (map[string]int64, error) {
	names := connector.Map(r.ids, func(at int) string { return r.source.dialect.name(r.columns[at].field.Name) })
	rows, err := r.tx.QueryContext(ctx, r.wrapped(strings.Join(names, ", ")))
	if err != nil {
		return nil, r.source.failure(ctx, err)
	}
	defer rows.Close()
	count := map[string]int64{}
	values, all := r.targets()
	targets := connector.Map(r.ids, func(at int) any { return all[at] })
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return nil, r.source.failure(ctx, err)
		}
		if id, problem := r.id(values); problem == "" {
			count[id]++
		}
	}
	maps.DeleteFunc(count, func(_ string, n int64) bool { return n == 1 })
	return count, r.source.check(ctx, rows.Err())
}

// record turns the n-th row into a record; false if another row already stands for it.
func (r *reading) record(n int, values []any, shared map[string]int64) (connector.Record, bool) {
	out := connector.Record{State: connector.RecordActive, Data: json.RawMessage("{}"), Origin: "row " + strconv.Itoa(n)}
	if out.SourceID, out.Problem = r.id(values); out.Problem != "" {
		out.SourceID = "row " + strconv.Itoa(n)
		out.State = connector.RecordUnknown
		return out, true
	}
	out.Origin = r.idNames() + " " + out.SourceID
	out.State = r.state(values)
	out.UpdatedAt = accounting.EditTime(r.updatedAt(values))
	if count := shared[out.SourceID]; count > 0 {
		shared[out.SourceID] = -1
		out.Problem = fmt.Sprintf("%d rows have the same %s; each customer needs a row of its own, so join what is several in the query.", count, r.idNames())
		return out, true
	} else if count < 0 {
		return out, false
	}
	data, problem := r.data(values)
	if out.Problem = problem; problem == "" {
		out.Data = data
	}
	return out, true
}

// id joins the id columns of a row, or says why it has no id. Several are joined
// with "|", as every source of payersync writes them.
func (r *reading) id(values []any) (id, problem string) {
	parts := make([]string, len(r.ids))
	for i, at := range r.ids {
		c := r.columns[at]
		value, problem := c.encode(values[at])
		if problem != "" {
			return "", problem
		}
		if err := json.Unmarshal(value, &parts[i]); err != nil || strings.TrimSpace(parts[i]) == "" {
			return "", fmt.Sprintf("The row has no %s; every customer needs one.", r.idNames())
		}
	}
	if len(parts) == 1 {
		if strings.HasPrefix(parts[0], "row ") {
			return "", fmt.Sprintf("The %s reads like the number of a row and cannot be used as an id.", r.idNames())
		}
		return parts[0], ""
	}
	for i := range parts {
		parts[i] = escapeID.Replace(parts[i])
	}
	return strings.Join(parts, "|"), ""
}

var escapeID = strings.NewReplacer(`\`, `\\`, `|`, `\|`)

func (r *reading) idNames() string {
	names := connector.Map(r.ids, func(at int) string { return r.columns[at].field.Name })
	return strings.Join(names, " and ")
}

// state returns the state of the row. A value of the active column other than yes or no counts as neither.
func (r *reading) state(values []any) connector.RecordState {
	if r.active < 0 {
		return connector.RecordActive
	}
	v := values[r.active]
	if b, ok := v.([]byte); ok {
		v = string(b)
	}
	switch yes, ok := truth(v); {
	case !ok:
		return connector.RecordUnknown
	case yes:
		return connector.RecordActive
	}
	return connector.RecordArchived
}

// updatedAt returns the row's time of last edit; zero without a readable one.
func (r *reading) updatedAt(values []any) time.Time {
	if r.updated < 0 {
		return time.Time{}
	}
	switch v := values[r.updated].(type) {
	case time.Time:
		if k := r.columns[r.updated].kind; k == kindNaive || k == kindDate {
			return time.Date(v.Year(), v.Month(), v.Day(), v.Hour(), v.Minute(), v.Second(), v.Nanosecond(), r.source.zone).UTC()
		}
		return v.UTC()
	case string:
		for _, layout := range []string{time.RFC3339, time.DateTime, "2006-01-02T15:04:05", time.DateOnly} {
			if at, err := time.Parse(layout, v); err == nil {
				return at.UTC()
			}
		}
	}
	return time.Time{}
}

// data returns the row as a JSON object in the order of its columns.
func (r *reading) data(values []any) (json.RawMessage, string) {
	var out bytes.Buffer
	before := byte('{')
	for i, c := range r.columns {
		if c.binary {
			continue
		}
		value, problem := c.encode(values[i])
		if problem != "" {
			return nil, problem
		}
		key, err := json.Marshal(c.field.Name)
		if err != nil {
			return nil, "The name of a column cannot be written as JSON."
		}
		out.WriteByte(before)
		before = ','
		out.Write(key)
		out.WriteByte(':')
		out.Write(value)
	}
	out.WriteByte('}')
	if out.Len() > MaxRowBytes {
		return nil, fmt.Sprintf("The row is longer than %d bytes.", MaxRowBytes)
	}
	return out.Bytes(), ""
}

// check is failure, for a possible error. Rows may end without an error when ctx ends, because the
// transaction is rolled back during the read: that is no complete read.
func (s *Source) check(ctx context.Context, err error) error {
	if ctx.Err() == nil && (err == nil || errors.Is(err, sql.ErrNoRows)) {
		return nil
	}
	return s.failure(ctx, err)
}
