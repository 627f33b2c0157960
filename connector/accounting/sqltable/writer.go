package sqltable

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"payersync/connector"
	"payersync/connector/accounting"
)

// ColumnConfig names the column and row to write, and the user for it. The reading user is another one,
// without permission to write.
type ColumnConfig struct {
	User     string           `yaml:"user,omitempty" jsonschema_description:"For servers: a user of its own who may change that column and nothing else."`
	Password connector.Secret `yaml:"password,omitempty" jsonschema_description:"env:NAME or file:PATH."`

	// Statement sets one column of one row.
	Statement string `yaml:"statement" jsonschema_description:"One UPDATE that sets one column of one row, for example UPDATE customers SET dd_status = :status WHERE customer_no = :id."`

	// Read reads the column; "" makes the query of Statement.
	Read string `yaml:"read,omitempty" jsonschema_description:"One SELECT of that column, with :id. Default what statement writes."`
}

// The parts of a statement for setting one column.
var (
	oneUpdate = regexp.MustCompile("(?is)^UPDATE\\s+([^\\s'=,;()]+)\\s+SET\\s+(\"[^\"]+\"|`[^`]+`|[\\pL_][\\pL\\pN_$]*)\\s*=\\s*:status\\s+WHERE\\s+(.+)$")
	oneSelect = regexp.MustCompile(`(?is)^SELECT\s.+$`)
	named     = regexp.MustCompile(`(^|[^:]):(status|id)\b`)
	quoted    = regexp.MustCompile("'[^']*'|\"[^\"]*\"|`[^`]*`")
)

// ColumnWriter writes one column of the rows of a table.
type ColumnWriter struct {
	source *Source // as whom it is written
	config ColumnConfig
	column string
	update string // with the driver's own marks
	read   string
}

// NewWriter returns a writer to the database of a source. It does not connect. Its errors begin with the
// wrong key of w.
func NewWriter(c Config, w ColumnConfig) (*ColumnWriter, error) {
	d, ok := dialects[c.Driver]
	switch {
	case !ok:
		return nil, fmt.Errorf("statement: the source has no driver that is known")
	case d.server && w.User == "":
		return nil, fmt.Errorf("user: name a user of its own who may change that column; the one who reads may write nothing")
	case d.server && w.User == c.User:
		return nil, fmt.Errorf("user: it is the one who reads; name another, so that reading stays without the right to write")
	case !d.server && (w.User != "" || !w.Password.IsZero()):
		return nil, fmt.Errorf("user: a SQLite file has no users; leave user and password out")
	case len(c.ID) > 1:
		return nil, fmt.Errorf("statement: rows are known by %d columns together, and :id stands for one; give the source one id column", len(c.ID))
	}
	out := &ColumnWriter{config: w}
	statement, read := plainStatement(w.Statement), plainStatement(w.Read)
	parts := oneUpdate.FindStringSubmatch(statement)
	switch bare := quoted.ReplaceAllString(statement, "''"); {
	case strings.ContainsAny(bare, ";") || strings.Contains(bare, "--") || strings.Contains(bare, "/*") ||
		strings.Contains(bare, "#"):
		return nil, fmt.Errorf("statement: it holds more than one statement, or a comment; write one UPDATE alone")
	case parts == nil:
		return nil, fmt.Errorf("statement: it must set one column to :status where something is :id, as UPDATE customers SET dd_status = :status WHERE customer_no = :id")
	case marks(parts[3], "id") != 1 || marks(parts[3], "status") != 0:
		return nil, fmt.Errorf("statement: what follows WHERE must hold :id once, and no :status")
	}
	out.column = strings.Trim(parts[2], "\"`")
	read = cmp.Or(read, fmt.Sprintf("SELECT %s FROM %s WHERE %s", parts[2], parts[1], parts[3]))
	switch bare := quoted.ReplaceAllString(read, "''"); {
	case strings.ContainsAny(bare, ";") || strings.Contains(bare, "--") || strings.Contains(bare, "/*") ||
		strings.Contains(bare, "#") || !oneSelect.MatchString(read):
		return nil, fmt.Errorf("read: it must be one SELECT alone")
	case marks(read, "id") != 1 || marks(read, "status") != 0:
		return nil, fmt.Errorf("read: it must hold :id once, and no :status")
	}
	if d.server {
		read += " FOR UPDATE"
	}
	out.update, out.read = d.positional(statement, "status", "id"), d.positional(read, "id")
	c.User, c.Password, c.Writes = w.User, w.Password, true
	c.Table, c.Query, c.QueryFile, c.Preset, c.Incremental, c.UpdatedAt, c.TimeZone, c.Active, c.ID = "none", "", "", "",
		false, "", "", "", []string{"none"} // nothing is read as a source
	source, err := New(c)
	if err != nil {
		return nil, fmt.Errorf("statement: %w", err)
	}
	out.source = source
	return out, nil
}

