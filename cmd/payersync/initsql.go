package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/accounting/sqltable"
	"payersync/mapping/propose"
)

const (
	queryFile    = "customers.sql"
	passwordFile = "books.password" // of the database's user; the configuration names the file
)

// How many tables are counted, shown and offered, likeliest first.
const (
	mostCounted = 40
	mostListed  = 20
	mostOffered = 8
)

// A table is chosen without a question if it has at least this score, and this much more than any other.
const (
	likelyEnough = 100
	clearlyAhead = 25
)

// sqlSetup is a first set-up for a table of a database, as it is being made.
type sqlSetup struct {
	dataSetup
	at        sqltable.Config // the database, and at the end the source's configuration
	tables    []sqltable.Table
	chosen    sqltable.Table // not set for a known program
	query     string
	queryFile string
	bad       []string // unreadable values
	unasked   bool     // nobody chose the table
	named     []string // the columns that identify a row for a person
}

// databaseReport is the part of dataReport about a database.
type databaseReport struct {
	Driver  string         `json:"driver"`
	Tables  []tableReport  `json:"tables"` // likeliest first
	Table   string         `json:"table"`  // that is proposed; "" for a program that is known
	Preset  string         `json:"preset"` // the program; "" for none
	Query   string         `json:"query"`
	Looked  int            `json:"looked_at"` // rows used for the proposal
	Unfit   []string       `json:"unfit"`     // why values cannot be read, ten at most
	Columns []columnReport `json:"columns"`
}

type tableReport struct {
	Name       string `json:"name"`
	View       bool   `json:"view"`
	Rows       int64  `json:"rows"` // -1 if unknown
	Estimated  bool   `json:"estimated"`
	Likely     int    `json:"likely"` // how much speaks for it, 0 for nothing
	Unreadable string `json:"unreadable,omitempty"`
}

// initialiseSQL makes a first set-up for a database: it lists its tables, looks at the likeliest one,
// proposes, asks, writes, and shows the effect of a first run. It only reads.
func (a *app) initialiseSQL(ctx context.Context, f initFlags) error {
	s := &sqlSetup{dataSetup: dataSetup{app: a, initFlags: f, what: "database"}, queryFile: queryFile}
	s.block, s.row, s.part = s.sourceBlock, s.rowName, s.firstRows
	s.opened = func() (accounting.Source, error) { return s.openSource() }
	if err := mayWrite(f.dir, append(s.names(), queryFile, passwordFile)); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{s.connect, s.choose, s.inspect, s.propose, s.complete, s.nameIt,
		s.settleAsking, s.completeQuery} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return s.finish(ctx)
}

// connect lists the tables.
func (s *sqlSetup) connect(ctx context.Context) (err error) {
	if s.at, err = s.address(ctx, s.Console); err != nil {
		return err
	}
	s.label = show.Visible(cmp.Or(s.at.Database, filepath.Base(s.at.Path)))
	s.company = propose.Company(cmp.Or(s.at.Database, s.at.Path), nil)
	if s.tables, err = sqltable.Tables(ctx, s.at); err != nil {
		return s.unread(ctx, err)
	}
	if len(s.tables) == 0 {
		return usage.Errorf("%s shows no table to this user; name the database of your accounting system, or let the user read the table of customers", s.label)
	}
	s.rank()
	counted := s.tables[:min(mostCounted, len(s.tables))]
	if err := sqltable.Count(ctx, s.at, counted); err != nil {
		return s.unread(ctx, err)
	}
	s.rank()
	s.showTables()
	return nil
}

// unread returns the error of an unreadable database.
func (s *sqlSetup) unread(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if failed := (*connector.RemoteError)(nil); errors.As(err, &failed) {
		return fmt.Errorf("cannot read %s: %s", s.label,
			show.Visible(strings.TrimSuffix(failed.Detail, "; the next run tries again")))
	}
	return fmt.Errorf("cannot read %s: %w", s.label, err)
}

// likely is the score of a table: nothing for an empty or unreadable one.
func likely(t sqltable.Table) int {
	if t.Unreadable != "" || t.Rows == 0 && !t.Estimated {
		return 0
	}
	return max(0, propose.Likely(t.Name, t.Columns))
}

// rank puts the likeliest tables first. An unreadable one keeps its place by its name, so somebody sees it.
func (s *sqlSetup) rank() {
	points := func(t sqltable.Table) int {
		if t.Unreadable != "" {
			return propose.Likely(t.Name, []string{"name"})
		}
		return likely(t)
	}
	slices.SortStableFunc(s.tables,
		func(a, b sqltable.Table) int { return cmp.Or(points(b)-points(a), strings.Compare(a.Name, b.Name)) })
}

// rows says how many rows a table has.
func rows(t sqltable.Table) string {
	switch {
	case t.Unreadable != "":
		return "cannot be read: " + t.Unreadable
	case t.Rows < 0:
		return "not counted"
	case t.Estimated:
		return fmt.Sprintf("about %d", t.Rows)
	}
	return fmt.Sprint(t.Rows)
}

