package sqltable

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"payersync/connector"
)

// kind is the kind of a column's values.
type kind string

const (
	kindText   kind = "text"
	kindNumber kind = "number"
	kindFlag   kind = "flag"
	kindDate   kind = "date"    // a day
	kindNaive  kind = "naive"   // a time without a zone
	kindTime   kind = "instant" // a time with its zone
	kindBinary kind = "binary"
)

// column is one column of the query.
type column struct {
	field    connector.Field
	kind     kind
	declared string // its type as the database names it, in small letters
	id       bool   // a part of the id: text, whatever its declared type
	binary   bool   // it is no text and left out
}

// serverKinds are the types of PostgreSQL and MySQL as their drivers name them; unlisted ones are text.
var serverKinds = map[kind][]string{
	kindNumber: {"INT", "INT2", "INT4", "INT8", "INTEGER", "TINYINT", "SMALLINT", "MEDIUMINT", "BIGINT", "YEAR",
		"FLOAT", "FLOAT4", "FLOAT8", "DOUBLE", "REAL", "NUMERIC", "DECIMAL", "OID"},
	kindFlag:   {"BOOL", "BOOLEAN"},
	kindDate:   {"DATE"},
	kindNaive:  {"DATETIME"},
	kindTime:   {"TIMESTAMPTZ"},
	kindBinary: {"BYTEA", "BLOB", "TINYBLOB", "MEDIUMBLOB", "LONGBLOB", "BINARY", "VARBINARY", "BIT", "GEOMETRY"},
}

func serverKind(declared string) kind {
	declared = strings.TrimPrefix(declared, "UNSIGNED ")
	for k, names := range serverKinds {
		if slices.Contains(names, declared) {
			return k
		}
	}
	return kindText
}

// sqliteKind goes by SQLite's own rules of affinity. Its driver makes times of
// three of the types.
func sqliteKind(declared string) kind {
	declared = strings.ToUpper(declared)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(declared, p) })
	}
	switch {
	case declared == "DATE":
		return kindDate
	case declared == "DATETIME", declared == "TIMESTAMP":
		return kindTime
	case has("BOOL"):
		return kindFlag
	case has("INT"):
		return kindNumber
	case has("CHAR", "CLOB", "TEXT"):
		return kindText
	case has("BLOB"):
		return kindBinary
	case has("REAL", "FLOA", "DOUBLE", "NUMERIC", "DECIMAL"):
		return kindNumber
	}
	return kindText
}

// kindOf is the kind of a column. TIMESTAMP has its zone in MySQL (the connection's is UTC), and has none in
// PostgreSQL.
func (s *Source) kindOf(declared string) kind {
	if s.dialect.server && declared == "TIMESTAMP" {
		if s.config.Driver == "mysql" {
			return kindTime
		}
		return kindNaive
	}
	return s.dialect.types(declared)
}

var fieldTypes = map[kind]connector.FieldType{kindNumber: connector.TypeNumber, kindFlag: connector.TypeFlag}

// columnsOf declares the columns of a query.
func (s *Source) columnsOf(types []*sql.ColumnType) ([]column, error) {
	taken := map[string]bool{}
	out := make([]column, len(types))
	for i, t := range types {
		name := t.Name()
		if name == "" || taken[strings.ToLower(name)] {
			return nil, fmt.Errorf("cannot use the query: column %d is called %q, which is blank or taken; give it a name of its own with AS", i+1, name)
		}
		taken[strings.ToLower(name)] = true
		k := s.kindOf(t.DatabaseTypeName())
		c := column{kind: k, declared: strings.ToLower(t.DatabaseTypeName()), binary: k == kindBinary,
			field: connector.Field{Name: name, Type: connector.TypeText}}
		if as, ok := fieldTypes[k]; ok {
			c.field.Type = as
		}
		c.field.Description = fmt.Sprintf("Column %d of the query.", i+1)
		if c.declared != "" {
			c.field.Description = fmt.Sprintf("Column %d of the query, declared as %s.", i+1, c.declared)
		}
		out[i] = c
	}
	return out, nil
}

