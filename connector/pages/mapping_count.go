package pages

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/mapping"
	"payersync/state"
)

// forecast holds a mapping's changes, in a page's form.
type forecast struct {
	syncer.Preview
	Payers []forecastRow
	Groups []forecastGroup
	NotNow int // would not be sent, and were before
	Sum    int
	Of     int // customers, now or then
}

// forecastRow holds the changes for one payer.
type forecastRow struct {
	Who    payerName
	Does   string
	Fields []fieldRow
}

// forecastGroup is a set of customers with the same kind of change to the same fields.
type forecastGroup struct {
	Count int
	What  string
}

func (v *visit) forecastOf(p syncer.Preview, keyName string) (*forecast, error) {
	f := &forecast{Preview: p}
	for _, failure := range p.Failures {
		f.NotNow += failure.New
	}
	f.Of = p.Records - p.Excluded + p.Dropped.Count
	f.Sum = p.Creates + p.Adopts + p.Updates + p.Dropped.Count + f.NotNow
	for _, g := range p.Groups {
		what := connector.Map(g.Changes,
			func(c syncer.FieldManner) string { return admin.FieldWord(c.Path) + " " + string(c.Manner) })
		f.Groups = append(f.Groups, forecastGroup{g.Count, strings.Join(slices.Compact(what), ", ")})
	}
	ids := make([]state.RecordID, len(p.Customers))
	for i, c := range p.Customers {
		ids[i] = state.RecordID{Connection: p.Connection, SourceID: c.SourceID}
	}
	labels, err := v.ledger().LabelsOf(v.Context(), ids)
	for i, c := range p.Customers {
		row := forecastRow{Who: payerName{p.Connection, c.SourceID, labels[ids[i]].Name}, Does: does[c.Action]}
		switch {
		case c.Verdict == state.Held:
			row.Does = "would be on hold: " + strings.ToLower(admin.ReasonTitle(c.Reason))
		case c.Verdict == state.Excluded:
			row.Does = "would be excluded"
		}
		diff := admin.Privacy{Whole: true}.Diff(c.Diff)
		if !v.User.Role.May(Operator) {
			diff = admin.ForViewers(c.Diff, keyName)
		}
		for j, d := range diff {
			row.Fields = append(row.Fields,
				fieldRow{Path: d.Path, Field: admin.FieldWord(d.Path), Now: d.From, After: d.To, Emptied: c.Diff[j].From != "" &&
					c.Diff[j].To == ""})
		}
		f.Payers = append(f.Payers, row)
	}
	return f, err
}

// addPreview tries the text on the first records, and on the requested record.
func (v *visit) addPreview(p *mappingPage, checked admin.Checked, now admin.MappingText) error {
	ctx, m := v.Context(), v.pages.cfg.Mappings
	first, err := m.First(ctx, checked.Connection)
	if err != nil {
		return err
	}
	p.Whole = first.Records < admin.FirstRecords
	if p.Preview, err = v.forecastOf(first, checked.Mapping.KeyName()); err != nil || p.Record == "" || !p.Raw {
		return err
	}
	id := state.RecordID{Connection: p.Connection, SourceID: p.Record}
	var before *mapping.Mapping
	if was, err := m.Check(ctx, p.Connection, []byte(now.Text)); err == nil {
		before = was.Mapping
	}
	rules, err := admin.RuleChanges(ctx, v.ledger(), id, before, checked.Mapping, admin.Privacy{Whole: true})
	switch {
	case errors.Is(err, state.ErrNoRecord):
		p.RecordWhy = "No record has this number."
		return nil
	case err != nil:
		return err
	}
	if p.Rules = rules; len(rules) == 0 {
		p.RecordWhy = "No rule was tried: the record was removed, or cannot be read."
		return nil
	}
	return admin.Audit(ctx, v.ledger(), state.Entry{Actor: v.User.Name, Action: "show record", Subject: p.Connection + " " + p.Record,
		Reason: "mapping"})
}

var noCount = problem{Status: http.StatusNotFound, Title: "There is no such count",
	Sentence: "This count was cancelled, has expired, or was never started.", Next: "Open the mapping, and count again."}

// mappingCount shows the progress or the result of a trial on all records.
func (v *visit) mappingCount() error {
	now, err := v.theMapping()
	if err != nil {
		return err
	}
	connection, hash := v.PathValue("connection"), v.PathValue("hash")
	t, old, found, err := v.pages.cfg.Mappings.Tried(v.Context(), connection, hash)
	switch {
	case err != nil:
		return err
	case !found:
		return noCount
	}
	content := struct {
		Connection, Path, Hash string
		admin.Tally
		Old, Saved bool
		Preview    *forecast
		Whole      bool
	}{Connection: connection, Path: mappingPath(connection), Hash: hash, Tally: t, Old: old, Saved: now.Hash == hash,
		Whole: true}
	if p, ok := t.Result.(syncer.Preview); ok {
		if content.Preview, err = v.forecastOf(p, ""); err != nil {
			return err
		}
	}
	return v.show("counted", "What the mapping would change", content)
}

// stopCounting ends a count, or begins it anew.
func (v *visit) stopCounting() error {
	if _, err := v.theMapping(); err != nil {
		return err
	}
	m, connection, hash := v.pages.cfg.Mappings, v.PathValue("connection"), v.PathValue("hash")
	t, _, found, err := m.Tried(v.Context(), connection, hash)
	switch {
	case err != nil:
		return err
	case !found:
		return noCount
	}
	if v.filled("do") != "again" {
		m.Tally.Cancel(t.Name)
		return v.done("The count was stopped. Nothing was changed.", mappingPath(connection))
	}
	checked, err := m.Check(v.Context(), connection, []byte(t.Text))
	if err != nil {
		return err
	}
	if checked.Mapping == nil {
		return noCount
	}
	if _, err := m.All(v.Context(), checked.Connection); err != nil {
		return err
	}
	return v.done("Counting again.", mappingPath(connection)+"/preview/"+url.PathEscape(hash))
}