func tableKind(t sqltable.Table) string {
	if t.View {
		return "view"
	}
	return "table"
}

// showTables shows the tables, likeliest first.
func (s *sqlSetup) showTables() {
	s.about.Database = &databaseReport{Driver: s.at.Driver}
	for _, t := range s.tables {
		s.about.Database.Tables = append(s.about.Database.Tables,
			tableReport{t.Name, t.View, t.Rows, t.Estimated, likely(t), t.Unreadable})
	}
	if s.JSON() {
		return
	}
	s.Hanging("", fmt.Sprintf("%s: %s, %s, read only", s.label, s.at.Driver, connector.Plural(len(s.tables), "table")))
	fmt.Fprintln(s.Out)
	list := connector.Map(s.tables[:min(mostListed, len(s.tables))],
		func(t sqltable.Table) []string { return []string{t.Name, tableKind(t), rows(t)} })
	show.Table(s.Out, []string{"Name", "Kind", "Rows"}, list)
	if more := len(s.tables) - mostListed; more > 0 {
		s.Hanging("- ", fmt.Sprintf("%d more look less like customers; --output json lists them.", more))
	}
	for _, t := range s.tables[min(mostListed, len(s.tables)):] {
		if t.Unreadable != "" {
			s.Hanging("- ", show.Visible(fmt.Sprintf("Skipped %s: %s.", t.Name, t.Unreadable)))
		}
	}
}

// choose finds the table, or the program that owns the tables.
func (s *sqlSetup) choose(ctx context.Context) error {
	known, err := s.recognise()
	if err != nil {
		return err
	}
	if known != nil {
		s.about.Database.Preset = known.preset
		s.Print("These are the tables of %s: its shipped query and mapping are taken. --table NAME looks at one table instead.",
			known.name)
		return nil
	}
	if s.chosen, err = s.customerTable(ctx); err != nil {
		return err
	}
	if s.chosen.Unreadable != "" {
		return usage.Errorf("cannot read %s: %s; let the user of the database read it", show.Visible(s.chosen.Name),
			s.chosen.Unreadable)
	}
	s.about.Database.Table = s.chosen.Name
	if s.query, err = sqltable.Select(ctx, s.at, s.chosen, nil); err != nil {
		return s.unread(ctx, err)
	}
	return nil
}

// customerTable is the table of --table, a person's choice, or the clearly likeliest one.
func (s *sqlSetup) customerTable(ctx context.Context) (sqltable.Table, error) {
	if s.tableName != "" {
		for _, same := range []func(a, b string) bool{func(a, b string) bool { return a == b }, strings.EqualFold} {
			if i := slices.IndexFunc(s.tables, func(t sqltable.Table) bool { return same(t.Name, s.tableName) }); i >= 0 {
				return s.tables[i], nil
			}
		}
		return sqltable.Table{}, usage.Errorf("%s shows no table %q to this user; it has %s", s.label,
			show.Visible(s.tableName), s.offered(s.tables))
	}
	candidates := slices.DeleteFunc(slices.Clone(s.tables), func(t sqltable.Table) bool { return likely(t) == 0 })
	if len(candidates) == 0 {
		return sqltable.Table{}, usage.Errorf("no table of %s looks like customers: none with rows has a column for names. It has %s. Add --table NAME", s.label, s.offered(s.tables))
	}
	if !s.yes && s.Unasked() == "" {
		var options []string
		for _, t := range candidates[:min(mostOffered, len(candidates))] {
			options = append(options, fmt.Sprintf("%s (%s, rows: %s)", t.Name, tableKind(t), rows(t)))
		}
		taken, err := s.Chooses(ctx, "Which table contains the customers?", options...)
		return candidates[taken], err
	}
	ahead := likely(candidates[0])
	if len(candidates) > 1 {
		ahead -= likely(candidates[1])
	}
	if likely(candidates[0]) < likelyEnough || ahead < clearlyAhead {
		return sqltable.Table{}, usage.Errorf("several tables of %s may contain the customers: %s. Add --table NAME", s.label,
			s.offered(candidates))
	}
	s.unasked = true
	return candidates[0], nil
}

