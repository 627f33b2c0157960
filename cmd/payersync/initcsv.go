package main

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/configs"
	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/accounting/csvfile"
	"payersync/mapping/propose"
)

// mostQuestions is how many questions init asks of a file: what is left then is taken as it is
// proposed, except for the name.
const mostQuestions = 3

// mappingCommands are the commands in the head of a proposed mapping file.
var mappingCommands = []string{
	"payersync mapping check      is the file right?",
	"payersync mapping fields     which columns and functions are there?",
	"payersync plan               what would be done? nothing is sent",
}

// csvSetup is a first set-up for an unknown file, under construction.
type csvSetup struct {
	dataSetup
	found *csvfile.Findings
	reads csvfile.Config // the source's configuration
}

// initialiseCSV makes a first set-up for a file: it looks at it, proposes, asks, writes, and shows the effect
// of a first run.
func (a *app) initialiseCSV(ctx context.Context, f initFlags) error {
	s := &csvSetup{dataSetup: dataSetup{app: a, initFlags: f, what: "file", shipped: f.csvPreset() != ""}}
	s.label, s.block, s.part = s.file(), s.sourceBlock, s.firstRows
	s.opened = func() (accounting.Source, error) { return csvfile.New(s.reads) }
	s.row = func(i int) string { return fmt.Sprintf("line %d", s.found.Lines[i]) }
	if f.source != "" && f.csvPreset() == "" {
		return usage.Errorf("--csv reads a file, and --source %s does not; leave one of them out, or write --source csv-xero or csv-sage", f.source)
	}
	if err := mayWrite(f.dir, s.names()); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{s.inspect, s.propose, s.complete, s.nameIt, s.settleAsking} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return s.finish(ctx)
}

// file is the export's path as it is shown.
func (s *csvSetup) file() string { return show.Visible(s.csv) }

// csvPreset names the exporting system of --source; "" for none.
func (f initFlags) csvPreset() string {
	switch f.source {
	case "csv-xero":
		return "xero"
	case "csv-sage":
		return "sage"
	}
	return ""
}

// inspect detects the file's format and shows its content.
func (s *csvSetup) inspect(ctx context.Context) error {
	found, err := csvfile.Sniff(ctx, s.csv)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return usage.Errorf("%s", shownLines(err.Error()))
	case len(found.Rows) == 0:
		return usage.Errorf("%s has headings in line %d and no usable row below them; export it with its customers", s.file(),
			found.Line)
	}
	s.found, s.count, s.company = found, found.Count, propose.Company(s.csv, found.Above)
	s.table = propose.Table{Columns: found.Columns, Rows: found.Rows, Part: isPart(found), Totals: found.Totals,
		Spoilt: csvfile.Spoilt}
	s.info = connector.SourceInfo{Kind: "csv"}
	for _, name := range found.Columns {
		s.info.Fields = append(s.info.Fields, connector.Field{Name: name, Type: connector.TypeText})
	}
	s.about.File = s.fileReport()
	s.showFile()
	return nil
}

// isPart reports whether the file has more usable rows than the sample.
func isPart(f *csvfile.Findings) bool { return f.Count > len(f.Rows)+f.Unfit }

// complete determines the source's settings, and makes source and mapping fit.
func (s *csvSetup) complete(ctx context.Context) (err error) {
	preset, id := s.csvPreset(), s.proposal.ID
	if preset != "" {
		id = s.id
	} else if len(id) == 0 {
		return s.withoutID(ctx)
	}
	if s.reads, err = s.found.Config(ctx, preset, id...); err != nil {
		return usage.Errorf("%s", shownLines(err.Error()))
	}
	s.mapping = s.proposal.File(mappingCommands...)
	switch {
	case preset == "" && s.rule("customer.name") == "":
		return usage.Errorf("no column of %s contains names, and a customer needs one; export the file with names, or write Name above their column", s.file())
	case preset == "":
		return s.fits()
	}
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
		return usage.Errorf("%s is no file as --source %s is for; leave --source out, and its columns are looked at:\n%w",
			s.file(), s.source, err)
	}
	return nil
}

var regionLine = regexp.MustCompile(`(?m)^region: [A-Z]{2} `)

// withoutID says why no column serves as id, and what to do.
func (s *csvSetup) withoutID(ctx context.Context) error {
	if len(s.id) > 0 {
		return usage.Errorf("--id %s: %s has no such column; its columns are %s", show.Visible(strings.Join(s.id, ",")),
			s.file(), show.Visible(strings.Join(s.found.Columns, ", ")))
	}
	var text strings.Builder
	fmt.Fprintf(&text, "no column of %s identifies a customer for ever, and payersync cannot tell customers apart without one:\n", s.file())
	for _, r := range s.proposal.Refused[:min(5, len(s.proposal.Refused))] {
		fmt.Fprintf(&text, "  %s: %s\n", show.Visible(r.Column), r.Why)
	}
	if s.proposal.Recognised != nil {
		fmt.Fprintf(&text, "%s\n", show.Visible(s.proposal.Recognised.String()))
	}
	for _, note := range s.proposal.Notes {
		fmt.Fprintf(&text, "  %s\n", show.Visible(note))
	}
	text.WriteString("Export one row per customer, with its number in your accounting system. Or name the identifying column (or several together) with --id COLUMN[,COLUMN]")
	for _, preset := range []string{"xero", "sage"} {
		if _, err := s.found.Config(ctx, preset); err == nil {
			fmt.Fprintf(&text, ". It reads like an export of %s: --source csv-%[1]s", preset)
		}
	}
	return usage.Errorf("%s", text.String())
}

// sourceBlock is the source's block in payersync.yaml.
func (s *csvSetup) sourceBlock(dir string) (string, error) {
	file, err := pathFrom(dir, s.csv)
	if err != nil {
		return "", err
	}
	keys := []string{"kind: csv", fmt.Sprintf("path: %q", file)}
	c := s.reads
	if len(c.ID) > 0 {
		ids := connector.Map(c.ID, func(id string) string { return fmt.Sprintf("%q", id) })
		keys = append(keys, "id: ["+strings.Join(ids, ", ")+"]")
	}
	for _, k := range []struct{ key, value string }{{"preset", c.Preset}, {"encoding", c.Encoding},
		{"delimiter", c.Delimiter}} {
		if k.value != "" {
			keys = append(keys, fmt.Sprintf("%s: %q", k.key, k.value))
		}
	}
	return fmt.Sprintf("{%s} # found: %s", strings.Join(keys, ", "), s.written()), nil
}

// pathFrom names a file for a configuration in a folder: by a relative path if the folder contains it, else
// by its absolute path.
func pathFrom(dir, file string) (string, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	from, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if way, err := filepath.Rel(from, file); err == nil && filepath.IsLocal(way) {
		return way, nil
	}
	return file, nil
}

// written says how the file was written.
func (s *csvSetup) written() string {
	signs := map[rune]string{',': "commas", ';': "semicolons", '\t': "tabs", '|': "bars"}
	names := map[string]string{"utf-8": "UTF-8", "utf-16le": "UTF-16", "utf-16be": "UTF-16",
		"windows-1252": "Windows-1252", "iso-8859-15": "ISO-8859-15", "macintosh": "Macintosh", "cp850": "DOS code page 850",
		"cp437": "DOS code page 437", "utf-8-twice": "UTF-8 encoded twice"}
	return fmt.Sprintf("%s, %s, headings in line %d", names[s.found.Encoding], signs[s.found.Delimiter], s.found.Line)
}
