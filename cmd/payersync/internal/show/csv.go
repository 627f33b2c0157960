package show

import (
	"io"

	"payersync/connector/safecsv"
)

// NewMarkedSheet returns a CSV writer for files that spreadsheets open directly. It writes a byte order mark,
// so they read UTF-8, except on a terminal.
func NewMarkedSheet(w io.Writer, separator rune) (*safecsv.Writer, error) {
	if !IsTerminal(w) {
		if _, err := io.WriteString(w, safecsv.Mark); err != nil {
			return nil, err
		}
	}
	return safecsv.New(w, separator), nil
}
