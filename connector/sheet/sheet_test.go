package sheet_test

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"payersync/connector/sheet"
)

// covers F52
func TestACellThatWouldBeAFormulaIsAText(t *testing.T) {
	t.Parallel()
	cells := []string{"=1+1", "+44 20", "-1", "@SUM(A1)", "＝cmd", "＋1", "－1", "＠x", "\tx", "\ny", "A;1", "Łódź 'quoted'", ""}
	for _, separator := range []rune{',', sheet.Semicolon} {
		var out bytes.Buffer
		w := sheet.New(&out, separator)
		w.Clean = strings.ToUpper
		if err := w.Row(cells); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		in := csv.NewReader(&out)
		in.Comma = separator
		got, err := in.Read()
		if err != nil || len(got) != len(cells) {
			t.Fatalf("%q, %v", got, err)
		}
		for i, want := range cells {
			if strings.IndexAny(got[i], "=+-@＝＋－＠\t\r\n") == 0 {
				t.Errorf("%q is a formula", got[i])
			}
			if strings.TrimPrefix(got[i], "'") != strings.ToUpper(want) {
				t.Errorf("%q came to be %q", want, got[i])
			}
		}
	}
}
