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
	out := csv.NewWriter(w)
	if err := out.Write(header); err != nil {
		return err
	}
	for _, row := range rows {
		safe := make([]string, len(row))
		for i, cell := range row {
			safe[i] = noFormula(cell)
			if IsTerminal(w) {
				safe[i] = Visible(safe[i])
			}
		}
		if err := out.Write(safe); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func noFormula(cell string) string {
	if first, _ := utf8.DecodeRuneInString(cell); cell != "" && strings.ContainsRune("=+-@＝＋－＠\t\r\n", first) {
		return "'" + cell
	}
	return cell
}
