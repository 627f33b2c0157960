package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/accounting/csvfile"
	"payersync/mapping/propose"
)

// dataReport is the output of `init --csv --output json`, and of `init --source sql`.
type dataReport struct {
	Folder   string           `json:"folder"`
	Files    []string         `json:"files"`
	Name     string           `json:"name"`
	File     *fileReport      `json:"file,omitempty"`
	Database *databaseReport  `json:"database,omitempty"`
	Proposal propose.Proposal `json:"proposal"`
	Asked    string           `json:"asked"` // the payers asked for a mandate
	Plan     trial            `json:"plan"`
	Assumed  []assumption     `json:"assumed"`  // assumptions
	OddRows  []oddRow         `json:"odd_rows"` // ten at most
}

type fileReport struct {
	Path      string         `json:"path"`
	Encoding  string         `json:"encoding"`
	Delimiter string         `json:"delimiter"`
	Above     []string       `json:"above"` // the lines above the headings
	Headings  int            `json:"headings_line"`
	Rows      int            `json:"rows"`
	Looked    int            `json:"looked_at"` // rows used for the proposal
	Unfit     []string       `json:"unfit"`     // why rows cannot be used, ten at most
	Totals    []int          `json:"totals"`    // probable lines of totals at the end
	Columns   []columnReport `json:"columns"`
}

type columnReport struct {
	Name   string   `json:"name"`
	Filled int      `json:"filled"`
	Values []string `json:"values"`
}

func (s *dataSetup) report(t trial) dataReport {
	r := s.about
	r.Folder, r.Files, r.Name, r.Proposal, r.Asked, r.Plan, r.Assumed, r.OddRows = s.dir, s.names(), s.name, s.proposal,
		s.whom.sentence, t, s.assumed(), s.oddRows()
	slices.Sort(r.Files)
	return r
}

func (s *dataSetup) columnReports() (out []columnReport) {
	for i, name := range s.table.Columns {
		values, filled := s.samples(i)
		out = append(out, columnReport{name, filled, values})
	}
	return out
}

func (s *csvSetup) fileReport() *fileReport {
	f := s.found
	return &fileReport{
		Path: s.csv, Encoding: f.Encoding, Delimiter: string(f.Delimiter), Above: f.Above, Headings: f.Line,
		Rows: f.Count, Looked: len(f.Rows), Unfit: f.Bad, Totals: f.Footer, Columns: s.columnReports(),
	}
}

// showFile shows the columns with some values, and the oddities of the file.
func (s *csvSetup) showFile() {
	if s.JSON() {
		return
	}
	f := s.found
	s.Hanging("", fmt.Sprintf("%s: %s, %s, %s", filepath.Base(s.file()), s.written(), connector.Plural(f.Count, "row"),
		connector.Plural(len(f.Columns), "column")))
	s.showColumns()
	s.showOdd(f)
}

// showColumns shows the columns with some values.
func (s *dataSetup) showColumns() {
	fmt.Fprintln(s.Out)
	var rows [][]string
	var empty []string
	for i, name := range s.table.Columns {
		values, filled := s.samples(i)
		if filled == 0 {
			empty = append(empty, name)
			continue
		}
		for i := range values {
			values[i] = short(values[i])
		}
		rows = append(rows, []string{name, percent(filled, len(s.table.Rows)), strings.Join(values, " · ")})
	}
	show.Table(s.Out, []string{"Column", "Filled", "Values"}, rows)
	if len(empty) > 0 {
		s.Hanging("- ", "Empty: "+few(empty, len(empty)))
	}
}

// showOdd lists the oddities of the file.
func (s *csvSetup) showOdd(f *csvfile.Findings) {
	var odd []string
	if len(f.Above) > 0 {
		odd = append(odd, fmt.Sprintf("Above the headings: %s", strings.Join(f.Above, " / ")))
	}
	if len(f.Repeated) > 0 {
		odd = append(odd, fmt.Sprintf("The heading %s stands more than once: the second is called “%s (2)”.",
			strings.Join(f.Repeated, ", "), f.Repeated[0]))
	}
	if f.Doubtful != "" {
		odd = append(odd, fmt.Sprintf("Letters that look wrong: %s. If the values above do, too, save the file as CSV UTF-8 and begin again.", f.Doubtful))
	}
	if isPart(f) {
		odd = append(odd, fmt.Sprintf("The proposal goes by the first %s.", connector.Plural(len(f.Rows), "row")))
	}
	if f.Unfit > 0 {
		odd = append(odd, fmt.Sprintf("%s cannot be used and would wait, for example: %s", connector.Plural(f.Unfit, "row"),
			f.Bad[0]))
	}
	if len(f.Footer) > 0 {
		odd = append(odd, fmt.Sprintf("The end looks like totals, from line %d on: no customer is made of it.", f.Footer[0]))
	}
	if f.Stray != "" {
		odd = append(odd, fmt.Sprintf("It makes no sense to its end: %s. Correct that line before a first run.", f.Stray))
	}
	for _, text := range odd {
		s.Hanging("- ", show.Visible(text))
	}
}

