package show

import (
	"io"

	"payersync/connector/sheet"
)

// NewMarkedSheet is NewSheet for a spreadsheet that is opened by a click: with the mark by which it
// knows UTF-8.
func NewMarkedSheet(w io.Writer, separator rune) (*sheet.Writer, error) {
	if !IsTerminal(w) {
		if _, err := io.WriteString(w, sheet.Mark); err != nil {
			return nil, err
		}
	}
	return NewSheet(w, separator), nil
}

// NewSheet returns a writer of CSV to w; what a terminal would obey is shown there as a symbol.
func NewSheet(w io.Writer, separator rune) *sheet.Writer {
	s := sheet.New(w, separator)
	if IsTerminal(w) {
		s.Clean = Visible
	}
	return s
}
