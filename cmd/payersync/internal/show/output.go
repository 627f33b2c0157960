package show

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
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/mattn/go-runewidth"

	"payersync/connector"
)

// JSON writes one value as one line of JSON.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Result prints a command's result in a format for programs. People have already seen it.
func (c *Console) Result(v any) error {
	if c.JSON() {
		return JSON(c.Out, v)
	}
	return nil
}

// Answer prints a command's result: v for programs, or a text for people.
func (c *Console) Answer(v any, format string, args ...any) error {
	if c.JSON() {
		return JSON(c.Out, v)
	}
	_, err := fmt.Fprintf(c.Out, format, args...)
	return err
}

// Lines writes one line of JSON for each row.
func Lines[T any](w io.Writer, rows []T) error {
	for _, r := range rows {
		if err := JSON(w, r); err != nil {
			return err
		}
	}
	return nil
}

// List writes one JSON object on one line, with lists as its last members. It writes their elements one by
// one. It stops at the first error, so a truncated list is never taken for a whole.
type List struct {
	out   *bufio.Writer
	begun bool // the list has an element
	err   error
}

// NewList returns a List on w.
func NewList(w io.Writer) *List { return &List{out: bufio.NewWriter(w)} }

// Open begins with the members of v, at least one.
func (p *List) Open(v any) {
	text, err := lineOfJSON(v)
	p.err = err
	p.write(bytes.TrimSuffix(text, []byte("}")))
}

// List writes one more member, with the elements passed by fill to element.
func (p *List) List(key string, fill func() error) {
	p.begun = false
	p.write(fmt.Appendf(nil, ",%q:[", key))
	if p.err == nil {
		p.err = fill()
	}
	p.write([]byte("]"))
}

// Element writes one element of the list.
func (p *List) Element(v any) error {
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

func (p *List) write(text []byte) {
	if p.err == nil {
		_, p.err = p.out.Write(text)
	}
}

// Close ends the object, and returns the error.
func (p *List) Close() error {
	p.write([]byte("}\n"))
	return errors.Join(p.err, p.out.Flush())
}

// lineOfJSON returns printJSON's output, without the end of the line.
func lineOfJSON(v any) ([]byte, error) {
	var line bytes.Buffer
	err := JSON(&line, v)
	return bytes.TrimSuffix(line.Bytes(), []byte("\n")), err
}

// Table writes rows as a table for people: whole, or as wide as the terminal.
func Table(w io.Writer, header []string, rows [][]string) { new(PagedTable).Write(w, header, rows) }

// PagedTable is a table written page by page, so not all rows need to be in memory. No column becomes narrower
// from one page to the next. A page begins with its heading if it has other columns, or if the terminal is
// too narrow for it.
type PagedTable struct {
	header []string // of the page before; nil if the next one starts with its heading
	wide   []int    // how wide its columns were
}

// Write writes the rows of one page; those of the only one are as Table writes them.
func (p *PagedTable) Write(w io.Writer, header []string, rows [][]string) {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = 0
	rows = rowsWithFlags(w, rows)
	columns, wide, goesOn := columnsOf(w), widths(header, rows), slices.Equal(header, p.header)
	if goesOn {
		for i, n := range p.wide {
			wide[i] = max(wide[i], n)
		}
		t.SetColumnConfigs(atLeast(wide))
	}
	p.header, p.wide = header, wide
	if !fits(columns, wide) {
		header, rows = withoutZeros(header, rows)
		style.Box.PaddingLeft, style.Box.PaddingRight = "", gap
		t.SetColumnConfigs(fitting(header, rows, columns))
		goesOn, p.header = false, nil
	}
	if !goesOn {
		t.AppendHeader(cells(header))
	}
	t.SetStyle(style)
	for _, r := range rows {
		t.AppendRow(cells(r))
	}
	out := t.Render()
	if columns > 0 { // trailing blanks would wrap the line
		out = blankEnd.ReplaceAllString(out, "")
	}
	_, _ = io.WriteString(w, out+"\n")
}

// Fits reports whether a table is no wider than the terminal it would go to.
func Fits(w io.Writer, header []string, rows [][]string) bool {
	columns := columnsOf(w)
	return columns == 0 || fits(columns, widths(header, rowsWithFlags(w, rows)))
}

// rowsWithFlags returns the rows of a table as a stream will show their command lines.
func rowsWithFlags(stream any, rows [][]string) [][]string {
	if n, is := stream.(named); !is || n.flags() == (Flags{}) {
		return rows
	}
	out := make([][]string, len(rows))
	for i, row := range rows {
		out[i] = make([]string, len(row))
		for j, cell := range row {
			out[i][j] = withFlags(stream, cell)
		}
	}
	return out
}

// fits reports whether a table is no wider than a terminal of so many columns; 0 for none.
func fits(columns int, wide []int) bool {
	return columns == 0 || sum(wide)+2*len(wide) <= columns
}

var blankEnd = regexp.MustCompile(`(?m) +$`)

// gap is the space between the columns of a table that fits into a terminal.
const gap = "  "

// widths returns how wide each column would like to be.
func widths(header []string, rows [][]string) []int {
	wide := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			if cell = Visible(cell); len(cell) > wide[i] { // no text is wider than it has bytes
				wide[i] = max(wide[i], runewidth.StringWidth(cell))
			}
		}
	}
	return wide
}

