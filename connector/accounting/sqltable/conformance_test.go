package sqltable_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"iter"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/accounting/accountingtest"
	"payersync/connector/accounting/sqltable"
)

const many = 1201 // more than two pages

// covers F44, F45, F54
func TestSQLiteSourceConforms(t *testing.T) {
	accountingtest.Run(t, accountingtest.Harness{Many: many, Open: func(t testing.TB, n int) accountingtest.Company {
		db, config := sqliteBook(t)
		return openLedger(t, ledger{db: db, config: config, number: "INTEGER", spoil: "credit = 'no number'"}, n)
	}})
}

// covers F44, F45, F54
func TestPostgresSourceConforms(t *testing.T) {
	accountingtest.Run(t, accountingtest.Harness{Many: many, Open: func(t testing.TB, n int) accountingtest.Company {
		db, config := postgres.database(t)
		return openLedger(t, ledger{db: db, config: config, number: "FLOAT8", spoil: "credit = 'NaN'"}, n)
	}})
}

// covers F44, F45, F54
func TestMariaDBSourceConforms(t *testing.T) {
	accountingtest.Run(t, accountingtest.Harness{Many: many, Open: func(t testing.TB, n int) accountingtest.Company {
		db, config := maria.database(t)
		return openLedger(t, ledger{db: db, config: config, number: "INTEGER", spoil: "notes = CONCAT('a', CHAR(0))"}, n)
	}})
}

// The same suite for a source that is told to read incrementally.
//
// covers F44, F45, F46
func TestIncrementalPostgresSourceConforms(t *testing.T) {
	accountingtest.Run(t, accountingtest.Harness{Many: many, Open: func(t testing.TB, n int) accountingtest.Company {
		db, config := postgres.database(t)
		config.UpdatedAt, config.Incremental = "updated_at", true
		return openLedger(t, ledger{db: db, config: config, number: "FLOAT8", spoil: "credit = 'NaN'"}, n)
	}})
}

// sqliteBook returns an empty SQLite file, open for writing, and the
// configuration to read it with.
func sqliteBook(t testing.TB) (*sql.DB, sqltable.Config) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a book?.sqlite")
	db, err := sql.Open("sqlite",
		"file:"+filepath.Dir(path)+"/a%20book%3F.sqlite?_pragma=synchronous(off)&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db, sqltable.Config{Driver: "sqlite", Path: path}
}

// ledger is a company's table of customers.
type ledger struct {
	db     *sql.DB
	config sqltable.Config
	number string // the type of the column credit
	spoil  string // sets what cannot be read

	t    testing.TB
	next int
	bad  map[string]bool
}

func openLedger(t testing.TB, l ledger, n int) accountingtest.Company {
	l.t, l.bad = t, map[string]bool{}
	execute(t, l.db, `CREATE TABLE customers (id INTEGER PRIMARY KEY, name VARCHAR(200), notes TEXT, email VARCHAR(200), active BOOLEAN, credit `+l.number+`, updated_at TIMESTAMP NULL)`)
	execute(t, l.db, `CREATE TABLE broken (id INTEGER)`)
	l.config.ID, l.config.Active = []string{"id"}, "active"
	// In the servers, a second row of broken makes the query fail at its customer.
	l.config.Query = "SELECT id, name, notes, email, active, credit, updated_at, (SELECT b.id FROM broken b WHERE b.id = c.id) AS broken FROM customers c ORDER BY id -- the whole book\n;\n"
	if l.config.Driver == "sqlite" {
		l.config.Query = "SELECT id, name, notes, email, active, credit, updated_at, NULL AS broken FROM customers c"
	}
	l.insert(n)
	s, err := sqltable.New(l.config)
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{Source: s}
	return accountingtest.Company{
		Source: w, Truth: l.truth, Add: l.add, Edit: l.edit, Archive: l.archive, Spoil: l.ruin, Break: l.failing,
		Serve: func(after func()) { w.after = after },
		Leave: func(id string) { execute(t, l.db, "DELETE FROM customers WHERE id = "+id) },
	}
}

// watched is a source whose every page is followed by after.
type watched struct {
	accounting.Source
	after func()
}

func (w *watched) Customers(ctx context.Context, since time.Time) iter.Seq2[connector.Page, error] {
	return func(yield func(connector.Page, error) bool) {
		for page, err := range w.Source.Customers(ctx, since) {
			if !yield(page, err) {
				return
			}
			if w.after != nil && err == nil {
				w.after()
			}
		}
	}
}

