package main

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/configs"
	"payersync/connector/accounting/csvfile"
	"payersync/connector/office"
	"payersync/mapping/propose"
)

// mostQuestions is how many questions init asks of a file: what is left then is taken as it is
// proposed, except for the name.
const mostQuestions = 3

// csvSetup is a first set-up for a file that nobody has described, as it is being made.
type csvSetup struct {
	*app
	initFlags
	found    *csvfile.Findings
	proposal propose.Proposal
	reads    csvfile.Config // what the source is told
	mapping  []byte
	whom     askChoice
	shipped  bool // the mapping is one of ours, not the proposed one
	asked    int
}

// initialiseCSV makes a first set-up for a file: it looks at it, proposes, asks, writes, and
// shows what a first run would do.
func (a *app) initialiseCSV(ctx context.Context, f initFlags) error {
	s := &csvSetup{app: a, initFlags: f}
	if f.source != "" && f.preset() == "" {
		return usage.Errorf("--csv reads a file, and --source %s does not; leave one of them out, or write --source csv-xero or csv-sage", f.source)
	}
	if err := mayWrite(f.dir, s.names()); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{s.look, s.propose, s.complete, s.nameIt, s.settleAsking} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	s.showProposal()
	if err := s.write(f.dir, ""); err != nil {
		return err
	}
	trial, err := s.try(ctx)
	switch {
	case ctx.Err() != nil:
		s.Say("Interrupted. The set-up is in %s; payersync plan --config %s plans it.", f.dir, filepath.Join(f.dir, configFile))
		return exitError(exitInterrupted)
	case err != nil:
		return fmt.Errorf("the set-up is written, but a plan could not be tried: %w; see payersync plan --config %s", err, filepath.Join(f.dir, configFile))
	}
	return s.tell(trial)
}

// file is the export's path as it is shown.
func (s *csvSetup) file() string { return show.Visible(s.csv) }

// preset names the exporting system of --source; "" for none.
func (f initFlags) preset() string {
	switch f.source {
	case "csv-xero":
		return "xero"
	case "csv-sage":
		return "sage"
	}
	return ""
}

// look finds out how the file was written and shows what is in it.
func (s *csvSetup) look(ctx context.Context) error {
	found, err := csvfile.Sniff(ctx, s.csv)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return usage.Errorf("%s", shownLines(err.Error()))
	case len(found.Rows) == 0:
		return usage.Errorf("%s has headings in line %d and no row below them that can be used; export it with its customers", s.file(), found.Line)
	}
	s.found = found
	s.showFile()
	return nil
}

// isPart reports whether the file has more rows that can be used than were looked at.
func isPart(f *csvfile.Findings) bool { return f.Count > len(f.Rows)+f.Unfit }

// propose makes the proposal, with a person's answers where somebody can be asked.
func (s *csvSetup) propose(ctx context.Context) error {
	table := propose.Table{Columns: s.found.Columns, Rows: s.found.Rows, Part: isPart(s.found), Totals: s.found.Totals, Spoilt: csvfile.Spoilt}
	said := propose.Said{ID: s.id, Answers: map[string]int{}}
	for {
		s.proposal = propose.From(table, said)
		open := slices.IndexFunc(s.proposal.Questions, func(q propose.Question) bool { return !q.Said })
		if open < 0 || s.asked == mostQuestions || s.yes || s.Unasked() != "" || s.preset() != "" {
			return nil
		}
		q := s.proposal.Questions[open]
		answer, err := s.Chooses(ctx, q.Text, q.Options...)
		if err != nil {
			return err
		}
		s.asked++
		said.Answers[q.Topic] = answer
	}
}

// nameIt names the connection after the company.
func (s *csvSetup) nameIt(ctx context.Context) error {
	if s.name != "" {
		if name := propose.Slug(s.name); name != "" {
			s.name = name
			return nil
		}
		return usage.Errorf("--name %q has no letter to make a name of; write it in Latin letters", s.name)
	}
	company := propose.Slug(propose.Company(s.csv, s.found.Above))
	if company != "" {
		s.name = company
		return nil
	}
	why := s.Unasked()
	if s.yes {
		why = "--yes asks nothing"
	}
	if why != "" {
		return usage.Errorf("%s does not say whose customers it holds, the connection keeps their company's name for ever, and %s; add --name COMPANY", s.file(), why)
	}
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return err
	}
	s.name = cmp.Or(propose.Slug(filepath.Base(dir)), "customers")
	name, err := s.Fills(ctx, "\nWhose books are these? The name stays for ever.", s.name)
	s.name = cmp.Or(propose.Slug(name), s.name)
	return err
}

// complete finds out what the source must be told, and sees to it that source and mapping fit.
func (s *csvSetup) complete(ctx context.Context) (err error) {
	preset, id := s.preset(), s.proposal.ID
	if preset != "" {
		id = s.id
	} else if len(id) == 0 {
		return s.withoutID(ctx)
	}
	if s.reads, err = s.found.Config(ctx, preset, id...); err != nil {
		return usage.Errorf("%s", shownLines(err.Error()))
	}
	s.mapping = s.proposal.File()
	switch {
	case preset == "" && s.rule("customer.name") == "":
		return usage.Errorf("no column of %s holds names, and a customer needs one; export it with the names, or write Name above the column that holds them", s.file())
	case preset == "":
		return s.fits()
	}
	s.shipped = true
	if s.mapping, err = configs.FS.ReadFile(path.Join("mappings", s.source+".yaml")); err != nil {
		return fmt.Errorf("read the shipped mapping: %w", err)
	}
	if region := s.rule("region"); region != "" {
		s.mapping = regionLine.ReplaceAll(s.mapping, []byte("region: "+region+" "))
	}
	if err := s.fits(); err != nil {
		if lacks := lackingColumns(err); len(lacks) > 0 {
			return usage.Errorf("%s is no file as --source %s is for: it has no column %s. Its columns are %s. Leave --source out, and its columns are looked at",
				s.file(), s.source, strings.Join(lacks, ", "), show.Visible(strings.Join(s.found.Columns, ", ")))
		}
		return usage.Errorf("%s is no file as --source %s is for; leave --source out, and its columns are looked at:\n%w", s.file(), s.source, err)
	}
	return nil
}

