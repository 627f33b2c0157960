package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/mapping"
	"payersync/mapping/propose"
	"payersync/state"
)

// CustomerField is a field of the customer with its rule, as the page of a mapping shows it.
type CustomerField struct {
	mapping.CustomerField
	Label  string
	Values []string // different results of the rule, as they may be shown
}

const (
	valuesShown  = 3
	valueRecords = 60 // the newest stored records, whose results are shown
)

// CustomerFields returns the fields of a mapping text in reading order. Each has up to three values that its rule gives
// for stored records, unless the text has mistakes. The error is a *strict.Error for a text that is no mapping.
func (m *Mappings) CustomerFields(ctx context.Context, conn syncer.Connection, text []byte, p Privacy) ([]CustomerField,
	error) {
	fields, err := mapping.CustomerFields(text)
	if err != nil {
		return nil, err
	}
	values := map[string][]string{}
	if conn.Mapping != nil {
		records, err := m.someRecords(ctx, conn)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			addValues(values, conn.Mapping.Explain(r.Record).Rules, p)
		}
	}
	return connector.Map(fields, func(f mapping.CustomerField) CustomerField {
		return CustomerField{f, MappingLabel(f.Path), values[f.Path]}
	}), nil
}

func (m *Mappings) someRecords(ctx context.Context, conn syncer.Connection) ([]state.StoredRecord, error) {
	return m.Ledger.NewestRecords(ctx, conn.Name, conn.Info.Snapshot, valueRecords)
}

// addValues adds the results of a record's rules, each once.
func addValues(values map[string][]string, rules []mapping.Rule, p Privacy) {
	p.banks = bankEntries(rules)
	for _, r := range rules {
		shown := values[r.Path]
		if r.Skipped || r.Blank || r.Err != "" || len(shown) == valuesShown {
			continue
		}
		if value := elementsIn(p.Field(r.Path, r.Value)); !slices.Contains(shown, value) {
			values[r.Path] = append(shown, value)
		}
	}
}

// elementsIn returns a list of contacts or addresses as people read it, and any other value unchanged.
func elementsIn(value string) string {
	type element struct{ Name, FirstName, LastName, Email, Phone, Line1, City, PostCode, Country string }
	var list []element
	if json.Unmarshal([]byte(value), &list) != nil {
		return value
	}
	return strings.Join(connector.Map(list, func(e element) string {
		texts := []string{e.Name, e.FirstName, e.LastName, e.Email, e.Phone, e.Line1, e.City, e.PostCode, e.Country}
		return strings.Join(connector.Filter(texts, func(s string) bool { return s != "" }), ", ")
	}), "; ")
}

// MappingLabel returns the label of a part of a mapping by its path.
func MappingLabel(path string) string {
	switch path {
	case "customer.people":
		return "Contacts"
	case "customer.addresses":
		return "Address"
	case "scope":
		return "Organisation"
	case "include":
		return "Is a customer"
	case "mandate.request":
		return "Is asked for a mandate"
	case "mandate.to":
		return "Letters go to"
	case "mandate.language":
		return "Language of letters"
	}
	if name, key := strings.CutPrefix(path, "key."); key {
		return fmt.Sprintf("Number (%s)", name)
	}
	if name, external := strings.CutPrefix(path, "externalData."); external {
		return fmt.Sprintf("More (%s)", name)
	}
	return FieldLabel(strings.TrimPrefix(path, "customer."))
}

// Column is a column that a simple rule of a mapping can read.
type Column struct {
	Label   string // the path to it
	Written string // its name in an expression
}

// Columns returns the columns of a source with one text in each record.
func Columns(fields []connector.Field) (out []Column) {
	for _, f := range fields {
		switch f.Type {
		case connector.TypeText:
			out = append(out, Column{f.Name, mapping.Written(f.Name)})
		case connector.TypeObject:
			for _, inside := range Columns(f.Fields) {
				out = append(out, Column{f.Name + "." + inside.Label, mapping.Written(f.Name) + "." + inside.Label})
			}
		}
	}
	return out
}

// ProposeRule proposes a rule for a field from stored records, as for a new export, and says why. Without a proposal it
// returns a rule of the kind NoRule.
func (m *Mappings) ProposeRule(ctx context.Context, conn syncer.Connection, path string) (rule mapping.Simple,
	why string, err error) {
	table := propose.Table{Part: true}
	for _, f := range conn.Info.Fields {
		if f.Type == connector.TypeText {
			table.Columns = append(table.Columns, f.Name)
		}
	}
	records, err := m.someRecords(ctx, conn)
	if err != nil || len(records) == 0 || len(table.Columns) == 0 {
		return rule, "", err
	}
	for _, r := range records {
		table.Rows = append(table.Rows, rowOf(r.Record, table.Columns))
	}
	for _, r := range propose.From(table, propose.Said{}).Rules {
		if found := mapping.ReadSimple(r.Value); r.Path == path && found.Kind != mapping.ByHand {
			return found, r.Why, nil
		}
	}
	return rule, "", nil
}

// rowOf returns the texts of a record in the order of the columns.
func rowOf(r connector.Record, columns []string) []string {
	var data map[string]any
	decoder := json.NewDecoder(bytes.NewReader(r.Data))
	decoder.UseNumber()
	row := make([]string, len(columns))
	if decoder.Decode(&data) != nil {
		return row // an unreadable record proposes nothing
	}
	for i, column := range columns {
		if value := data[column]; value != nil {
			row[i] = fmt.Sprint(value)
		}
	}
	return row
}
