package propose

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each program of the catalogue has a recognised file in the corpus, and headings that can be found.
func TestEachKnownExportHasAFileInTheCorpus(t *testing.T) {
	t.Parallel()
	goldens, err := filepath.Glob("testdata/*.golden")
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	for _, path := range goldens {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		told.Write(text)
	}
	for _, e := range exports() {
		if !strings.Contains(told.String(), "An export of "+e.program+", by the headings ") {
			t.Errorf("no file of the corpus is recognised as %s", e.program)
		}
		seen := map[string]bool{}
		for _, m := range e.columns {
			if seen[m.heading] || plainWords(m.heading) != m.heading {
				t.Errorf("%s: the heading %q stands twice, or is not in plain words", e.program, m.heading)
			}
			seen[m.heading] = true
		}
		for _, h := range e.known {
			if plainWords(h) != h {
				t.Errorf("%s: the heading %q is not in plain words", e.program, h)
			}
		}
		for _, trap := range e.traps {
			if trap.column != "" && !seen[trap.column] {
				t.Errorf("%s: the trap %q is of a column that it does not describe", e.program, trap.text)
			}
		}
	}
}
