package csvfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// How much of a file is kept for analysis. The rest is only counted.
const (
	maxSample      = 20_000   // rows
	maxSampleBytes = 16 << 20 // of their text
)

// Findings are the detected facts about an unknown file: its format, its columns, and a sample of its rows.
type Findings struct {
	Path      string
	Encoding  string   // as Config spells it
	Marked    bool     // a byte order mark says so
	Doubtful  string   // letters that the encoding makes of the file and no language has; "" when all is well
	Delimiter rune     // between the columns
	Above     []string // the text of the lines above the headings
	Line      int      // of the headings
	Columns   []string // their names, as a Source declares them
	Repeated  []string // repeated headings

	Count  int        // rows below the headings, without those of Footer
	Rows   [][]string // the first usable ones, all as wide as Columns
	Lines  []int      // the first line of each of Rows in the file
	Bad    []string   // why rows cannot be used, a sentence each, ten at most
	Unfit  int        // unusable rows
	Footer []int      // probable lines of totals at the end
	Totals [][]string // their cells, last first
	Stray  string     // where the file stops making sense; "" when it does to its end
}

// Sniff detects a file's format and headings from its path alone. It proposes nothing that a Source cannot
// read.
func Sniff(ctx context.Context, path string) (*Findings, error) {
	e := &export{path: path}
	if err := e.openFile(); err != nil {
		return nil, err
	}
	defer e.close()
	start, err := e.start()
	if err != nil {
		return nil, err
	}
	f := &Findings{Path: path, Marked: markedEncoding(start) != ""}
	if e.encoding, f.Doubtful, err = e.guessEncoding(start); err != nil {
		return nil, err
	}
	if err := e.guessHeader(f); err != nil {
		return nil, err
	}
	if err := e.checkHeader(); err != nil {
		return nil, err
	}
	f.Encoding, f.Delimiter, f.Line, f.Columns = e.encoding, e.comma, e.header.line, e.header.names
	return f, f.look(ctx, e)
}

// Config returns the smallest configuration for a Source to read the file as found, with these id columns or
// those of a preset. The Source detects the rest by itself, so the next export may have another format.
func (f *Findings) Config(ctx context.Context, preset string, id ...string) (Config, error) {
	c := Config{Path: f.Path, ID: id, Preset: preset}
	for range 2 {
		s, err := New(c)
		if err != nil {
			return c, err
		}
		e, err := s.open(ctx)
		var unread *Error
		if err != nil && (!errors.As(err, &unread) || c.Encoding != "") {
			return c, err
		}
		if err == nil {
			e.close()
			if e.encoding == f.Encoding && e.comma == f.Delimiter && e.header.line == f.Line {
				return c, nil
			}
		}
		c.Delimiter = delimiterName(f.Delimiter)
		if !f.Marked {
			c.Encoding = f.Encoding
		}
	}
	return c, &Error{Path: f.Path, Why: fmt.Sprintf("a line above line %d has the heading of its id column, too", f.Line),
		Next: "delete the lines above the headings"}
}

// delimiterName returns a delimiter as Config spells it.
func delimiterName(r rune) string {
	if r == '\t' {
		return "tab"
	}
	return string(r)
}

// look reads the rows below the headings.
func (f *Findings) look(ctx context.Context, e *export) error {
	r, err := e.belowHeader()
	if err != nil {
		return e.unreadable(err)
	}
	var last tail
	kept := 0
	for {
		next, err := r.next()
		var stray *strayMark
		switch {
		case errors.Is(err, io.EOF):
			f.close(last.rows)
			return e.unchanged()
		case errors.As(err, &stray):
			f.Stray = stray.why()
			f.close(nil)
			return e.unchanged()
		case err != nil:
			return e.unreadable(err)
		case ctx.Err() != nil:
			return e.unreadable(ctx.Err())
		}
		f.Count++
		last.add(next)
		if next.problem == "" {
			next.problem = e.header.textProblem(next)
		}
		switch {
		case next.problem != "":
			f.Unfit++
			if len(f.Bad) < 10 {
				f.Bad = append(f.Bad, next.problem)
			}
		case len(f.Rows) < maxSample && kept < maxSampleBytes:
			kept += r.size
			f.Rows, f.Lines = append(f.Rows, next.cells), append(f.Lines, next.line)
		}
	}
}

// close moves the lines of totals at the end out of the rows.
func (f *Findings) close(footer []row) {
	for _, r := range footer {
		f.Footer, f.Totals = append(f.Footer, r.line), append(f.Totals, r.cells)
		f.Count--
		if n := len(f.Rows); n > 0 && slices.Equal(f.Rows[n-1], r.cells) {
			f.Rows, f.Lines = f.Rows[:n-1], f.Lines[:n-1]
		}
	}
	slices.Sort(f.Footer)
}

// Spoilt reports whether a cell holds a long number damaged by a spreadsheet, as in 1.23E+15, or the name of
// an error: as an id it would stand for several.
func Spoilt(cell string) bool { return spoilt.MatchString(strings.TrimSpace(cell)) }

// tail holds the probable rows of totals at the end of a file, last first.
type tail struct{ rows []row }

// total matches the first text of a line of totals.
var total = regexp.MustCompile(`(?i)^\W*(grand total|totale?s?|totaal|sum|summe|suma|somme|gesamt|gesamtsumme|insgesamt|anzahl|count|nombre|numero|aantal)\b|^\d+ \pL+$`)

// stamp matches a line with the time of the export.
var stamp = regexp.MustCompile(`\b(19|20)\d\d\b.*\b\d{1,2}:\d{2}\b`)

func (t *tail) add(r row) {
	texts := slices.DeleteFunc(slices.Clone(r.cells), func(c string) bool { return !filled(c) })
	if len(texts) == 1 && len(r.cells) > 2 && stamp.MatchString(texts[0]) {
		t.rows = append([]row{r}, t.rows...)
		return
	}
	if len(texts) == 0 || len(texts) > 3 || len(texts)*2 > len(r.cells) ||
		!total.MatchString(strings.TrimSpace(texts[0])) {
		t.rows = nil
		return
	}
	t.rows = append([]row{r}, t.rows...)
}
