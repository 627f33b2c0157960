package show

import (
	"io"

	"payersync/connector/sheet"
)

// NewMarkedSheet returns a CSV writer for files that spreadsheets open directly. It writes a byte order mark,
// so they read UTF-8, except on a terminal.
func NewMarkedSheet(w io.Writer, separator rune) (*sheet.Writer, error) {
	if !IsTerminal(w) {
		if _, err := io.WriteString(w, sheet.Mark); err != nil {
			return nil, err
		}
	}
	return sheet.New(w, separator), nil
}
