package show

import (
	"bytes"
	"encoding/csv"
	"errors"
	"strings"
	"testing"
)

// covers F52
func TestASpreadsheetRunsNoCellAndLosesNone(t *testing.T) {
	t.Parallel()
	header := []string{"number", "name"}
	rows := [][]string{
		{"=1+1", "+44 20 1234"}, {"-1", "@SUM(A1)"}, {"＝cmd", "＋1"}, {"－1", "＠x"}, {"\tx", "\r=x"},
		{"A;1", "Ada, \"Ltd\"\nLondon"}, {"", "Łódź 'quoted'"},
	}
	for _, separator := range []rune{',', ';'} {
		var out bytes.Buffer
		w, err := NewMarkedSheet(&out, separator)
		for _, row := range append([][]string{header}, rows...) {
			err = errors.Join(err, w.Row(row))
		}
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		bare, marked := strings.CutPrefix(out.String(), "\ufeff")
		if !marked || strings.Contains(bare, "\ufeff") {
			t.Errorf("the mark of UTF-8 is not at the beginning alone: %q", out.String())
		}
		in := csv.NewReader(strings.NewReader(bare))
		in.Comma = separator
		got, err := in.ReadAll()
		if err != nil || len(got) != len(rows)+1 {
			t.Fatalf("%d rows, %v", len(got), err)
		}
		for i, row := range rows {
			for j, want := range row {
				cell := got[i+1][j]
				if strings.IndexAny(cell, "=+-@＝＋－＠\t\r\n") == 0 {
					t.Errorf("%q is a formula", cell)
				}
				if want := strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\t", " ").Replace(want); strings.TrimPrefix(cell,
					"'") != want {
					t.Errorf("%q came to be %q", want, cell)
				}
			}
		}
	}
}
