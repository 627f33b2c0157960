package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/mapping"
	"payersync/state"
)

// Privacy says how personal values are shown. Bank details are never shown.
type Privacy struct {
	Whole bool                // whole, and not their first letters
	Clean func(string) string // makes a foreign text safe for its display; nil if that is done later

	banks []string // externalData entries mapped from bank details
}

// bare returns a value as it may be shown.
func (p Privacy) bare(s string) string {
	if p.Clean != nil {
		s = p.Clean(s)
	}
	if p.Whole || s == "" || s == "true" || s == "false" {
		return s
	}
	return shortened(s)
}

// Text returns a value as it may be shown.
func (p Privacy) Text(s string) string { return p.bare(s) }

// shortened returns a quarter of a text, three letters at most.
func shortened(s string) string {
	letters := []rune(s)
	return string(letters[:min(3, len(letters)/4)]) + "…"
}

// RawRecord returns a source record unchanged, except for bank details, after noting the reader in the audit log.
func RawRecord(ctx context.Context, ledger *state.Ledger, id state.RecordID, by string) (string, error) {
	stored, err := ledger.StoredRecord(ctx, id.Connection, id.SourceID, "")
	if err != nil {
		return "", err
	}
	if err := ledger.Do(ctx, func(tx *state.Tx) error {
		return tx.Audit(state.Entry{Actor: by, Action: "show raw record", Subject: id.Connection + "/" + id.SourceID})
	}); err != nil {
		return "", err
	}
	text := Privacy{Whole: true}.Field("", string(stored.Record.Data))
	var out bytes.Buffer
	if json.Indent(&out, []byte(text), "", "  ") != nil {
		return NotShown, nil // an unreadable value may hold anything
	}
	return out.String(), nil
}

// Diff returns the changes of fields with their values as they may be shown.
func (p Privacy) Diff(changes []connector.FieldChange) []connector.FieldChange {
	out := make([]connector.FieldChange, len(changes))
	for i, d := range changes {
		out[i] = connector.FieldChange{Path: d.Path, From: p.Field(d.Path, d.From), To: p.Field(d.Path, d.To)}
	}
	return out
}

// bank matches the names of fields with bank details: no flag shows them.
var bank = regexp.MustCompile(`(?i)bank|iban|sort ?code|swift|\bbic\b`)

// IsBankField reports whether a field holds bank details, by its name.
func IsBankField(name string) bool { return bank.MatchString(name) }

// NotShown stands for a value hidden from everybody.
const NotShown = "[not shown]"

// Hides reports whether a field of a record or a customer, by its name or its
// path, holds bank details.
func (p Privacy) Hides(name string) bool {
	return IsBankField(name) || slices.Contains(p.banks, strings.TrimPrefix(name, "externalData."))
}

// bankEntries returns the names of externalData entries made from bank details.
func bankEntries(rules []mapping.Rule) []string {
	var out []string
	for _, r := range rules {
		name, external := strings.CutPrefix(r.Path, "externalData.")
		if external && slices.ContainsFunc(r.Inputs, func(in mapping.Input) bool { return IsBankField(in.Field) }) {
			out = append(out, name)
		}
	}
	return out
}

// Field returns a field's value as it may be shown. Bank details inside a block
// or a list are taken out.
func (p Privacy) Field(name, value string) string {
	if value != "" && p.Hides(name) {
		return NotShown
	}
	if !strings.HasPrefix(value, "{") && !strings.HasPrefix(value, "[") {
		return p.bare(value)
	}
	var block any
	decoder := json.NewDecoder(strings.NewReader(value))
	decoder.UseNumber()
	if decoder.Decode(&block) != nil {
		return p.bare(value)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(p.block(block)) != nil {
		return NotShown
	}
	return strings.TrimSpace(out.String())
}

func (p Privacy) block(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			if v[name] = p.block(inner); p.Hides(name) {
				v[name] = NotShown
			}
		}
	case []any:
		for i, inner := range v {
			v[i] = p.block(inner)
		}
	case string:
		return p.bare(v)
	case json.Number:
		return p.bare(v.String())
	}
	return value
}

func (p Privacy) record(r state.StoredRecord) StoredRecord {
	out := StoredRecord{State: r.Record.State, Origin: r.Record.Origin, Problem: r.Record.Problem, Decided: r.Verdict,
		Fields: []Field{}}
	if r.Forgotten != state.ForgottenNot {
		out.State = state.RecordForgotten
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(r.Record.Data, &fields) != nil {
		return out // an unreadable record has none; its problem says so
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		text := string(fields[name])
		var s string
		if json.Unmarshal(fields[name], &s) == nil {
			text = s
		}
		if text != "" {
			out.Fields = append(out.Fields, Field{name, p.Field(name, text)})
		}
	}
	return out
}

func (p Privacy) rules(rules []mapping.Rule) []Rule {
	out := make([]Rule, len(rules))
	for i, r := range rules {
		t := Rule{Path: r.Path, Line: r.Line, Text: r.Text, Inputs: []Field{}, Error: r.Err, Skipped: r.Skipped,
			Value: p.Field("", r.Value)}
		for _, in := range r.Inputs {
			t.Inputs = append(t.Inputs, Field{in.Field, p.Field(in.Field, in.Value)})
			if IsBankField(in.Field) && t.Value != "" {
				t.Value = NotShown
			}
		}
		out[i] = t
	}
	return out
}

// customer returns a customer with its values as they may be shown.
func (p Privacy) customer(c connector.Customer) *connector.Customer {
	out := connector.Customer{Name: p.bare(c.Name), ExternalData: map[string]string{}}
	for _, person := range c.People {
		out.People = append(out.People, connector.Person{
			Name: p.bare(person.Name), FirstName: p.bare(person.FirstName), LastName: p.bare(person.LastName),
			Email: p.bare(person.Email), Phone: p.bare(person.Phone),
			Primary: person.Primary, Communication: person.Communication,
		})
	}
	for _, place := range c.Addresses {
		out.Addresses = append(out.Addresses, connector.Address{
			Line1: p.bare(place.Line1), City: p.bare(place.City), PostCode: p.bare(place.PostCode),
			Country: p.bare(place.Country),
		})
	}
	for name, value := range c.ExternalData {
		out.ExternalData[name] = p.Field(name, value)
	}
	return &out
}
