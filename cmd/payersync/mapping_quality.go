package main

import (
	"fmt"
	"strings"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
)

// printQuality prints notes: nothing of it holds a record back.
func (a *app) printQuality(connection string, q admin.Quality, p privacy) {
	for _, m := range q.NotUnderstood {
		a.Hanging("note  ", fmt.Sprintf("%s: %s: %d not understood%s%s", connection, m.Path, m.Count, m.By(), misreadText(m, p)))
		a.Hanging("        ", show.Sentence(m.Next))
	}
	for _, s := range q.Shared {
		a.printShared(connection, s)
	}
	if len(q.Shared) > 0 {
		a.Hanging("        ", "Each becomes a customer of its own. Where two are one, merge them in the accounting system.")
	}
}

// misreadText lists the values of a misreading, and counts the unlisted ones.
func misreadText(m admin.Misread, p privacy) string {
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

// printShared lists the payers with the same name or address.
func (a *app) printShared(connection string, s admin.Shared) {
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
		a.Hanging("note  ", fmt.Sprintf("%s: %d payers share %s: %s", connection, s.Records, connector.Plural(s.Values, what),
			strings.Join(groups, "; ")))
	}
	if s.Partial {
		a.Hanging("note  ", fmt.Sprintf("%s: there are more different values of %s than are compared, so some that are shared may be missing here", connection, what))
	}
}
