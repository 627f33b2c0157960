// Package sheet writes CSV for spreadsheets, which take some texts for formulas: whatever a
// cell holds, opening the file runs nothing.
package sheet

import (
	"encoding/csv"
	"io"
	"strings"
	"unicode/utf8"
)

// Mark is what a file begins with by which a spreadsheet knows that it is UTF-8.
const Mark = "\ufeff"

// Semicolon stands between the columns where a comma is the decimal point.
const Semicolon = ';'

// Writer writes CSV row by row. Cells that a spreadsheet would take for a formula get a
// leading apostrophe (fault F52).
type Writer struct {
	Clean func(string) string // makes a cell fit for where it is shown; nil for as it is

	out *csv.Writer
}

// New returns a Writer that is written to w, with a separator between the columns.
func New(w io.Writer, separator rune) *Writer {
	out := csv.NewWriter(w)
	out.Comma = separator
	return &Writer{out: out}
}

// Row writes a row.
func (w *Writer) Row(cells []string) error {
	safe := make([]string, len(cells))
	for i, cell := range cells {
		safe[i] = noFormula(cell)
		if w.Clean != nil {
			safe[i] = w.Clean(safe[i])
		}
	}
	return w.out.Write(safe)
}

// Close writes what is left, and returns what went wrong.
func (w *Writer) Close() error {
	w.out.Flush()
	return w.out.Error()
}

func noFormula(cell string) string {
	if first, _ := utf8.DecodeRuneInString(cell); cell != "" && strings.ContainsRune("=+-@＝＋－＠\t\r\n", first) {
		return "'" + cell
	}
	return cell
}
