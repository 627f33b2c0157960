package match

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"payersync/connector"
	"payersync/connector/safecsv"
)

// Decision is a person's entry beside a pair.
type Decision string

// The decisions. A row without one is left for another day.
const (
	Undecided Decision = ""
	Accept    Decision = "accept"
	Reject    Decision = "reject"
	New       Decision = "new" // the record is a new payer: no customer, listed or not, is the same
)

// Row is one pair of a review list, as the CSV file has it.
type Row struct {
	Record, Customer string // ids
	Decision         Decision
	Score            int
	Reasons          string
	Ours, Theirs     Side
}

// Rows returns the proposed pairs as rows without a decision, best first. With runnersUp the other free
// customers of a record follow its proposal, so a person can accept one of them instead. Taken customers are
// omitted, unless the record would have no row for a person to call it new.
func Rows(suggestions []Suggestion, runnersUp bool) []Row {
	var out []Row
	for _, s := range suggestions {
		before := len(out)
		if s.Best != nil {
			out = append(out, rowOf(*s.Best))
		}
		for _, p := range s.Others {
			if runnersUp && p.Taken == "" {
				out = append(out, rowOf(p))
			}
		}
		if runnersUp && len(out) == before && len(s.Others) > 0 {
			out = append(out, rowOf(s.Others[0]))
		}
	}
	return out
}

func rowOf(p Pair) Row {
	row := Row{Record: p.Record, Customer: p.Customer, Score: p.Score, Reasons: p.Why()}
	if p.Ours != nil {
		row.Ours, row.Theirs = *p.Ours, *p.Theirs
	}
	return row
}

// column is one column of the file. The reader needs only some of them; people read the others.
type column struct {
	name   string
	needed bool
	get    func(*Row) string
	set    func(*Row, string) error
}

// columns are all of them, in their order. Their names are part of the interface.
var columns = []column{
	text("record_id", true, func(r *Row) *string { return &r.Record }),
	text("customer_id", true, func(r *Row) *string { return &r.Customer }),
	{"decision", true, func(r *Row) string { return string(r.Decision) }, setDecision},
	{"score", false, func(r *Row) string { return strconv.Itoa(r.Score) }, setScore},
	text("reasons", false, func(r *Row) *string { return &r.Reasons }),
	text("record_name", false, func(r *Row) *string { return &r.Ours.Name }),
	text("customer_name", false, func(r *Row) *string { return &r.Theirs.Name }),
	text("record_email", false, func(r *Row) *string { return &r.Ours.Email }),
	text("customer_email", false, func(r *Row) *string { return &r.Theirs.Email }),
	text("record_phone", false, func(r *Row) *string { return &r.Ours.Phone }),
	text("customer_phone", false, func(r *Row) *string { return &r.Theirs.Phone }),
	text("record_postcode", false, func(r *Row) *string { return &r.Ours.Postcode }),
	text("customer_postcode", false, func(r *Row) *string { return &r.Theirs.Postcode }),
	text("record_city", false, func(r *Row) *string { return &r.Ours.City }),
	text("customer_city", false, func(r *Row) *string { return &r.Theirs.City }),
	text("record_company_number", false, func(r *Row) *string { return &r.Ours.Number }),
	text("customer_company_number", false, func(r *Row) *string { return &r.Theirs.Number }),
	{"check", true, func(r *Row) string { return check(r.Record, r.Customer) }, nil}, // read by readRow
}

func text(name string, needed bool, at func(*Row) *string) column {
	return column{name, needed, func(r *Row) string { return *at(r) },
		func(r *Row, s string) error { *at(r) = s; return nil }}
}

func setDecision(r *Row, s string) error {
	switch d := Decision(strings.ToLower(strings.TrimSpace(s))); d {
	case Undecided, Accept, Reject, New:
		r.Decision = d
		return nil
	}
	return fmt.Errorf("%s is no decision; write accept, reject, new or nothing", quoted(s))
}

