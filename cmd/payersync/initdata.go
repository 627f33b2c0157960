package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"payersync/cmd/payersync/internal/show"
	"payersync/cmd/payersync/internal/usage"
	"payersync/connector"
	"payersync/connector/accounting"
	"payersync/connector/admin"
	"payersync/mapping/propose"
)

// dataSetup is a first set-up for somebody's own data, as it is being made: of a file, or of a
// table of a database.
type dataSetup struct {
	*app
	initFlags
	what    string // file or database
	label   string // which, as messages name it
	company string // whose data it is; "" where nothing says so

	table    propose.Table
	info     connector.SourceInfo // the source's description of the columns
	row      func(i int) string   // a person's reference to a row of the table
	count    int                  // the number of rows, as far as counted
	proposal propose.Proposal
	mapping  []byte
	whom     askChoice
	shipped  bool // the mapping is one of ours, not the proposed one
	asked    int

	block  func(dir string) (string, error)     // the source's block in payersync.yaml
	part   func(dir string) (*dataSetup, error) // the set-up for its first rows, or itself if there are few
	opened func() (accounting.Source, error)
	more   []firstFile  // files beside the usual ones
	took   []assumption // assumptions about the source
	about  dataReport   // File or Database
}

// finish writes the set-up, and shows the effect of a first run.
func (s *dataSetup) finish(ctx context.Context) error {
	s.showProposal()
	if err := s.write(s.dir, ""); err != nil {
		return err
	}
	trial, err := s.try(ctx)
	switch {
	case ctx.Err() != nil:
		s.Print("Interrupted. The set-up is in %s; payersync plan --config %s plans it.", s.dir,
			filepath.Join(s.dir, configFile))
		return exitError(exitInterrupted)
	case err != nil:
		return fmt.Errorf("the set-up is written, but a plan could not be tried: %w; see payersync plan --config %s", err,
			filepath.Join(s.dir, configFile))
	}
	return s.printTrial(trial)
}

// propose makes the proposal, with a person's answers if somebody can be asked.
func (s *dataSetup) propose(ctx context.Context) error {
	said := propose.Said{ID: s.id, Answers: map[string]int{}}
	for {
		s.proposal = propose.From(s.table, said)
		open := slices.IndexFunc(s.proposal.Questions, func(q propose.Question) bool { return !q.Said })
		if open < 0 || s.asked == mostQuestions || s.yes || s.Unasked() != "" || s.shipped {
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
func (s *dataSetup) nameIt(ctx context.Context) error {
	if s.name != "" {
		if name := propose.Slug(s.name); name != "" {
			s.name = name
			return nil
		}
		return usage.Errorf("--name %q has no letter to make a name of; write it in Latin letters", s.name)
	}
	if company := propose.Slug(s.company); company != "" {
		s.name = company
		return nil
	}
	why := s.Unasked()
	if s.yes {
		why = "--yes asks nothing"
	}
	if why != "" {
		return usage.Errorf("%s does not name the company of its customers, the connection keeps that name for ever, and %s; add --name COMPANY", s.label, why)
	}
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return err
	}
	s.name = cmp.Or(propose.Slug(filepath.Base(dir)), "customers")
	name, err := s.Fills(ctx,
		"\nWhich company's customers are these? The name cannot be changed later. Enter takes the name of the folder.",
		s.name)
	s.name = cmp.Or(propose.Slug(name), s.name)
	return err
}

// fits returns why the mapping does not fit the existing columns.
func (s *dataSetup) fits() error {
	_, err := s.loaded()
	return err
}

// rule returns the proposal for a path; "" for none.
func (s *dataSetup) rule(path string) string {
	r, _ := connector.Find(s.proposal.Rules, func(r propose.Rule) bool { return r.Path == path })
	return r.Value
}

// names are the files to be written.
func (s *dataSetup) names() []string {
	names := []string{keyFile, configFile, productionFile, mappingFile, configSchemaFile, mappingSchemaFile}
	names = append(names, connector.Map(s.more, func(f firstFile) string { return f.name })...)
	return names
}

// write writes the set-up into a folder; service is the address of its sandbox, "" for the usual one.
func (s *dataSetup) write(dir, service string) error {
	source, err := s.block(dir)
	if err != nil {
		return err
	}
	shipped, err := setupFiles(setup{source: source, mapping: s.mapping, name: s.name, service: service})
	if err != nil {
		return err
	}
	return writeSetup(dir, append(shipped, s.more...))
}

// samples returns the first different values of a column, of bank details none.
func (s *dataSetup) samples(at int) (values []string, filled int) {
	secret := admin.IsBankField(s.table.Columns[at]) || propose.Bank(s.table.Columns[at])
	for _, row := range s.table.Rows {
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
		values = []string{admin.NotShown}
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