// atLeast keeps columns from being narrower.
func atLeast(wide []int) []table.ColumnConfig {
	configs := make([]table.ColumnConfig, len(wide))
	for i, n := range wide {
		configs[i] = table.ColumnConfig{Number: i + 1, WidthMin: n}
	}
	return configs
}

// withoutZeros removes the columns with only zeros.
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

// leastBesideLinks is how narrow other columns become beside links, in characters.
const leastBesideLinks = 12

// fitting narrows the widest columns until all fit. It breaks text between words, and cuts a long word. A
// column with links keeps its width: a cut link opens nothing.
func fitting(header []string, rows [][]string, columns int) []table.ColumnConfig {
	wide, links := widths(header, rows), make([]bool, len(header))
	most, least := 0, 1
	for i, n := range wide {
		if links[i] = slices.ContainsFunc(rows,
			func(row []string) bool { return strings.Contains(row[i], "://") }); links[i] {
			least = leastBesideLinks
		} else {
			most = max(most, n)
		}
	}
	fits := func() bool {
		total := len(gap) * (len(wide) - 1)
		for i, n := range wide {
			if !links[i] {
				n = min(n, most)
			}
			total += n
		}
		return total <= columns
	}
	for most > least && !fits() {
		most--
	}
	var configs []table.ColumnConfig
	for i := range wide {
		if !links[i] {
			configs = append(configs, table.ColumnConfig{Number: i + 1, WidthMax: most, WidthMaxEnforcer: broken})
		}
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

// Hanging prints a line after lead, and wraps it below its own beginning.
func (c *Console) Hanging(lead, line string) { fmt.Fprintln(c.Out, hung(c.Out, lead, line)) }

// hung returns a line as a stream shows it: on a terminal, what does not fit goes on below
// the text.
func hung(stream any, lead, line string) string {
	line = withFlags(stream, line)
	indent := text.StringWidthWithoutEscSequences(lead)
	if columns := columnsOf(stream); columns >= 2*indent && columns > 0 && !strings.Contains(line, "\n") {
		line = strings.ReplaceAll(text.WrapSoft(line, columns-indent), "\n", "\n"+strings.Repeat(" ", indent))
		line = blankEnd.ReplaceAllString(line, "")
	}
	return lead + line
}

// Below prints a text below others, indented so far. On a terminal a long line wraps.
func (c *Console) Below(indent int, text string) {
	for row := range strings.Lines(text) {
		_, _ = io.WriteString(c.Out, hung(c.Out, strings.Repeat(" ", indent), Visible(strings.TrimSuffix(row, "\n")))+"\n")
	}
}

// Rows prints the rows of a list, or says there are none.
func (c *Console) Rows(header []string, rows [][]string) {
	if len(rows) == 0 {
		c.Print("There is nothing to list.")
		return
	}
	Table(c.Out, header, rows)
}

func cells(texts []string) table.Row {
	row := make(table.Row, len(texts))
	for i, s := range texts {
		row[i] = Visible(s)
	}
	return row
}

// Visible replaces control and bidirectional characters, so a value from outside cannot control the terminal
// (fault F91).
func Visible(s string) string { return strings.Map(connector.Harmless, s) }

// Value returns the text of an optional value.
func Value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Sentence returns a text with a capital letter at its beginning and a full stop behind it.
func Sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:] + "."
}