func setScore(r *Row, s string) error {
	if s = strings.TrimSpace(s); s == "" {
		return nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 100 {
		return fmt.Errorf("%s is no score from 0 to 100", quoted(s))
	}
	r.Score = n
	return nil
}

// quoted shows the beginning of a typed text.
func quoted(s string) string {
	if short := []rune(s); len(short) > 40 {
		s = string(short[:40]) + "…"
	}
	return strconv.Quote(s)
}

// check is a word computed from two ids. It reveals an id altered by a person or a spreadsheet. It has
// letters alone, so no spreadsheet takes it for a number.
func check(record, customer string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%d:%s", len(record), record, len(customer), customer))
	var b strings.Builder
	for _, c := range sum[:4] {
		b.WriteByte('a' + c>>4)
		b.WriteByte('a' + c&15)
	}
	return b.String()
}

var safeNumber = regexp.MustCompile(`^(0|[1-9][0-9]{0,14})$`)

// guarded returns a cell with a guard before a text that a spreadsheet would change: a formula, a number or a
// date, such as 00123, 1E5, +49 30 1234. A text with the guard at its beginning gets a second one, so each
// comes back as it was.
func guarded(s string) string {
	if safecsv.IsFormula(s) || strings.HasPrefix(s, safecsv.Guard) || s != "" &&
		strings.ContainsRune(".,0123456789", rune(s[0])) && !safeNumber.MatchString(s) {
		return safecsv.Guard + s
	}
	return s
}

func unguarded(s string) string { return strings.TrimPrefix(s, safecsv.Guard) }

// WriteCSV writes a review list in UTF-8 with CRLF and a header row. The comma is ',' or ';'. With ';' a byte
// order mark comes first: spreadsheets of countries with a decimal comma open this form directly.
func WriteCSV(w io.Writer, rows []Row, comma rune) error {
	if comma != ',' && comma != ';' {
		return fmt.Errorf("write the review list: the comma is , or ; and not %q", comma)
	}
	if comma == ';' {
		if _, err := io.WriteString(w, bom); err != nil {
			return fmt.Errorf("write the review list: %w", err)
		}
	}
	out := csv.NewWriter(w)
	out.Comma, out.UseCRLF = comma, true
	cells := connector.Map(columns, func(c column) string { return c.name })
	_ = out.Write(cells) // Error tells below
	for _, row := range rows {
		if err := row.writable(); err != nil {
			return fmt.Errorf("write the review list: %w", err)
		}
		cells = cells[:0]
		for _, c := range columns {
			s := c.get(&row)
			if c.name != "record_id" && c.name != "customer_id" {
				s = shown(s)
			}
			cells = append(cells, guarded(safecsv.Text(s)))
		}
		_ = out.Write(cells)
	}
	out.Flush()
	return connector.Wrap(out.Error(), "write the review list")
}

// writable reports ids that would come back changed.
func (r Row) writable() error {
	for _, id := range []string{r.Record, r.Customer} {
		if id == "" || !utf8.ValidString(id) || safecsv.Text(id) != id {
			return fmt.Errorf("the id %s cannot stand in a CSV file", quoted(id))
		}
	}
	return nil
}

// MaxCSV is how many bytes of a file are read: a list of 100,000 pairs is half of it.
const MaxCSV = 64 << 20

const bom = "\uFEFF"

// Problem is one mistake in a file.
type Problem struct {
	Line   int    // in the file, from 1 on
	Column string // as the header has it; "" when it is none of them
	Text   string // the mistake, and the next step
}

// String returns the problem in one line.
func (p Problem) String() string {
	if p.Column == "" {
		return fmt.Sprintf("line %d: %s", p.Line, p.Text)
	}
	return fmt.Sprintf("line %d, column %s: %s", p.Line, p.Column, p.Text)
}

// CSVError holds all mistakes of a file, in its order.
type CSVError []Problem

// Error returns all problems, one a line.
func (e CSVError) Error() string {
	lines := connector.Map(e, Problem.String)
	return strings.Join(lines, "\n")
}

// Sheet is a review list read from a file.
type Sheet struct {
	Rows  []Row // in their order, those without a decision too
	Lines []int // the line of each row

	header []*column
}

// Differing returns the columns with outdated values: the row differs from the present record or customer.
func (s Sheet) Differing(row int, ours, theirs Side) (names []string) {
	was, now := s.Rows[row], Row{Ours: ours, Theirs: theirs}
	for _, c := range s.header {
		if c != nil && c.ofSide() &&
			strings.TrimSpace(safecsv.Text(c.get(&was))) != strings.TrimSpace(safecsv.Text(c.get(&now))) {
			names = append(names, c.name)
		}
	}
	return names
}

// ofSide reports whether the column shows the record or the customer, and does not name them.
func (c *column) ofSide() bool {
	return !c.needed && c.name != "score" && c.name != "reasons"
}

// ReadCSV reads a review list, written by WriteCSV and filled in by people. It accepts commas and semicolons,
// a byte order mark, CRLF, additional columns, and columns in another order. If anything is wrong it returns
// no rows, and a CSVError with all mistakes.
func ReadCSV(r io.Reader) (Sheet, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxCSV+1))
	if err != nil {
		return Sheet{}, fmt.Errorf("read the review list: %w", err)
	}
	f := &file{pairs: map[[2]string]int{}, records: map[string]int{}, customers: map[string]int{}, fresh: map[string]int{}}
	if len(data) > MaxCSV {
		f.wrong(1, "", fmt.Sprintf("the file has more than %d MiB", MaxCSV>>20))
		return Sheet{}, f.problems
	}
	f.read(data)
	if f.problems != nil {
		return Sheet{}, f.problems
	}
	return Sheet{f.rows, f.lines, f.header}, nil
}

