// Package safecsv writes CSV for spreadsheets. It decides the content of cells: opening the file runs no
// formula, and printing it on a terminal obeys nothing and turns no text around.
package safecsv

import (
	"encoding/csv"
	"io"
	"strings"
	"unicode/utf8"

	"payersync/connector"
)

// Mark is the byte order mark, by which a spreadsheet recognises UTF-8.
const Mark = "\ufeff"

// Semicolon separates the columns in countries with a decimal comma.
const Semicolon = ';'

// Guard precedes a text that a spreadsheet would change.
const Guard = "'"

// Writer writes CSV row by row, each cell as Cell returns it.
type Writer struct{ out *csv.Writer }

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
		safe[i] = Cell(cell)
	}
	return w.out.Write(safe)
}

// Close writes the rest, and returns the error.
func (w *Writer) Close() error {
	w.out.Flush()
	return w.out.Error()
}

// Cell returns a safe text for a cell: Text, with a Guard before a formula (fault F52).
func Cell(text string) string {
	if text = Text(text); IsFormula(text) {
		return Guard + text
	}
	return text
}

// Text returns a text without control characters and bidirectional controls. New lines and tabs become
// spaces; all others become U+FFFD, so people see the gap.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == '\t' {
			return ' '
		}
		return connector.Harmless(r)
	}, strings.ReplaceAll(text, "\r\n", "\n"))
}

// IsFormula reports whether a spreadsheet would take a text for a formula. Some look behind the
// spaces at its beginning.
func IsFormula(text string) bool {
	first, size := utf8.DecodeRuneInString(strings.TrimLeft(text, " "))
	return size > 0 && strings.ContainsRune("=+-@＝＋－＠\t\r\n", first)
}
