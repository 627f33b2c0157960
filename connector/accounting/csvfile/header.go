package csvfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"payersync/connector"
)

// headerRows is how many rows are searched for the header; exports may print
// titles above it.
const headerRows = 50

// header is the row with the names of the columns.
type header struct {
	line  int
	names []string // unique without regard to case
	ids   [][]int  // columns of the id alternatives found in the file
}

// delimiterNamed returns the configured delimiter, 0 when it is to be detected.
func delimiterNamed(name string) (rune, error) {
	switch name {
	case "", autoDetect:
		return 0, nil
	case "tab":
		return '\t', nil
	}
	r, size := utf8.DecodeRuneInString(name)
	if size != len(name) || strings.ContainsRune("\"\r\n\x00\uFFFD", r) {
		return 0, fmt.Errorf(`csv source: delimiter %q is not usable; give one character such as ";" or the word tab, or omit it`, name)
	}
	return r, nil
}

// columnName returns a heading as it is declared: without surrounding spaces, line breaks, and the asterisk
// of compulsory columns.
func columnName(heading string) string {
	name := strings.Join(strings.Fields(heading), " ")
	return strings.TrimSpace(strings.TrimLeft(name, "*"))
}

// columnNames names the columns of a header row. Trailing columns without a heading are dropped, others are
// called "column N", and a repeated heading gets " (2)", " (3)" and so on.
func columnNames(cells []string) []string {
	last := len(cells)
	for last > 0 && columnName(cells[last-1]) == "" {
		last--
	}
	names := make([]string, last)
	taken, times := map[string]bool{}, map[string]int{} // both by lower-case name
	for i, cell := range cells[:last] {
		base := columnName(cell)
		base = cmp.Or(base, fmt.Sprintf("column %d", i+1))
		name := base
		for taken[strings.ToLower(name)] {
			times[strings.ToLower(base)]++
			name = fmt.Sprintf("%s (%d)", base, times[strings.ToLower(base)]+1)
		}
		taken[strings.ToLower(name)] = true
		names[i] = name
	}
	return names
}

// headerSearch looks for the row with the id columns. For the error, it keeps the likeliest row without them.
type headerSearch struct {
	ids     [][]string
	nearest []string
	stray   *strayMark // ended a search; common with the wrong delimiter
}

// in returns the header within the first rows of r; false when there is none.
func (s *headerSearch) in(r *rowReader) (header, bool, error) {
	for range headerRows {
		found, err := r.next()
		if errors.Is(err, io.EOF) || errors.As(err, &s.stray) {
			break
		}
		if err != nil {
			return header{}, false, err
		}
		names := columnNames(found.cells)
		if ids := locate(s.ids, names); len(ids) > 0 {
			return header{line: found.line, names: names, ids: ids}, true, nil
		}
		if len(names) > len(s.nearest) {
			s.nearest = names
		}
	}
	return header{}, false, nil
}

// locate returns the columns of every alternative found completely in names.
func locate(alternatives [][]string, names []string) [][]int {
	var found [][]int
	for _, columns := range alternatives {
		var at []int
		for _, column := range columns {
			i := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, column) })
			if i >= 0 {
				at = append(at, i)
			}
		}
		if len(at) == len(columns) {
			found = append(found, at)
		}
	}
	return found
}

// missing names the id column missing in the file.
func (s *headerSearch) missing() string {
	i := slices.IndexFunc(s.ids[0], func(column string) bool {
		return locate([][]string{{column}}, s.nearest) == nil
	})
	switch {
	case len(s.nearest) == 0 && s.stray != nil:
		return fmt.Sprintf("line %d has a quotation mark in the wrong place, so that its header cannot be found",
			s.stray.line)
	case len(s.nearest) == 0 || i < 0:
		return "it has no header row"
	}
	column := s.ids[0][i]
	return fmt.Sprintf("none of its first %d rows has a column %q%s", headerRows, column, didYouMean(column, s.nearest))
}

// didYouMean returns ` (did you mean "…"?)` when one of names is like name, else
// nothing.
func didYouMean(name string, names []string) string {
	if near := connector.Nearest(name, names); near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}