// find returns the position of a column named under key in the configuration.
func find(columns []column, key, name string) (int, error) {
	for _, same := range []func(string) bool{
		func(other string) bool { return other == name },
		func(other string) bool { return strings.EqualFold(other, name) },
	} {
		if i := slices.IndexFunc(columns, func(c column) bool { return same(c.field.Name) }); i >= 0 {
			return i, nil
		}
	}
	names := connector.Map(columns, func(c column) string { return c.field.Name })
	return -1, fmt.Errorf("cannot use %s: there is no column %q; there are %s", key, name, strings.Join(names, ", "))
}

// encode returns a value as JSON, or why it cannot be one.
func (c column) encode(v any) (json.RawMessage, string) {
	if at, ok := v.(time.Time); ok {
		v = c.timeText(at)
	}
	if v == nil {
		return json.RawMessage("null"), ""
	}
	if b, ok := v.([]byte); ok {
		v = string(b)
	}
	switch {
	case c.id || c.field.Type == connector.TypeText:
		return c.encodeText(v)
	case c.kind == kindFlag:
		return c.encodeFlag(v)
	}
	return c.encodeNumber(v)
}

// timeText returns a time as its column means it; nil for MySQL's day zero.
func (c column) timeText(at time.Time) any {
	switch {
	case at.IsZero():
		return nil
	case c.kind == kindDate:
		return at.Format(time.DateOnly)
	case c.kind == kindNaive:
		return at.Format("2006-01-02T15:04:05.999999999")
	}
	return at.UTC().Format(time.RFC3339Nano)
}

func (c column) encodeText(v any) (json.RawMessage, string) {
	text, ok := textOf(v)
	switch {
	case !ok:
		return nil, fmt.Sprintf("The %s holds a value of a type that is not known.", c.field.Name)
	case !utf8.ValidString(text):
		return nil, fmt.Sprintf("The %s holds characters that are no text.", c.field.Name)
	case strings.IndexByte(text, 0) >= 0:
		return nil, fmt.Sprintf("The %s holds a NUL character.", c.field.Name)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		return nil, fmt.Sprintf("The %s cannot be written as JSON.", c.field.Name)
	}
	return bytes.TrimRight(out.Bytes(), "\n"), ""
}

// textOf returns a value as the text of its digits or words.
func textOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case int64:
		return strconv.FormatInt(v, 10), true
	case uint64:
		return strconv.FormatUint(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	case float32:
		return strconv.FormatFloat(float64(v), 'f', -1, 32), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

func (c column) encodeFlag(v any) (json.RawMessage, string) {
	yes, ok := truth(v)
	if !ok {
		return nil, fmt.Sprintf("The %s is neither true nor false.", c.field.Name)
	}
	return strconv.AppendBool(nil, yes), ""
}

// truth reads the databases' values for yes and no; the bytes 1 and 0 are MySQL's BIT(1).
func truth(v any) (yes, ok bool) {
	text, _ := textOf(v)
	switch text {
	case "\x01":
		return true, true
	case "\x00":
		return false, true
	}
	return connector.ReadFlag(text)
}

var leadingZeros = regexp.MustCompile(`^(-?)0+([0-9])`)

func (c column) encodeNumber(v any) (json.RawMessage, string) {
	if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return nil, fmt.Sprintf("The %s is no number.", c.field.Name)
	}
	text, _ := textOf(v)
	text = leadingZeros.ReplaceAllString(text, "$1$2") // of MySQL's ZEROFILL
	number := strings.TrimPrefix(text, "-")
	if number == "" || strings.Trim(number, "0123456789.eE+-") != "" || !json.Valid([]byte(text)) {
		return nil, fmt.Sprintf("The %s is no number.", c.field.Name)
	}
	return json.RawMessage(text), ""
}
