package sqltable

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
)

// How much of a query's rows is kept to look at.
const (
	maxSample      = 20_000   // rows
	maxSampleBytes = 16 << 20 // of their text
)

// Sample holds the first rows of a query, as a Source would read them.
type Sample struct {
	Columns []string
	Rows    [][]string // each as wide as Columns
	Part    bool       // there are more rows
	Bad     []string   // why values cannot be read, a sentence each, ten at most
}

// Select writes the query for columns of a table, in the order of its key. It casts numbers and flags to
// texts, because the functions of mappings take texts. It omits columns of bytes and those that keep refuses;
// nil keeps all.
func Select(ctx context.Context, c Config, t Table, keep func(column string) bool) (string, error) {
	readable := make([]string, 0, len(t.Columns))
	s, err := anySource(c)
	if err != nil {
		return "", err
	}
	for _, column := range t.Columns {
		if keep == nil || keep(column) {
			readable = append(readable, s.dialect.name(column))
		}
	}
	from := "\nFROM " + s.dialect.name(t.path...)
	c.Table, c.Query = "", "SELECT "+strings.Join(readable, ", ")+from
	if s, err = anySource(c); err != nil {
		return "", err
	}
	r, err := s.begin(ctx)
	if err != nil {
		return "", err
	}
	defer r.close()
	if err := r.describe(ctx); err != nil {
		return "", err
	}
	var list []string
	for _, col := range r.columns {
		if as := s.asText(col); as != "" {
			list = append(list, "    "+as)
		}
	}
	if len(list) == 0 {
		return "", fmt.Errorf("%s has no column that holds texts, numbers or times; choose another table", t.Name)
	}
	query := "SELECT\n" + strings.Join(list, ",\n") + from
	if len(t.Keys) > 0 {
		order := connector.Map(t.Keys[0], func(column string) string { return s.dialect.name(column) })
		query += "\nORDER BY " + strings.Join(order, ", ")
	}
	return query, nil
}

// asText returns the SQL of a column as text; "" for a column of bytes.
func (s *Source) asText(c column) string {
	name := s.dialect.name(c.field.Name)
	cast := map[string]string{"sqlite": "CAST(%s AS TEXT)", "postgres": "CAST(%s AS TEXT)",
		"mysql": "CAST(%s AS CHAR)"}[s.config.Driver]
	bits := c.declared == "bit"
	switch {
	case bits && s.config.Driver == "mysql":
		return fmt.Sprintf(cast, "CAST("+name+" AS UNSIGNED)") + " AS " + name
	case c.kind == kindNumber, c.kind == kindFlag, bits:
		return fmt.Sprintf(cast, name) + " AS " + name
	case c.binary:
		return ""
	}
	return name
}

// ReadSample reads the first rows of the configured query, in a read-only transaction.
func ReadSample(ctx context.Context, c Config) (*Sample, error) {
	s, err := anySource(c)
	if err != nil {
		return nil, err
	}
	r, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.describe(ctx); err != nil {
		return nil, err
	}
	out := &Sample{}
	for _, col := range r.columns {
		if !col.binary {
			out.Columns = append(out.Columns, col.field.Name)
		}
	}
	rows, err := r.tx.QueryContext(ctx, fmt.Sprintf("%s LIMIT %d", r.wrapped("*"), maxSample+1))
	if err != nil {
		return nil, s.failure(ctx, err)
	}
	defer rows.Close()
	values, targets := r.targets()
	for kept := 0; rows.Next(); {
		if err := rows.Scan(targets...); err != nil {
			return nil, s.failure(ctx, err)
		}
		if out.Part = len(out.Rows) == maxSample || kept > maxSampleBytes; out.Part {
			break
		}
		row, size := out.cells(r.columns, values)
		out.Rows, kept = append(out.Rows, row), kept+size
	}
	return out, s.check(ctx, rows.Err())
}

// cells writes a row's values as texts. An unreadable one is blank.
func (s *Sample) cells(columns []column, values []any) (row []string, size int) {
	for i, c := range columns {
		if c.binary {
			continue
		}
		cell := ""
		value, problem := c.encode(values[i])
		switch {
		case problem != "":
			if len(s.Bad) < 10 && !slices.Contains(s.Bad, problem) {
				s.Bad = append(s.Bad, problem)
			}
		case string(value) == "null":
		case json.Unmarshal(value, &cell) != nil: // a number or a flag
			cell = string(value)
		}
		row, size = append(row, cell), size+len(cell)
	}
	return row, size
}