var regionLine = regexp.MustCompile(`(?m)^region: [A-Z]{2} `)

// fits reports what keeps the mapping from being used with the file's columns.
func (s *csvSetup) fits() error {
	_, err := s.loaded()
	return err
}

// withoutID says why no column serves as id, and what to do.
func (s *csvSetup) withoutID(ctx context.Context) error {
	if len(s.id) > 0 {
		return usage.Errorf("--id %s: %s has no such column; its columns are %s", show.Visible(strings.Join(s.id, ",")), s.file(), show.Visible(strings.Join(s.found.Columns, ", ")))
	}
	var text strings.Builder
	fmt.Fprintf(&text, "no column of %s identifies a customer for ever, and without that nobody can be kept apart:\n", s.file())
	for _, r := range s.proposal.Refused[:min(5, len(s.proposal.Refused))] {
		fmt.Fprintf(&text, "  %s: %s\n", show.Visible(r.Column), r.Why)
	}
	if s.proposal.Recognised != nil {
		fmt.Fprintf(&text, "%s\n", show.Visible(s.proposal.Recognised.String()))
	}
	for _, note := range s.proposal.Notes {
		fmt.Fprintf(&text, "  %s\n", show.Visible(note))
	}
	text.WriteString("Export one row per customer, with the customer number of your books, or name a column (or several that do so together) with --id COLUMN[,COLUMN]")
	for _, preset := range []string{"xero", "sage"} {
		if _, err := s.found.Config(ctx, preset); err == nil {
			fmt.Fprintf(&text, ". It reads like an export of %s: --source csv-%[1]s", preset)
		}
	}
	return usage.Errorf("%s", text.String())
}

// rule returns what is proposed for a path; "" for nothing.
func (s *csvSetup) rule(path string) string {
	for _, r := range s.proposal.Rules {
		if r.Path == path {
			return r.Value
		}
	}
	return ""
}

// names are the files that are written.
func (s *csvSetup) names() []string {
	return []string{keyFile, configFile, productionFile, mappingFile, configSchemaFile, mappingSchemaFile}
}

// write writes the set-up into a folder; service is the address of a sandbox that it is for,
// "" for the usual one.
func (s *csvSetup) write(dir, service string) error {
	source, err := s.block(dir)
	if err != nil {
		return err
	}
	shipped, err := setupFiles(setup{source: source, mapping: s.mapping, name: s.name, service: service})
	if err != nil {
		return err
	}
	return writeSetup(dir, shipped)
}

// block is what payersync.yaml says of the source. The file is named where it is: from a
// folder that holds it by the way from there, else by its whole path.
func (s *csvSetup) block(dir string) (string, error) {
	file, err := filepath.Abs(s.csv)
	if err != nil {
		return "", err
	}
	from, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if way, err := filepath.Rel(from, file); err == nil && filepath.IsLocal(way) {
		file = way
	}
	keys := []string{"kind: csv", fmt.Sprintf("path: %q", file)}
	c := s.reads
	if len(c.ID) > 0 {
		var ids []string
		for _, id := range c.ID {
			ids = append(ids, fmt.Sprintf("%q", id))
		}
		keys = append(keys, "id: ["+strings.Join(ids, ", ")+"]")
	}
	for _, k := range []struct{ key, value string }{{"preset", c.Preset}, {"encoding", c.Encoding}, {"delimiter", c.Delimiter}} {
		if k.value != "" {
			keys = append(keys, fmt.Sprintf("%s: %q", k.key, k.value))
		}
	}
	return fmt.Sprintf("{%s} # found: %s", strings.Join(keys, ", "), s.written()), nil
}

// written says how the file was written.
func (s *csvSetup) written() string {
	signs := map[rune]string{',': "commas", ';': "semicolons", '\t': "tabs", '|': "bars"}
	names := map[string]string{"utf-8": "UTF-8", "utf-16le": "UTF-16", "utf-16be": "UTF-16", "windows-1252": "Windows-1252", "iso-8859-15": "ISO-8859-15", "macintosh": "Macintosh", "cp850": "DOS code page 850", "cp437": "DOS code page 437", "utf-8-twice": "UTF-8 encoded twice"}
	return fmt.Sprintf("%s, %s, headings in line %d", names[s.found.Encoding], signs[s.found.Delimiter], s.found.Line)
}

// samples returns the first different values of a column, of bank details none.
func (s *csvSetup) samples(at int) (values []string, filled int) {
	secret := office.IsBankField(s.found.Columns[at]) || propose.Bank(s.found.Columns[at])
	for _, row := range s.found.Rows {
		cell := strings.TrimSpace(row[at])
		if cell == "" {
			continue
		}
		filled++
		if len(values) < 3 && !slices.Contains(values, cell) {
			values = append(values, cell)
		}
		secret = secret || propose.IsIBAN(cell)
	}
	if secret && filled > 0 {
		values = []string{office.NotShown}
	}
	return values, filled
}

// short cuts a value for a table.
func short(value string) string {
	const most = 24
	value = show.Visible(strings.Join(strings.Fields(value), " "))
	if utf8.RuneCountInString(value) > most {
		value = string([]rune(value)[:most-1]) + "…"
	}
	return value
}