func plainStatement(s string) string { return strings.TrimRight(strings.TrimSpace(s), "; \t\r\n") }

// marks counts a mark in a statement, outside of quotes.
func marks(statement, name string) (n int) {
	for _, m := range named.FindAllStringSubmatch(quoted.ReplaceAllString(statement, "''"), -1) {
		if m[2] == name {
			n++
		}
	}
	return n
}

// positional replaces our placeholders by the driver's. Each appears once, in this order.
func (d dialect) positional(statement string, names ...string) string {
	var out strings.Builder
	rest := 0
	for _, at := range append(quoted.FindAllStringIndex(statement, -1), []int{len(statement), len(statement)}) {
		out.WriteString(named.ReplaceAllStringFunc(statement[rest:at[0]], func(m string) string {
			i := strings.Index(m, ":")
			mark := "?"
			for n, name := range names {
				if m[i+1:] == name {
					mark = d.mark(n + 1)
				}
			}
			return m[:i] + mark
		}))
		out.WriteString(statement[at[0]:at[1]])
		rest = at[1]
	}
	return out.String()
}

// mark is the placeholder of the nth argument.
func (d dialect) mark(n int) string {
	if d.bind == "$1" {
		return "$" + strconv.Itoa(n)
	}
	return d.bind
}

// Setup names the column.
func (w *ColumnWriter) Setup() string {
	return fmt.Sprintf("sql %s %s %s %s", w.source.config.Driver, w.source.place(), w.source.config.Database,
		plainStatement(w.config.Statement))
}

// Written returns the field set by the statement.
func (w *ColumnWriter) Written() []connector.WrittenPart {
	return []connector.WrittenPart{{Field: w.column}}
}

// Says are all standings.
func (w *ColumnWriter) Says() []connector.FieldStatus { return connector.FieldStatuses }

// Value is the standing itself.
func (w *ColumnWriter) Value(to connector.FieldStatus, _ string) string { return string(to) }

// update is a frozen write.
type update struct {
	ID     string `json:"id"`
	Before string `json:"before"`
	Status string `json:"status"`
}

// Freeze returns the write, with the column's former value.
func (w *ColumnWriter) Freeze(wr connector.Write) ([]byte, error) {
	return json.Marshal(update{wr.SourceID, wr.Field.Value, wr.Value})
}

// Read returns the column's value.
func (w *ColumnWriter) Read(ctx context.Context, ids []string) (map[string]connector.WrittenField, error) {
	out := map[string]connector.WrittenField{}
	err := w.within(ctx, func(tx *sql.Tx) error {
		for _, id := range ids {
			field, is, err := w.one(ctx, tx, id)
			if err != nil {
				return err
			}
			if is {
				out[id] = field
			}
		}
		return nil
	}, false)
	return out, err
}