// file is a file being read. The maps hold the line of each pair, and the lines of each accepted record and
// customer.
type file struct {
	in                 *csv.Reader
	header             []*column // by position; nil for an unknown column
	names              []string
	rows               []Row
	lines              []int // of the rows
	pairs              map[[2]string]int
	records, customers map[string]int // accepted ones
	fresh              map[string]int // new records
	problems           CSVError
}

func (f *file) wrong(line int, column, text string) {
	f.problems = append(f.problems, Problem{line, column, text})
}

// separator matches the line that gives a spreadsheet the file's comma.
var separator = regexp.MustCompile(`^"?sep=.?"?\r?$`)

func (f *file) read(data []byte) {
	if bytes.HasPrefix(data, []byte{0xFF, 0xFE}) || bytes.HasPrefix(data, []byte{0xFE, 0xFF}) ||
		bytes.IndexByte(data, 0) >= 0 {
		f.wrong(1, "", "the file is not UTF-8; save it as \"CSV UTF-8\"")
		return
	}
	data = bytes.TrimPrefix(data, []byte(bom))
	if first, _, _ := bytes.Cut(data, []byte("\n")); separator.Match(first) {
		data = data[len(first):] // an empty line remains, to keep the count of lines
	}
	if !f.findHeader(data) {
		return
	}
	for {
		cells, err := f.in.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			f.broken(err)
			return
		}
		f.readRow(cells)
	}
}

// broken reports a file with unreadable structure from some place on.
func (f *file) broken(err error) {
	var parse *csv.ParseError
	if !errors.As(err, &parse) {
		f.wrong(1, "", err.Error())
		return
	}
	f.wrong(parse.Line, "", fmt.Sprintf("the quotes are wrong at character %d; nothing behind it could be read",
		parse.Column))
}

