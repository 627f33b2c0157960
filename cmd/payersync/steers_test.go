package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"payersync/cmd/payersync/internal/show"
)

// What is printed for people goes through visible.
//
// covers F52, F91
func TestNothingThatIsPrintedSteersTheTerminal(t *testing.T) {
	t.Parallel()
	const nasty = "North\u202ewind\u009b31m\x1b[2J\nLtd"
	var out bytes.Buffer
	show.Table(&out, []string{"RECORD", "NAME"}, [][]string{{"A1", nasty}})
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 2 ||
		strings.ContainsFunc(strings.Join(lines, ""), steers) {
		t.Errorf("the table is %q", out.String())
	}
	w := newWorld(t, []row{{ID: "A1", Name: "North\u202ewind", Email: "n@example.org", Street: "1 Row"}})
	plan := w.expect(exitDone, "plan")
	shown := strings.ReplaceAll(plan.out+plan.errOut, "\n", "")
	if !strings.Contains(shown, "North") || strings.ContainsFunc(shown, steers) {
		t.Errorf("the plan says %q", plan.out+plan.errOut)
	}
	// into a file, which somebody may print
	for _, command := range [][]string{{"payers", "list"}, {"report"}, {"audit"}} {
		csv := w.expect(exitDone, append(command, "--output", "csv")...).out
		if strings.ContainsFunc(strings.ReplaceAll(csv, "\n", ""), steers) || command[0] == "payers" &&
			!strings.Contains(csv, "North\ufffdwind") {
			t.Errorf("%s writes %q", command[0], csv)
		}
	}
}

// steers reports whether a character could do more at a terminal than be read.
func steers(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
