package state

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
)

// table is one that holds rows of a ledger, as its engine lists it.
type table struct {
	name    string
	columns []string // by their names
	key     []string // those of the primary key, in its order
	refers  []string // to which tables
}

// errTables means that two engines have different tables, so a move would lose rows.
var errTables = errors.New("the tables there are others than here; use the payersync that made them, or a newer one, for both")

// tablesOf lists the tables of a ledger, each behind those that it refers to.
func tablesOf(ctx context.Context, db books, below engine) ([]table, error) {
	rows, err := db.QueryContext(ctx, below.catalogue())
	if err != nil {
		return nil, fmt.Errorf("list the ledger's tables: %w", err)
	}
	defer rows.Close()
	var all []table
	for rows.Next() {
		var name, columns, key, refers string
		if err := rows.Scan(&name, &columns, &key, &refers); err != nil {
			return nil, fmt.Errorf("list the ledger's tables: %w", err)
		}
		all = append(all, table{name, strings.Split(columns, ","), strings.Split(key, ","), strings.Split(refers, ",")})
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list the ledger's tables: %w", err)
	}
	return referredFirst(all)
}

// referredFirst puts each table behind those that it refers to.
func referredFirst(all []table) (out []table, err error) {
	waits := func(t table) bool {
		return slices.ContainsFunc(all, func(o table) bool { return slices.Contains(t.refers, o.name) })
	}
	for len(all) > 0 {
		free := slices.IndexFunc(all, func(t table) bool { return !waits(t) })
		if free < 0 {
			return nil, fmt.Errorf("tables refer to each other in a circle: %s among them", all[0].name)
		}
		out, all = append(out, all[free]), slices.Delete(all, free, free+1)
	}
	return out, nil
}

// sameTables fails with errTables unless both have the same tables and columns.
func sameTables(some, others []table) error {
	shape := func(all []table) (out []string) {
		out = connector.Map(all, func(t table) string { return fmt.Sprint(t.name, t.columns, t.key) })
		slices.Sort(out)
		return out
	}
	if !slices.Equal(shape(some), shape(others)) {
		return errTables
	}
	return nil
}

func (t table) ofOneRow() bool { return slices.Contains(t.columns, "only_row") }

// quoted lists columns for a statement: some have the names of its words.
func quoted(columns []string) string { return `"` + strings.Join(columns, `", "`) + `"` }

// insert is the statement for so many rows.
func (t table) insert(rows int) string {
	row := "(" + strings.TrimSuffix(strings.Repeat("?, ", len(t.columns)), ", ") + ")"
	return "INSERT INTO " + t.name + " (" + quoted(t.columns) + ") VALUES " +
		strings.TrimSuffix(strings.Repeat(row+", ", rows), ", ")
}

// sum is the checksum of a table's rows. Those of two tables are the same when every value is.
type sum struct {
	rows int
	hash [sha256.Size]byte
}

// read passes on the rows of the table in the order of their keys, and returns their sum.
func (t table) read(ctx context.Context, from books, do func(row []any) error) (s sum, err error) {
	rows, err := from.QueryContext(ctx, "SELECT "+quoted(t.columns)+" FROM "+t.name+" ORDER BY "+quoted(t.key))
	if err != nil {
		return s, err
	}
	defer rows.Close()
	row, into := make([]any, len(t.columns)), make([]any, len(t.columns))
	for i := range row {
		into[i] = &row[i]
	}
	hash, text := sha256.New(), []byte(nil)
	for ; rows.Next(); s.rows++ {
		if err := rows.Scan(into...); err != nil {
			return s, err
		}
		text = text[:0]
		for i, value := range row {
			if b, isBlob := value.([]byte); isBlob && b == nil {
				row[i] = []byte{} // of nothing, which is not NULL
			}
			if text, err = appendValue(text, value); err != nil {
				return s, fmt.Errorf("column %s: %w", t.columns[i], err)
			}
		}
		_, _ = hash.Write(text)
		if err := do(row); err != nil {
			return s, err
		}
	}
	hash.Sum(s.hash[:0])
	return s, rows.Err()
}

// appendValue appends a value in a form different from every other value, also of another type.
func appendValue(to []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return append(to, 'n'), nil
	case int64:
		return binary.BigEndian.AppendUint64(append(to, 'i'), uint64(v)), nil //nolint:gosec // its bits are what counts
	case string:
		return append(binary.BigEndian.AppendUint64(append(to, 't'), uint64(len(v))), v...), nil
	case []byte:
		return append(binary.BigEndian.AppendUint64(append(to, 'b'), uint64(len(v))), v...), nil
	}
	return to, fmt.Errorf("a ledger holds no %T", value)
}