// offered lists tables in a sentence.
func (s *sqlSetup) offered(tables []sqltable.Table) string {
	names := connector.Map(tables[:min(mostOffered, len(tables))],
		func(t sqltable.Table) string { return show.Visible(fmt.Sprintf("%s (%s)", t.Name, rows(t))) })
	if more := len(tables) - mostOffered; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// inspect reads the first rows of the query and shows its columns.
func (s *sqlSetup) inspect(ctx context.Context) error {
	at := s.at
	at.Query = s.query
	sample, err := sqltable.ReadSample(ctx, at)
	if err != nil {
		return s.unread(ctx, err)
	}
	if len(sample.Rows) == 0 {
		return usage.Errorf("%s holds no row; choose another table with --table NAME",
			show.Visible(cmp.Or(s.chosen.Name, s.label)))
	}
	s.table = propose.Table{Columns: sample.Columns, Rows: sample.Rows, Part: sample.Part, Stored: true,
		Keys: s.chosen.Keys, Primary: s.chosen.Primary}
	s.bad, s.count = sample.Bad, len(sample.Rows)
	s.info = connector.SourceInfo{Kind: "sql"}
	for _, name := range sample.Columns {
		s.info.Fields = append(s.info.Fields, connector.Field{Name: name, Type: connector.TypeText})
	}
	if s.JSON() {
		return nil
	}
	fmt.Fprintln(s.Out)
	s.Hanging("", show.Visible(fmt.Sprintf("%s: %s looked at, %s", cmp.Or(s.chosen.Name, s.queryFile),
		connector.Plural(len(sample.Rows), "row"), connector.Plural(len(sample.Columns), "column"))))
	s.showColumns()
	if sample.Part {
		s.Hanging("- ", fmt.Sprintf("The proposal goes by the first %s.", connector.Plural(len(sample.Rows), "row")))
	}
	for _, why := range s.bad {
		s.Hanging("- ", show.Visible("A value cannot be read: "+why))
	}
	return nil
}

// openSource opens the proposed source.
func (s *sqlSetup) openSource() (*sqltable.Source, error) {
	at := s.at
	at.Query = s.query
	return sqltable.New(at)
}

// firstRows returns the set-up for the first rows of a large table: a plan of all of them would
// take minutes. For other tables it returns the set-up itself.
func (s *sqlSetup) firstRows(string) (*dataSetup, error) {
	if len(s.table.Rows) <= mostTried {
		return &s.dataSetup, nil
	}
	first := s.dataSetup
	first.more = slices.Clone(s.more)
	for i := range first.more {
		if first.more[i].name == s.queryFile {
			first.more[i].data = fmt.Appendf(nil, "SELECT * FROM (\n%s\n) AS customers LIMIT %d\n", s.query, mostTried)
		}
	}
	return &first, nil
}

// describe completes the JSON output about the database.
func (s *sqlSetup) describe() {
	d := s.about.Database
	d.Query, d.Looked, d.Unfit, d.Columns = s.query, len(s.table.Rows), s.bad, s.columnReports()
}

// complete sets the columns of a row's id in the source, and takes the mapping.
func (s *sqlSetup) complete(ctx context.Context) error {
	if s.shipped {
		if region := s.rule("region"); region != "" {
			text := regionLine.ReplaceAllString(string(s.mapping), "region: "+region+" ")
			s.mapping = []byte(strings.ReplaceAll(text, `"GB")`, fmt.Sprintf("%q)", region)))
		}
		s.took = append(s.took, assumption{s.sourceLine(),
			fmt.Sprintf("A row is known by %s.", strings.Join(s.at.ID, " and "))})
		return s.describeColumns(ctx)
	}
	s.at.ID = s.proposal.ID
	switch {
	case len(s.at.ID) == 0:
		return s.withoutKey()
	case s.rule("customer.name") == "":
		return usage.Errorf("no column of %s holds names, and a customer needs one; choose another table with --table NAME",
			show.Visible(s.chosen.Name))
	}
	s.mapping = s.proposal.File(mappingCommands...)
	s.at.UpdatedAt = propose.Changed(s.table)
	return nil
}

// completeQuery removes the columns unused by the mapping from the query, and determines the types of the
// others.
func (s *sqlSetup) completeQuery(ctx context.Context) error {
	if !s.shipped {
		m, err := s.loaded()
		if err != nil {
			return fmt.Errorf("the proposed mapping is none: %w", err)
		}
		unused := m.NewCoverage().Report().UnusedFields
		needed := append(slices.Clone(s.at.ID), s.at.UpdatedAt)
		needed = append(needed, connector.Filter(s.table.Columns,
			func(column string) bool { return !slices.Contains(unused, column) })...)
		if s.query, err = sqltable.Select(ctx, s.at, s.chosen,
			func(column string) bool { return slices.Contains(needed, column) }); err != nil {
			return s.unread(ctx, err)
		}
		s.query = s.comment(needed) + s.query
		s.tookTable()
		if err := s.describeColumns(ctx); err != nil {
			return err
		}
	}
	s.named = s.at.ID
	if !s.at.Password.IsZero() {
		s.more = append(s.more, firstFile{passwordFile, []byte(s.at.Password.Expose() + "\n")})
	}
	s.more = append(s.more, firstFile{s.queryFile, []byte(s.query + "\n")})
	s.describe()
	return nil
}

// describeColumns asks the source for the columns of its query, for the mapping to fit.
func (s *sqlSetup) describeColumns(ctx context.Context) error {
	source, err := s.openSource()
	if err != nil {
		return err
	}
	if s.info, err = source.Describe(ctx); err != nil {
		return s.unread(ctx, err)
	}
	if err := s.fits(); err != nil {
		return fmt.Errorf("the mapping does not fit the columns of %s: %w; --table NAME looks at one table by itself",
			s.label, err)
	}
	return nil
}