// covers F46
func TestAWalkInTheOrderOfEditsLosesCustomersAndOursDoesNot(t *testing.T) {
	db, config := postgres.database(t)
	l := ledger{db: db, config: config, number: "FLOAT8", spoil: "credit = 'NaN'"}
	c := openLedger(t, l, many)
	lost, err := accountingtest.Lost(t.Context(), c)
	if err != nil || lost != 0 {
		t.Errorf("our read lost %d of %d, error %v", lost, many, err)
	}
	w := c.Source.(*watched)
	w.Source = naive{w.Source, db}
	naively, err := accountingtest.Lost(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if naively == 0 {
		t.Error("the naive walk lost nobody: the check has lost its teeth")
	}
	t.Logf("lost of %d while 20 are edited behind every page: ours %d, naive %d", many, lost, naively)
}

// naive pages by offset in the order of edits, a query for each page.
type naive struct {
	accounting.Source
	db *sql.DB
}

func (n naive) Customers(ctx context.Context, _ time.Time) iter.Seq2[connector.Page, error] {
	const size = 100
	return func(yield func(connector.Page, error) bool) {
		for offset := 0; ; offset += size {
			page, err := n.page(ctx, size, offset)
			if !yield(page, err) || err != nil || len(page.Records) < size {
				return
			}
		}
	}
}

func (n naive) page(ctx context.Context, size, offset int) (page connector.Page, err error) {
	rows, err := n.db.QueryContext(ctx, "SELECT id FROM customers ORDER BY updated_at LIMIT $1 OFFSET $2", size, offset)
	if err != nil {
		return page, err
	}
	defer rows.Close()
	for rows.Next() {
		r := connector.Record{State: connector.RecordActive, Data: json.RawMessage("{}")}
		if err := rows.Scan(&r.SourceID); err != nil {
			return page, err
		}
		page.Records = append(page.Records, r)
	}
	return page, rows.Err()
}

func (l *ledger) add() string {
	l.insert(1)
	return strconv.Itoa(l.next)
}

func (l *ledger) insert(n int) {
	var rows []string
	for range n {
		l.next++
		rows = append(rows, fmt.Sprintf("(%[1]d, 'Customer %[1]d & Sons', 'two\nlines', 'c%[1]d@books.example', TRUE, %[1]d.0, CURRENT_TIMESTAMP)", l.next))
	}
	execute(l.t, l.db, "INSERT INTO customers (id, name, notes, email, active, credit, updated_at) VALUES "+strings.Join(rows, ", "))
}

func (l *ledger) edit(id string) {
	execute(l.t, l.db, "UPDATE customers SET updated_at = CURRENT_TIMESTAMP, name = CONCAT('Renamed ', name) WHERE id = "+id)
}

func (l *ledger) archive(id string) {
	execute(l.t, l.db, "UPDATE customers SET updated_at = CURRENT_TIMESTAMP, active = FALSE WHERE id = "+id)
}

func (l *ledger) ruin(id string) {
	l.bad[id] = true
	execute(l.t, l.db, "UPDATE customers SET updated_at = CURRENT_TIMESTAMP, "+l.spoil+" WHERE id = "+id)
}

// failing makes the query fail behind its first page, or the table vanish.
func (l *ledger) failing() func() {
	if l.config.Driver == "sqlite" {
		execute(l.t, l.db, "ALTER TABLE customers RENAME TO elsewhere")
		return func() { execute(l.t, l.db, "ALTER TABLE elsewhere RENAME TO customers") }
	}
	execute(l.t, l.db, fmt.Sprintf("INSERT INTO broken VALUES (%[1]d), (%[1]d)", l.next))
	return func() { execute(l.t, l.db, "DELETE FROM broken") }
}

// truth reads the table by another way than the source: every value as text.
func (l *ledger) truth() []connector.Record {
	rows, err := l.db.QueryContext(l.t.Context(),
		"SELECT id, name, notes, email, active, credit, updated_at FROM customers ORDER BY id")
	if err != nil {
		l.t.Fatal(err)
	}
	defer rows.Close()
	var out []connector.Record
	for rows.Next() {
		var id, name, notes, email string
		var active bool
		var credit any
		var updated any
		if err := rows.Scan(&id, &name, &notes, &email, &active, &credit, &updated); err != nil {
			l.t.Fatal(err)
		}
		if l.bad[id] {
			continue
		}
		r := connector.Record{SourceID: id, State: connector.RecordActive}
		if !active {
			r.State = connector.RecordArchived
		}
		r.Data = l.data(map[string]any{"id": id, "name": name, "notes": notes, "email": email, "credit": credit,
			"broken": nil}, active, updated)
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		l.t.Fatal(err)
	}
	return out
}

func (l *ledger) data(values map[string]any, active bool, updated any) json.RawMessage {
	values["active"] = active
	switch at := updated.(type) {
	case time.Time:
		layout := time.RFC3339Nano
		if l.config.Driver == "postgres" {
			layout = "2006-01-02T15:04:05.999999999"
		}
		values["updated_at"] = at.UTC().Format(layout)
	case []byte:
		values["updated_at"] = string(at[:10]) + "T" + string(at[11:]) + "Z"
	}
	if digits, ok := values["credit"].([]byte); ok {
		values["credit"] = json.Number(digits)
	}
	if l.config.Driver == "mysql" {
		values["active"] = map[bool]int{true: 1, false: 0}[active]
	}
	data, err := json.Marshal(values)
	if err != nil {
		l.t.Fatal(err)
	}
	return data
}
