package show

import (
	"encoding/csv"
	"io"
	"strings"
	"unicode/utf8"
)

// CSV writes rows for a spreadsheet. Cells that it would take for a formula get a leading
// apostrophe (fault F52).
func CSV(w io.Writer, header []string, rows [][]string) error {
	return writeSheet(NewSheet(w), header, rows)
}

// CSVFor writes rows like CSV for a spreadsheet that is opened by a click: with the mark by
// which it knows UTF-8, and with the separator that it expects.
func CSVFor(w io.Writer, separator rune, header []string, rows [][]string) error {
	if !IsTerminal(w) {
		if _, err := io.WriteString(w, "\ufeff"); err != nil {
			return err
		}
	}
	s := NewSheet(w)
	s.out.Comma = separator
	return writeSheet(s, header, rows)
}

func writeSheet(s *Sheet, header []string, rows [][]string) error {
	for _, row := range append([][]string{header}, rows...) {
		if err := s.Row(row); err != nil {
			return err
		}
	}
	return s.Close()
}

// Sheet writes CSV row by row.
type Sheet struct {
	out      *csv.Writer
	terminal bool
}

// NewSheet returns a Sheet that is written to w.
func NewSheet(w io.Writer) *Sheet { return &Sheet{csv.NewWriter(w), IsTerminal(w)} }

// Row writes a row.
func (s *Sheet) Row(cells []string) error {
	safe := make([]string, len(cells))
	for i, cell := range cells {
		safe[i] = noFormula(cell)
		if s.terminal {
			safe[i] = Visible(safe[i])
		}
	}
	return s.out.Write(safe)
}

// Close writes what is left, and returns what went wrong.
func (s *Sheet) Close() error {
	s.out.Flush()
	return s.out.Error()
}

func noFormula(cell string) string {
	if first, _ := utf8.DecodeRuneInString(cell); cell != "" && strings.ContainsRune("=+-@＝＋－＠\t\r\n", first) {
		return "'" + cell
	}
	return cell
}
