package main

import (
	"fmt"
	"slices"
	"strings"

	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/admin"
)

// comment is the comment at the top of the query.
func (s *sqlSetup) comment(needed []string) string {
	line := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	text := "-- The customers in " + line(s.chosen.Name) +
		". payersync init proposed this query. Numbers and flags are read as\n" +
		"-- texts, because the functions of mapping.yaml take texts.\n"
	var left []string
	for _, c := range s.chosen.Columns {
		if !slices.Contains(needed, c) {
			left = append(left, line(c))
		}
	}
	if len(left) > 0 {
		text += "-- Not read: " + strings.Join(left, ", ") + ".\n-- Add a column here before the mapping reads it.\n"
	}
	return text
}

// tookTable describes the assumptions about a table.
func (s *sqlSetup) tookTable() {
	add := func(format string, args ...any) {
		s.took = append(s.took, assumption{s.sourceLine(), fmt.Sprintf(format, args...)})
	}
	if s.unasked {
		line := 1 + strings.Count(s.query[:strings.LastIndex(s.query, "\nFROM ")+1], "\n")
		s.took = append(s.took, assumption{fmt.Sprintf("%s:%d", s.queryFile, line),
			fmt.Sprintf("The customers are in %s, by its name and columns. --table NAME takes another table.", s.chosen.Name)})
	}
	id := strings.Join(s.at.ID, ", ")
	if key := s.ruleAt("key.customerNumber"); key != nil {
		add("id: %s.", key.Why)
	}
	if !slices.ContainsFunc(s.chosen.Keys, func(key []string) bool { return slices.Equal(key, s.at.ID) }) {
		add("id: nothing in the database keeps %s unique. Rows with the same value wait for a person.", id)
	}
	if s.at.UpdatedAt != "" {
		add("updated_at: %s holds the time of the last edit. Every run still reads all rows; add incremental: true only if every change sets it.", s.at.UpdatedAt)
	}
}

// sourceLine names the source's line in payersync.yaml.
func (s *sqlSetup) sourceLine() string {
	shipped, err := setupFiles(setup{source: "kind: sql"})
	if err != nil {
		return configFile
	}
	for _, f := range shipped {
		if at := strings.Index(string(f.data), "source: kind: sql"); f.name == configFile && at >= 0 {
			return fmt.Sprintf("%s:%d", configFile, 1+strings.Count(string(f.data[:at]), "\n"))
		}
	}
	return configFile
}

// withoutKey says why no column identifies a row, and what to do.
func (s *sqlSetup) withoutKey() error {
	name := show.Visible(s.chosen.Name)
	if len(s.id) > 0 {
		return usage.Errorf("--id %s: %s has no such column; its columns are %s", show.Visible(strings.Join(s.id, ",")), name,
			show.Visible(strings.Join(s.chosen.Columns, ", ")))
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s has no key, and no column of it identifies a customer for ever:\n", name)
	for _, r := range s.proposal.Refused[:min(5, len(s.proposal.Refused))] {
		fmt.Fprintf(&text, "  %s: %s\n", show.Visible(r.Column), r.Why)
	}
	text.WriteString("Choose another table with --table NAME, or name the identifying column (or several together) with --id COLUMN[,COLUMN]")
	return usage.Errorf("%s", text.String())
}

// rowName is a row's reference for people: its id.
func (s *sqlSetup) rowName(i int) string {
	var parts []string
	for _, id := range s.named {
		if at := slices.IndexFunc(s.table.Columns, func(c string) bool { return strings.EqualFold(c, id) }); at >= 0 &&
			!admin.IsBankField(id) {
			parts = append(parts, id+" "+s.table.Rows[i][at])
		}
	}
	return strings.Join(parts, ", ")
}

// sourceBlock is the source's block in payersync.yaml.
func (s *sqlSetup) sourceBlock(dir string) (string, error) {
	c := s.at
	keys := []string{"kind: sql", "driver: " + c.Driver}
	add := func(key, value string) {
		if value != "" {
			keys = append(keys, fmt.Sprintf("%s: %q", key, value))
		}
	}
	for _, file := range []struct {
		key  string
		path *string
	}{{"path", &c.Path}, {"ca_file", &c.CAFile}} {
		if *file.path == "" {
			continue
		}
		path, err := pathFrom(dir, *file.path)
		if err != nil {
			return "", err
		}
		add(file.key, path)
	}
	add("host", c.Host)
	if c.Port != 0 {
		keys = append(keys, fmt.Sprintf("port: %d", c.Port))
	}
	add("database", c.Database)
	add("user", c.User)
	if !c.Password.IsZero() {
		add("password", "file:"+passwordFile)
	}
	add("tls", c.TLS)
	add("preset", c.Preset)
	add("query_file", s.queryFile)
	ids := connector.Map(c.ID, func(id string) string { return fmt.Sprintf("%q", id) })
	keys = append(keys, "id: ["+strings.Join(ids, ", ")+"]")
	add("active", c.Active)
	add("updated_at", c.UpdatedAt)
	return "{" + strings.Join(keys, ", ") + "}", nil
}
