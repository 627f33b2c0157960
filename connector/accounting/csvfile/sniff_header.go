package csvfile

import (
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// sniffedRows is how many rows are read to detect the delimiter.
const sniffedRows = headerRows + 150

// guess is how a file reads with one delimiter.
type guess struct {
	comma rune
	rows  []row
	at    int // index of the headings in rows; -1 when there are none
	width int // of the headings
	fits  int // rows below them of the same width
}

// better reports whether g has more cells in fitting rows than other.
func (g guess) better(other guess) bool {
	return (g.width-1)*(g.fits+1) > (other.width-1)*(other.fits+1)
}

// guessHeader tries the delimiters, and keeps the headings of the best one.
func (e *export) guessHeader(f *Findings) error {
	best := guess{at: -1, width: 1}
	for _, comma := range []rune{',', ';', '\t', '|'} {
		g, err := e.guess(comma)
		if err != nil {
			return err
		}
		if g.better(best) {
			best = g
		}
	}
	switch {
	case best.width < 2 && len(best.rows) == 0:
		return e.fail("it has one column only, or its columns are not parted by commas, semicolons, tabs or |",
			"export it with a number, a name and an e-mail address for each customer, as CSV UTF-8", nil)
	case best.at < 0:
		return e.fail("none of its first lines looks like headings: they hold addresses, numbers or dates, or nothing",
			"export it with its headings, or write them as a first line", nil)
	}
	headings := best.rows[best.at]
	e.comma = best.comma
	e.header = header{line: headings.line, names: columnNames(headings.cells)}
	f.Repeated = repeated(headings.cells)
	for _, above := range best.rows[:best.at] {
		f.Above = append(f.Above,
			strings.Join(slices.DeleteFunc(slices.Clone(above.cells), func(c string) bool { return !filled(c) }), " "))
	}
	return nil
}

// guess reads the first rows with a delimiter.
func (e *export) guess(comma rune) (guess, error) {
	g := guess{comma: comma, at: -1}
	r, err := e.fromStart(comma)
	if err != nil {
		return g, e.unreadable(err)
	}
	var stray *strayMark
	for len(g.rows) < sniffedRows {
		next, err := r.next()
		if errors.Is(err, io.EOF) || errors.As(err, &stray) {
			break
		}
		if err != nil {
			return g, e.unreadable(err)
		}
		g.rows = append(g.rows, next)
	}
	g.find()
	return g, nil
}

// find looks for the headings: the first filled row of about the usual width. If it reads like a row of
// values, there are no headings.
func (g *guess) find() {
	usual := usualWidth(g.rows)
	for i, r := range g.rows[:min(len(g.rows), headerRows)] {
		width := len(columnNames(r.cells))
		if width < 2 || width < usual*2/3 || count(r.cells, filled)*10 < width*6 {
			continue
		}
		g.width = width
		if headings(r.cells[:width]) {
			g.at = i
		}
		for _, below := range g.rows[i+1:] {
			if _, problem := fit(below.cells, width); problem == "" {
				g.fits++
			}
		}
		return
	}
}

// usualWidth is how many columns most rows with several have.
func usualWidth(rows []row) int {
	times, usual := map[int]int{}, 0
	for _, r := range rows {
		if n := len(r.cells); n > 1 && count(r.cells, filled) > 2 {
			times[n]++
		}
	}
	for n, t := range times {
		if t > times[usual] || t == times[usual] && n > usual {
			usual = n
		}
	}
	return usual
}

// value matches values that are never a heading: dates and numbers of three digits and more.
var value = regexp.MustCompile(`^[+-]?[\d.,/: -]*\d[\d.,/: -]*\d[\d.,/: -]*\d[\d.,/: -]*$`)

// headings reports whether cells read like headings.
func headings(cells []string) bool {
	values := 0
	for _, cell := range cells {
		cell = strings.TrimSpace(cell)
		switch {
		case strings.Contains(cell, "@") && strings.Contains(cell, "."), utf8.RuneCountInString(cell) > 80:
			return false
		case value.MatchString(cell):
			values++
		}
	}
	return values*3 <= len(cells) && (values == 0 || len(cells) > 3)
}

func count(cells []string, is func(string) bool) (n int) {
	for _, cell := range cells {
		if is(cell) {
			n++
		}
	}
	return n
}

// repeated returns the headings found more than once.
func repeated(cells []string) (names []string) {
	seen := map[string]int{}
	for _, cell := range cells {
		name := columnName(cell)
		if seen[strings.ToLower(name)]++; name != "" && seen[strings.ToLower(name)] == 2 {
			names = append(names, name)
		}
	}
	return names
}