// one reads the column of one row; false for no row.
func (w *ColumnWriter) one(ctx context.Context, tx *sql.Tx, id string) (f connector.WrittenField, is bool, err error) {
	rows, err := tx.QueryContext(ctx, w.read, id)
	if err != nil {
		return f, false, w.source.failure(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		if is {
			f.Closed = "several rows have its id"
			continue
		}
		var value sql.NullString
		if err := rows.Scan(&value); err != nil {
			return f, false, w.source.failure(ctx, err)
		}
		f.Value, is = strings.TrimRight(value.String, " "), true // CHAR columns are padded
	}
	return f, is, w.source.check(ctx, rows.Err())
}

// errRolledBack ends a transaction with an intended rollback.
var errRolledBack = errors.New("rolled back")

// Send makes the update, if the column's value is unchanged since the read and exactly one row is touched.
func (w *ColumnWriter) Send(ctx context.Context, _ string, frozen []byte) error {
	var u update
	if err := json.Unmarshal(frozen, &u); err != nil {
		return fmt.Errorf("%w: %w", connector.ErrNotWritten, err)
	}
	var why error
	committing := false
	err := w.within(ctx, func(tx *sql.Tx) error {
		field, is, err := w.one(ctx, tx, u.ID)
		switch {
		case err != nil:
			return err
		case !is || field.Closed != "" || field.Value != u.Before:
			why = connector.ErrStale
			return errRolledBack
		}
		done, err := tx.ExecContext(ctx, w.update, u.Status, u.ID)
		if err != nil {
			return w.source.failure(ctx, err)
		}
		if n, err := done.RowsAffected(); err != nil || n != 1 {
			why = &connector.WriteRefusedError{Why: fmt.Sprintf("The statement touches %s, not one; it was rolled back.",
				connector.Plural(int(n), "row"))}
			return errRolledBack
		}
		committing = true
		return nil
	}, true)
	switch {
	case why != nil:
		return why
	case err == nil:
		return nil
	case committing: // the answer to the commit may have been lost
		return err
	}
	var failed *connector.RemoteError
	if errors.As(err, &failed) && failed.Fault == connector.FaultRejected {
		return &connector.WriteRefusedError{Why: "The database refuses it: " + failed.Detail + ".", Err: err}
	}
	return fmt.Errorf("%w: %w", connector.ErrNotWritten, err)
}

// within calls do in one transaction, and commits it if write is set and do succeeds.
func (w *ColumnWriter) within(ctx context.Context, do func(*sql.Tx) error, write bool) error {
	s := w.source
	if err := s.lookAtFile(); err != nil {
		return err
	}
	db, err := s.dialect.connect(s.config)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // the result is committed already, or not at all
	conn, err := s.dial(ctx, db)
	if err != nil {
		return s.failure(ctx, err)
	}
	defer func() { _ = conn.Close() }()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return s.failure(ctx, err)
	}
	if err := do(tx); err != nil || !write {
		return errors.Join(err, s.check(ctx, tx.Rollback()))
	}
	if err := tx.Commit(); err != nil {
		return s.failure(ctx, err)
	}
	return nil
}

// Probe tests the steps of a write, and writes nothing: the user, and the statement in a transaction with a
// rollback.
func (w *ColumnWriter) Probe(ctx context.Context) accounting.Probe {
	err := w.within(ctx, func(tx *sql.Tx) error {
		return connector.Each([]string{w.update, w.read},
			func(statement string) error { return w.prepares(ctx, tx, statement) })
	}, false)
	if err != nil {
		return accounting.Probe{Name: "write-back", Detail: err.Error()}
	}
	return accounting.Probe{Name: "write-back", OK: true, Detail: "the statement can be prepared; it sets " + w.column}
}

func (w *ColumnWriter) prepares(ctx context.Context, tx *sql.Tx, statement string) error {
	stmt, err := tx.PrepareContext(ctx, statement)
	if err != nil {
		return w.source.failure(ctx, err)
	}
	defer func() { _ = stmt.Close() }() // nothing depends on it
	return nil
}