// findHeader reads the header row, and finds the fitting comma.
func (f *file) findHeader(data []byte) bool {
	for _, comma := range []rune{',', ';'} {
		f.in = csv.NewReader(bytes.NewReader(data))
		f.in.Comma, f.in.FieldsPerRecord = comma, -1
		cells, err := f.in.Read()
		if err != nil {
			continue
		}
		for i, s := range cells {
			cells[i] = strings.ToLower(strings.TrimSpace(unguarded(s)))
		}
		if slices.Contains(cells, columns[0].name) || slices.Contains(cells, columns[1].name) {
			return f.setHeader(cells)
		}
	}
	f.wrong(1, "", "there is no header row with record_id, customer_id, decision and check between commas or semicolons")
	return false
}

func (f *file) setHeader(cells []string) bool {
	f.names = slices.Clone(cells)
	line, _ := f.in.FieldPos(0)
	for _, name := range cells {
		var known *column
		if i := slices.IndexFunc(columns, func(c column) bool { return c.name == name }); i >= 0 {
			known = &columns[i]
			if slices.Contains(f.header, known) {
				f.wrong(line, name, "the column is there twice")
			}
		}
		f.header = append(f.header, known)
	}
	for i := range columns {
		if c := &columns[i]; c.needed && !slices.Contains(f.header, c) {
			f.wrong(line, c.name, "the column is missing")
		}
	}
	return f.problems == nil
}

func (f *file) readRow(cells []string) {
	if !slices.ContainsFunc(cells, func(s string) bool { return strings.TrimSpace(s) != "" }) {
		return // a spreadsheet leaves rows of commas
	}
	line, _ := f.in.FieldPos(0)
	for len(cells) > len(f.header) && cells[len(cells)-1] == "" {
		cells = cells[:len(cells)-1]
	}
	if len(cells) != len(f.header) {
		f.wrong(line, "", fmt.Sprintf("the row has %d columns, and the header has %d", len(cells), len(f.header)))
		return
	}
	before := len(f.problems)
	var row Row
	var proof string
	for i, c := range f.header {
		at, _ := f.in.FieldPos(i)
		s := unguarded(cells[i])
		switch {
		case !utf8.ValidString(s):
			f.wrong(at, f.names[i], "the text is not UTF-8; save the file as \"CSV UTF-8\"")
		case c == nil:
		case c.set == nil:
			proof = strings.TrimSpace(s)
		default:
			if err := c.set(&row, s); err != nil {
				f.wrong(at, c.name, err.Error())
			}
		}
	}
	if proof != check(row.Record, row.Customer) {
		f.wrong(line, "check", fmt.Sprintf("record_id %s and customer_id %s are not as they were written: a person or a spreadsheet altered one of the three",
			quoted(row.Record), quoted(row.Customer)))
	}
	if len(f.problems) == before {
		f.take(row, line)
	}
}

// take adds a valid row, unless it contradicts another.
func (f *file) take(row Row, line int) {
	pair := [2]string{row.Record, row.Customer}
	if first, met := f.pairs[pair]; met {
		f.wrong(line, "record_id", fmt.Sprintf("the match is on line %d already", first))
		return
	}
	f.pairs[pair] = line
	for _, other := range []struct {
		says, than Decision
		met        map[string]int
	}{{New, Accept, f.records}, {Accept, New, f.fresh}} {
		if first, met := other.met[row.Record]; met && row.Decision == other.says {
			f.wrong(line, "decision",
				fmt.Sprintf("record %s is %s here and %s on line %d", quoted(row.Record), other.says, other.than, first))
		}
	}
	if row.Decision == New {
		f.fresh[row.Record] = line
	}
	if row.Decision == Accept {
		if first, met := f.customers[row.Customer]; met {
			f.wrong(line, "decision",
				fmt.Sprintf("customer %s is accepted for another record on line %d already", quoted(row.Customer), first))
		} else {
			f.customers[row.Customer] = line
		}
		if first, met := f.records[row.Record]; met {
			f.wrong(line, "decision",
				fmt.Sprintf("record %s is accepted with another customer on line %d already", quoted(row.Record), first))
		} else {
			f.records[row.Record] = line
		}
	}
	f.rows, f.lines = append(f.rows, row), append(f.lines, line)
}
