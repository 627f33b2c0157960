package show

import (
	"io"

	"payersync/connector/sheet"
)

// NewMarkedSheet returns a writer of CSV for a spreadsheet that is opened by a click: with the mark
// by which it knows UTF-8, except on a terminal.
func NewMarkedSheet(w io.Writer, separator rune) (*sheet.Writer, error) {
	if !IsTerminal(w) {
		if _, err := io.WriteString(w, sheet.Mark); err != nil {
			return nil, err
		}
	}
	return sheet.New(w, separator), nil
}
