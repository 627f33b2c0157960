package syncer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/state"
)

// FieldProfile is a field of a source with its values in the stored records.
type FieldProfile struct {
	// as in Org.VatNumber, or Phones[].PhoneNumber for the elements of a list
	Path        string              `json:"path"`
	Name        string              `json:"-"` // the first step of Path
	Type        connector.FieldType `json:"type"`
	Description string              `json:"description,omitempty"`
	Records     int                 `json:"records"`
	Filled      int                 `json:"filled"`   // records with a value
	Distinct    int                 `json:"distinct"` // different values, counted up to 64
	// the most common values; of an empty ledger, the source's own example
	Examples []FieldExample `json:"examples"`
}

// FieldExample is a value of a field. A common one is shared by at least five records and by one in ten: it
// is a category, and identifies nobody.
type FieldExample struct {
	Value  string `json:"value"`
	Count  int    `json:"count"`
	Common bool   `json:"common"`
}

const (
	maxDistinct  = 64 // values remembered of a field
	maxExamples  = 3
	commonCount  = 5
	commonShare  = 10 // one record in so many
	maxFieldText = 80 // characters of an example
)

// ProfileFields says how the declared fields of a connection's source are filled
// in the stored records. It asks the ledger alone and needs no mapping.
func (s *Syncer) ProfileFields(ctx context.Context, conn Connection) ([]FieldProfile, error) {
	c := &fieldCensus{}
	c.declare("", nil, conn.Info.Fields)
	err := s.EachStored(ctx, conn, func(page []state.StoredRecord) error {
		return connector.Each(page, func(r state.StoredRecord) error { return c.count(r.Record) })
	})
	return c.profiles(), err
}

// fieldCensus counts the values of every declared field.
type fieldCensus struct {
	records int
	fields  []*countedField
}

type countedField struct {
	FieldProfile
	steps   []string // the names on the way to it
	example string   // as declared
	values  map[string]int
}

func (c *fieldCensus) declare(before string, steps []string, fields []connector.Field) {
	for _, f := range fields {
		way := append(slices.Clone(steps), f.Name)
		c.fields = append(c.fields, &countedField{
			FieldProfile: FieldProfile{Path: before + f.Name, Name: way[0], Type: f.Type, Description: f.Description},
			steps:        way, example: f.Example, values: map[string]int{},
		})
		after := "."
		if f.Type == connector.TypeList {
			after = "[]."
		}
		c.declare(before+f.Name+after, way, f.Fields)
	}
}

func (c *fieldCensus) count(r connector.Record) error {
	if r.Problem != "" {
		return nil // unreadable, and known to be
	}
	c.records++
	var data map[string]any
	values := json.NewDecoder(bytes.NewReader(r.Data))
	values.UseNumber() // an id keeps its digits
	if err := values.Decode(&data); err != nil {
		return fmt.Errorf("record %s: %w", r.SourceID, err)
	}
	for _, f := range c.fields {
		if texts := textsAt(data, f.steps); len(texts) > 0 {
			f.add(texts)
		}
	}
	return nil
}

// textsAt returns the nonblank texts at the end of a path through objects and lists.
func textsAt(value any, steps []string) []string {
	switch v := value.(type) {
	case []any:
		var out []string
		for _, element := range v {
			out = append(out, textsAt(element, steps)...)
		}
		if len(steps) == 0 && len(out) > 0 { // the list itself is the field
			return []string{fmt.Sprintf("a list of %d", len(v))}
		}
		return out
	case map[string]any:
		if len(steps) == 0 {
			return textOf(len(v) > 0, "a block")
		}
		return textsAt(v[steps[0]], steps[1:])
	case nil:
		return nil
	}
	text := fmt.Sprint(value)
	return textOf(len(steps) == 0 && strings.TrimSpace(text) != "", text)
}

func textOf(there bool, text string) []string {
	if !there {
		return nil
	}
	return []string{text}
}

func (f *countedField) add(texts []string) {
	f.Filled++
	for _, text := range texts {
		if runes := []rune(text); len(runes) > maxFieldText {
			text = string(runes[:maxFieldText]) + "…"
		}
		if _, known := f.values[text]; known || len(f.values) < maxDistinct {
			f.values[text]++
		}
	}
}

func (c *fieldCensus) profiles() []FieldProfile {
	out := make([]FieldProfile, len(c.fields))
	for i, f := range c.fields {
		f.Records, f.Distinct, f.Examples = c.records, len(f.values), []FieldExample{}
		for text, n := range f.values {
			common := f.Type == connector.TypeFlag || n >= commonCount && n*commonShare >= c.records
			f.Examples = append(f.Examples, FieldExample{text, n, common})
		}
		slices.SortFunc(f.Examples, func(a, b FieldExample) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Value, b.Value))
		})
		f.Examples = f.Examples[:min(maxExamples, len(f.Examples))]
		if c.records == 0 && f.example != "" {
			f.Examples = []FieldExample{{Value: f.example, Common: true}}
		}
		out[i] = f.FieldProfile
	}
	return out
}
