package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/mattn/go-runewidth"
)

// printJSON writes one value as one line of JSON.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// printLines writes one line of JSON for each row.
func printLines[T any](w io.Writer, rows []T) error {
	for _, r := range rows {
		if err := printJSON(w, r); err != nil {
			return err
		}
	}
	return nil
}

// listPrinter writes one JSON object on one line, of which the last members are
// lists: their elements are written one by one. It stops at the first error, so that
// what is cut short is never taken for a whole.
type listPrinter struct {
	out   *bufio.Writer
	begun bool // the list has an element
	err   error
}

func newListPrinter(w io.Writer) *listPrinter { return &listPrinter{out: bufio.NewWriter(w)} }

// open begins with the members of v, which has some.
func (p *listPrinter) open(v any) {
	text, err := lineOfJSON(v)
	p.err = err
	p.write(bytes.TrimSuffix(text, []byte("}")))
}

// list writes one more member, with the elements that fill hands to element.
func (p *listPrinter) list(key string, fill func() error) {
	p.begun = false
	p.write(fmt.Appendf(nil, ",%q:[", key))
	if p.err == nil {
		p.err = fill()
	}
	p.write([]byte("]"))
}

func (p *listPrinter) element(v any) error {
	text, err := lineOfJSON(v)
	if err != nil {
		return err
	}
	if p.begun {
		p.write([]byte(","))
	}
	p.begun = true
	p.write(text)
	return p.err
}

func (p *listPrinter) write(text []byte) {
	if p.err == nil {
		_, p.err = p.out.Write(text)
	}
}

// close ends the object, and returns what went wrong.
func (p *listPrinter) close() error {
	p.write([]byte("}\n"))
	return errors.Join(p.err, p.out.Flush())
}

// lineOfJSON returns what printJSON writes, without the end of the line.
func lineOfJSON(v any) ([]byte, error) {
	var line bytes.Buffer
	err := printJSON(&line, v)
	return bytes.TrimSuffix(line.Bytes(), []byte("\n")), err
}

// printTable writes rows as a table for people: whole, or as wide as the terminal.
func printTable(w io.Writer, header []string, rows [][]string) {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = 0
	columns := columnsOf(w)
	if columns > 0 && sum(widths(header, rows))+2*len(header) > columns {
		header, rows = withoutZeros(header, rows)
		style.Box.PaddingLeft, style.Box.PaddingRight = "", gap
		t.SetColumnConfigs(fitting(widths(header, rows), columns))
	}
	t.SetStyle(style)
	t.AppendHeader(cells(header))
	for _, r := range rows {
		t.AppendRow(cells(r))
	}
	out := t.Render()
	if columns > 0 { // what is blank at the end of a line would begin another
		out = blankEnd.ReplaceAllString(out, "")
	}
	_, _ = io.WriteString(w, out+"\n")
}

var blankEnd = regexp.MustCompile(`(?m) +$`)

// gap is what stands between the columns of a table that fits into a terminal.
const gap = "  "

// widths returns how wide each column would like to be.
func widths(header []string, rows [][]string) []int {
	wide := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			wide[i] = max(wide[i], runewidth.StringWidth(visible(cell)))
		}
	}
	return wide
}

// withoutZeros leaves out the columns that hold nothing but zeros.
func withoutZeros(header []string, rows [][]string) ([]string, [][]string) {
	keep := func(cells []string) (out []string) {
		for i, cell := range cells {
			if slices.ContainsFunc(rows, func(row []string) bool { return row[i] != "0" }) {
				out = append(out, cell)
			}
		}
		return out
	}
	fewer := make([][]string, len(rows))
	for i, row := range rows {
		fewer[i] = keep(row)
	}
	return keep(header), fewer
}

// fitting narrows the widest columns until all fit. Text is broken between its words, and
// a word that is too long is cut.
func fitting(wide []int, columns int) []table.ColumnConfig {
	most := slices.Max(wide)
	fits := func() bool {
		total := len(gap) * (len(wide) - 1)
		for _, n := range wide {
			total += min(n, most)
		}
		return total <= columns
	}
	for most > 1 && !fits() {
		most--
	}
	configs := make([]table.ColumnConfig, len(wide))
	for i := range wide {
		configs[i] = table.ColumnConfig{Number: i + 1, WidthMax: most, WidthMaxEnforcer: broken}
	}
	return configs
}

func broken(cell string, most int) string {
	words := strings.Fields(cell)
	for i, word := range words {
		words[i] = runewidth.Truncate(word, most, "…")
	}
	return text.WrapSoft(strings.Join(words, " "), most)
}

func sum(numbers []int) (total int) {
	for _, n := range numbers {
		total += n
	}
	return total
}

// printHanging prints a line that begins with lead. What does not fit into a line of the
// terminal goes on below the text.
func (a *app) printHanging(lead, line string) {
	indent := runewidth.StringWidth(lead)
	if columns := columnsOf(a.out); columns >= 2*indent && columns > 0 && !strings.Contains(line, "\n") {
		line = strings.ReplaceAll(text.WrapSoft(line, columns-indent), "\n", "\n"+strings.Repeat(" ", indent))
		line = blankEnd.ReplaceAllString(line, "")
	}
	fmt.Fprintln(a.out, lead+line)
}

// printRows prints the rows of a list, or that there are none.
func (a *app) printRows(header []string, rows [][]string) {
	if len(rows) == 0 {
		a.say("There is nothing to list.")
		return
	}
	printTable(a.out, header, rows)
}

func cells(texts []string) table.Row {
	row := make(table.Row, len(texts))
	for i, s := range texts {
		row[i] = visible(s)
	}
	return row
}

// visible replaces control and bidirectional characters, so that a value from
// outside cannot steer the terminal (fault F91).
func visible(s string) string { return strings.Map(harmless, s) }

func harmless(r rune) rune {
	if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
		return '\uFFFD'
	}
	return r
}

// shown returns the text of an optional value.
func shown(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// plural returns "1 thing" or "n things".
func plural(n int, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "s"):
		thing += "e"
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
