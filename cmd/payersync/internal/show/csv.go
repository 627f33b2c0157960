package show

import (
	"io"

	"payersync/connector/sheet"
)

// CSVFor writes rows as CSV for a spreadsheet that is opened by a click: with the mark by
// which it knows UTF-8, and with the separator that it expects.
func CSVFor(w io.Writer, separator rune, header []string, rows [][]string) error {
	if !IsTerminal(w) {
		if _, err := io.WriteString(w, sheet.Mark); err != nil {
			return err
		}
	}
	return writeSheet(NewSheet(w, separator), header, rows)
}

func writeSheet(s *sheet.Writer, header []string, rows [][]string) error {
	for _, row := range append([][]string{header}, rows...) {
		if err := s.Row(row); err != nil {
			return err
		}
	}
	return s.Close()
}

// NewSheet returns a writer of CSV to w; what a terminal would obey is shown there as a symbol.
func NewSheet(w io.Writer, separator rune) *sheet.Writer {
	s := sheet.New(w, separator)
	if IsTerminal(w) {
		s.Clean = Visible
	}
	return s
}
