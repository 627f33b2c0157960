package match

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write README.md anew")

var readme sync.Mutex

// printed keeps one section of README.md equal to what the code says.
func printed(t *testing.T, section, want string) {
	t.Helper()
	readme.Lock()
	defer readme.Unlock()
	const file = "README.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- begin "+section+" -->\n", "<!-- end "+section+" -->"
	before, rest, found := strings.Cut(string(text), begin)
	_, after, whole := strings.Cut(rest, end)
	if !found || !whole {
		t.Fatalf("%s has no section %q", file, section)
	}
	if now := before + begin + "\n" + want + "\n" + end + after; now != string(text) {
		if !*update {
			t.Fatalf("the section %q of %s is out of date; run: go test ./connector/match -update", section, file)
		}
		if err := os.WriteFile(file, []byte(now), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestREADMEHoldsTheRules(t *testing.T) {
	t.Parallel()
	printed(t, "rules", Table())
}

// Table returns all rules as Markdown, from the very ones that scores are made by.
// README.md holds it.
func Table() string {
	var b strings.Builder
	b.WriteString("| rule | reason shown | points | limit | when |\n|---|---|---|---|---|\n")
	for _, r := range rules {
		limit := ""
		if r.limit > 0 {
			limit = fmt.Sprint(r.limit)
			if r.lifted() {
				limit += ", unless the company number is the same"
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %+d | %s | %s |\n", r.code, strings.ReplaceAll(r.text, "%s", "two records"), r.points,
			limit, r.when)
	}
	return b.String()
}
