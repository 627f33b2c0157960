package safecsv_test

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"
	"unicode"

	"payersync/connector/safecsv"
)

// covers F52
func TestACellThatWouldBeAFormulaIsAText(t *testing.T) {
	t.Parallel()
	cells := []string{"=1+1", "+44 20", "-1", "@SUM(A1)", "＝cmd", "＋1", "－1", "＠x", "  =1+1", "A;1", "Łódź 'quoted'", ""}
	for _, separator := range []rune{',', safecsv.Semicolon} {
		var out bytes.Buffer
		w := safecsv.New(&out, separator)
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
			if strings.IndexAny(strings.TrimSpace(got[i]), "=+-@＝＋－＠") == 0 {
				t.Errorf("%q is a formula", got[i])
			}
			if strings.TrimPrefix(got[i], "'") != want {
				t.Errorf("%q came to be %q", want, got[i])
			}
		}
	}
}

func TestACellHoldsNothingThatATerminalObeysOrThatTurnsText(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for r := range rune(0x2100) {
		all.WriteRune(r)
	}
	for _, r := range safecsv.Cell(all.String()) {
		if unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f ||
			r == 0x061c {
			t.Errorf("a cell holds %U", r)
		}
	}
	for text, want := range map[string]string{
		"\x1b[31mred": "\ufffd[31mred", "\u202egnik": "\ufffdgnik", "1 High St\r\nLondon\tN1\n": "1 High St London N1 ",
		"\t=1+1": "' =1+1", "\n-1": "' -1", "\x00@x": "\ufffd@x",
		"👩‍🍳 عمر": "👩‍🍳 عمر", "\u2067a\u2069\u200eb\u009b": "\ufffda\ufffd\ufffdb\ufffd",
	} {
		if got := safecsv.Cell(text); got != want {
			t.Errorf("%q came to be %q, want %q", text, got, want)
		}
	}
}