// showProposal shows the rules with their reasons, and the unasked questions.
func (s *dataSetup) showProposal() {
	for _, q := range s.proposal.Questions {
		if !q.Said && !s.shipped {
			s.Print("Not asked: %s Taken: %s.", show.Visible(q.Text), show.Visible(q.Options[q.Taken]))
		}
	}
	if s.JSON() {
		return
	}
	fmt.Fprintf(s.Out, "\nProposed for %s\n", s.name)
	if s.proposal.Recognised != nil && !s.shipped {
		s.Hanging("  ", show.Visible(s.proposal.Recognised.String()))
	}
	if s.shipped {
		s.Hanging("  ", fmt.Sprintf("the mapping for --source %s, with the phone numbers of %s", s.source, s.rule("region")))
		return
	}
	for _, r := range s.proposal.Rules {
		s.Hanging("  ", show.Visible(r.Path+": "+r.Value))
		s.Hanging("      ", show.Visible(r.Why))
	}
	for _, n := range s.proposal.Refused {
		s.Hanging("- ", show.Visible(fmt.Sprintf("%s is no id: %s.", n.Column, n.Why)))
	}
	for _, n := range s.proposal.Notes {
		s.Hanging("- ", show.Visible(n))
	}
	var left []string
	for _, l := range s.proposal.Left {
		if !s.empty(l.Column) {
			left = append(left, l.Column)
		}
	}
	if len(left) > 0 {
		s.Hanging("- ", "Nothing is made of "+few(left, len(left))+"; mapping.yaml says why.")
	}
}

// empty reports whether a column holds nothing.
func (s *dataSetup) empty(column string) bool {
	_, filled := s.samples(slices.Index(s.table.Columns, column))
	return filled == 0
}

// printTrial shows the effect of a first run, and the next step.
func (s *dataSetup) printTrial(t trial) error {
	if s.JSON() {
		return show.JSON(s.Out, s.report(t))
	}
	of := "it"
	if t.All != nil {
		of = fmt.Sprintf("its first %s", connector.Plural(t.Rows, "row"))
	}
	fmt.Fprintf(s.Out, "\nA plan of %s, tried on a model of the billing service on this machine\n", of)
	s.Hanging("  ", fmt.Sprintf("%s would be created, %d of them asked for a mandate; %s excluded, %d on hold",
		connector.Plural(t.Creates, "customer"), t.Links, connector.Plural(t.Excluded, "row"), t.Held))
	if t.All != nil {
		s.Hanging("  ", fmt.Sprintf("All %s, without a plan: %s, %d of them to be asked for a mandate; %d excluded, %d on hold",
			connector.Plural(max(s.count, t.All.Customers+t.All.LeftOut+t.All.Held), "row"),
			connector.Plural(t.All.Customers, "customer"), t.All.Asked, t.All.LeftOut, t.All.Held))
	}
	if t.Alike > 0 {
		s.Hanging("  ", fmt.Sprintf("%d of them look like another customer of the %s", t.Alike, s.what))
	}
	for _, h := range t.Reasons {
		s.Hanging(fmt.Sprintf("  %4d on hold  ", h.Records), show.Visible(h.Sentence))
		s.Hanging("                ", "such as: "+show.Visible(h.Example))
	}
	if t.Note != "" {
		s.Hanging("  ", show.Visible(t.Note))
	}
	if len(t.First) > 0 {
		fmt.Fprintln(s.Out, "  The first of them:")
		for _, f := range t.First {
			s.Hanging("    ", show.Visible(f.Path+": "+f.To))
		}
	}
	s.showEnd()
	names := s.names()
	slices.Sort(names)
	fmt.Fprintln(s.Out)
	s.Hanging("", fmt.Sprintf("Wrote %s into %s", strings.Join(names, ", "), folder(s.dir)))
	s.printWhom(s.whom)
	s.Hanging("", "Keep payersync.key safe: without it the ledger cannot be read. Next:")
	fmt.Fprintf(s.Out, "  payersync sandbox       in another terminal: the model, to try a run on\n")
	fmt.Fprintf(s.Out, "  payersync backfill --config %s\n", filepath.Join(s.dir, configFile))
	fmt.Fprintf(s.Out, "For your billing service: two lines of %s are yours to fill in.\n", productionFile)
	return nil
}
