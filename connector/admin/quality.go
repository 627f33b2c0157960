package admin

import (
	"context"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/mapping"
	"payersync/state"
)

// Quality is what a mapping's rules make of the quality of the records, in
// the JSON of `mapping check` and `mapping check --coverage`.
type Quality struct {
	NotUnderstood []Misread `json:"not_understood"`
	Shared        []Shared  `json:"shared"`
}

// Misread is the set of texts misread by one function in one rule.
type Misread struct {
	Path     string         `json:"path"`
	Line     int            `json:"line"`
	Function string         `json:"function"`
	Count    int            `json:"count"`
	Values   []MisreadValue `json:"values"` // the values that may be shown, the commonest first
	Others   int            `json:"others"` // of count, those with other values
	Next     string         `json:"next"`
}

// KeepsBack reports whether records with such a value are on hold. The functions for e-mail addresses return
// unknown text unchanged, and an invalid address holds its payer.
func (m Misread) KeepsBack() bool { return m.Function == "firstEmail" || m.Function == "emails" }

// KeepingBack returns the values that put payers on hold.
func (q Quality) KeepingBack() []Misread { return q.where(true) }

// LeftBlank returns the values left blank, which put nobody on hold.
func (q Quality) LeftBlank() []Misread { return q.where(false) }

func (q Quality) where(keepsBack bool) (out []Misread) {
	return connector.Filter(q.NotUnderstood, func(m Misread) bool { return m.KeepsBack() == keepsBack })
}

// MisreadValue is a text not understood by a rule.
type MisreadValue struct {
	Value   string   `json:"value"`
	Count   int      `json:"count"`
	CouldBe []string `json:"could_be,omitempty"`
}

// Shared is a name or an e-mail address of several payers.
type Shared struct {
	Field   string        `json:"field"`
	Values  int           `json:"values"`
	Records int           `json:"records"`
	Partial bool          `json:"partial"` // not all were compared
	Largest []SharedValue `json:"largest"`
}

// SharedValue is one of them.
type SharedValue struct {
	Value     string   `json:"value"` // "" unless it may be shown
	Count     int      `json:"count"`
	SourceIDs []string `json:"source_ids"` // the first of them
}

// commonValue is how many records make a value anonymous: it is shown without a flag, as mapping fields does.
const commonValue = 5

// Covered applies the mapping to the stored records of a connection.
func Covered(ctx context.Context, s *syncer.Syncer, conn syncer.Connection) (mapping.CoverageReport, error) {
	c := conn.Mapping.NewCoverage()
	err := s.EachStored(ctx, conn, func(page []state.StoredRecord) error {
		for _, r := range page {
			if r.Record.State == connector.RecordActive && r.Record.Problem == "" {
				c.Add(r.Record)
			}
		}
		return ctx.Err()
	})
	return c.Report(), err
}

// Quality returns what a mapping's rules make of the records, with values as they may be shown.
func (p Privacy) Quality(c mapping.CoverageReport) Quality {
	out := Quality{NotUnderstood: []Misread{}, Shared: []Shared{}}
	out.NotUnderstood = append(out.NotUnderstood, connector.Map(c.Misread, p.misread)...)
	for _, s := range c.Shared {
		r := Shared{Field: s.Field, Values: s.Values, Records: s.Records, Partial: s.Partial, Largest: []SharedValue{}}
		for _, v := range s.Largest {
			shown := SharedValue{Count: v.Count, SourceIDs: v.SourceIDs}
			if p.Whole {
				shown.Value = p.clean(v.Value)
			}
			r.Largest = append(r.Largest, shown)
		}
		out.Shared = append(out.Shared, r)
	}
	return out
}

// misread removes the hidden values, and counts them.
func (p Privacy) misread(m mapping.Misread) Misread {
	out := Misread{Path: m.Path, Line: m.Line, Function: m.Function, Count: m.Count, Values: []MisreadValue{},
		Others: m.Others, Next: m.Cure}
	isBank := p.Hides(m.Path) || slices.ContainsFunc(m.Fields, p.Hides)
	for _, v := range m.Values {
		if isBank || !p.Whole && v.Count < commonValue {
			out.Others += v.Count
			continue
		}
		out.Values = append(out.Values, MisreadValue{p.clean(v.Value), v.Count, v.CouldBe})
	}
	return out
}

// By names the function concerned, unless the field makes it obvious.
func (m Misread) By() string {
	what := m.Path[strings.LastIndex(m.Path, ".")+1:]
	switch {
	case m.Function == mapping.WithoutRegion:
		return " for want of a region"
	case strings.Contains(strings.ToLower(m.Function), strings.ToLower(what)):
		return ""
	}
	return " by " + m.Function
}

// clean returns foreign text, made safe for its display.
func (p Privacy) clean(s string) string {
	if p.Clean != nil {
		return p.Clean(s)
	}
	return s
}
