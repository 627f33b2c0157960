package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/syncer"
	"payersync/mapping"
	"payersync/state"
)

// qualityReport is what a mapping's rules make of the quality of the records, in
// the JSON of `mapping check` and `mapping coverage`.
type qualityReport struct {
	NotUnderstood []misreadReport `json:"not_understood"`
	Shared        []sharedReport  `json:"shared"`
}

// misreadReport is what one function did not understand in one rule.
type misreadReport struct {
	Path     string         `json:"path"`
	Line     int            `json:"line"`
	Function string         `json:"function"`
	Count    int            `json:"count"`
	Values   []misreadValue `json:"values"` // those that may be shown, the commonest first
	Others   int            `json:"others"` // of count, those with other values
	Next     string         `json:"next"`
}

type misreadValue struct {
	Value   string   `json:"value"`
	Count   int      `json:"count"`
	CouldBe []string `json:"could_be,omitempty"`
}

// sharedReport is a name or an e-mail address that several payers have.
type sharedReport struct {
	Field   string        `json:"field"`
	Values  int           `json:"values"`
	Records int           `json:"records"`
	Partial bool          `json:"partial"` // not all were compared
	Largest []sharedValue `json:"largest"`
}

type sharedValue struct {
	Value     string   `json:"value"` // "" unless it may be shown
	Count     int      `json:"count"`
	SourceIDs []string `json:"source_ids"` // the first of them
}

// commonValue is how many records make a value tell of nobody: it is shown without
// a flag, as mapping fields does.
const commonValue = 5

// counted applies the mapping to the stored records of a connection.
func counted(ctx context.Context, s *session.Session, conn syncer.Connection) (mapping.CoverageReport, error) {
	c := conn.Mapping.NewCoverage()
	err := s.Syncer.EachStored(ctx, conn, func(page []state.StoredRecord) error {
		for _, r := range page {
			if r.Record.State == connector.RecordActive && r.Record.Problem == "" {
				c.Add(r.Record)
			}
		}
		return ctx.Err()
	})
	return c.Report(), err
}

func (p privacy) quality(c mapping.CoverageReport) qualityReport {
	out := qualityReport{NotUnderstood: []misreadReport{}, Shared: []sharedReport{}}
	for _, m := range c.Misread {
		out.NotUnderstood = append(out.NotUnderstood, p.misread(m))
	}
	for _, s := range c.Shared {
		r := sharedReport{Field: s.Field, Values: s.Values, Records: s.Records, Partial: s.Partial, Largest: []sharedValue{}}
		for _, v := range s.Largest {
			shown := sharedValue{Count: v.Count, SourceIDs: v.SourceIDs}
			if p.Whole {
				shown.Value = show.Visible(v.Value)
			}
			r.Largest = append(r.Largest, shown)
		}
		out.Shared = append(out.Shared, r)
	}
	return out
}

// misread leaves out the values that may not be shown, and counts them.
func (p privacy) misread(m mapping.Misread) misreadReport {
	out := misreadReport{Path: m.Path, Line: m.Line, Function: m.Function, Count: m.Count, Values: []misreadValue{}, Others: m.Others, Next: m.Cure}
	isBank := p.Hides(m.Path) || slices.ContainsFunc(m.Fields, p.Hides)
	for _, v := range m.Values {
		if isBank || !p.Whole && v.Count < commonValue {
			out.Others += v.Count
			continue
		}
		out.Values = append(out.Values, misreadValue{show.Visible(v.Value), v.Count, v.CouldBe})
	}
	return out
}

// printQuality prints notes: nothing of it holds a record back.
func (a *app) printQuality(connection string, q qualityReport, p privacy) {
	for _, m := range q.NotUnderstood {
		a.Hanging("note  ", fmt.Sprintf("%s: %s: %d not understood%s%s", connection, m.Path, m.Count, m.by(), m.told(p)))
		a.Hanging("        ", show.Sentence(m.Next))
	}
	for _, s := range q.Shared {
		a.printShared(connection, s)
	}
	if len(q.Shared) > 0 {
		a.Hanging("        ", "Each becomes a customer of its own. Where two are one, merge them in the accounting system.")
	}
}

// by says what did not understand, where that is not plain from what is decided.
func (m misreadReport) by() string {
	what := m.Path[strings.LastIndex(m.Path, ".")+1:]
	switch {
	case m.Function == mapping.WithoutRegion:
		return " for want of a region"
	case strings.Contains(strings.ToLower(m.Function), strings.ToLower(what)):
		return ""
	}
	return " by " + m.Function
}

// told names the values of a misreading, and counts those that are not told.
func (m misreadReport) told(p privacy) string {
	var values []string
	for _, v := range m.Values {
		text := fmt.Sprintf("%s ×%d", v.Value, v.Count)
		if len(v.CouldBe) > 0 {
			text += fmt.Sprintf(" (%s?)", strings.Join(v.CouldBe, " or "))
		}
		values = append(values, text)
	}
	if m.Others > 0 && len(m.Values) > 0 {
		values = append(values, connector.Plural(m.Others, "other"))
	}
	told := ""
	if len(values) > 0 {
		told = ": " + strings.Join(values, ", ")
	}
	if m.Others > 0 && !p.Whole {
		told += " (--show-values tells them)"
	}
	return told
}

// printShared names the payers who share a name or an address.
func (a *app) printShared(connection string, s sharedReport) {
	const most = 5
	what := map[string]string{"name": "name", "email": "e-mail address"}[s.Field]
	var groups []string
	for _, v := range s.Largest[:min(most, len(s.Largest))] {
		group := few(v.SourceIDs, v.Count)
		if v.Value != "" {
			group = v.Value + ": " + group
		}
		groups = append(groups, group)
	}
	if s.Values > most {
		groups = append(groups, fmt.Sprintf("and %d more", s.Values-most))
	}
	if s.Values > 0 {
		a.Hanging("note  ", fmt.Sprintf("%s: %d payers share %s: %s", connection, s.Records, connector.Plural(s.Values, what), strings.Join(groups, "; ")))
	}
	if s.Partial {
		a.Hanging("note  ", fmt.Sprintf("%s: there are more different values of %s than are compared, so some that are shared may be missing here", connection, what))
	}
}
