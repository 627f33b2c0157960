package connector_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"payersync/connector"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestREADMEListsEveryReasonCode keeps the table of reason codes in README.md
// equal to the one in the code.
func TestREADMEListsEveryReasonCode(t *testing.T) {
	t.Parallel()
	const file, head = "README.md", "| code | finding | next step | ways out |\n|---|---|---|---|\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString(head)
	for _, r := range slices.Sorted(maps.Keys(connector.Reasons)) {
		var ways []string
		for _, w := range r.Ways() {
			ways = append(ways, fmt.Sprintf("`%s`", w.Act))
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", r, r.Sentence(), r.Next(), strings.Join(ways, "; "))
	}
	before, _, _ := strings.Cut(string(text), head)
	if want := before + table.String(); want != string(text) {
		if !*update {
			t.Fatalf("the table of reason codes in %s is out of date; run: go test ./connector -update", file)
		}
		if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEveryReasonSaysWhatIsTheMatterAndWhatToDo(t *testing.T) {
	t.Parallel()
	for r, e := range connector.Reasons {
		for _, sentence := range []string{e.Sentence, e.Next} {
			if len(sentence) < 10 || !strings.HasSuffix(sentence, ".") {
				t.Errorf("%s: %q is no sentence", r, sentence)
			}
		}
		if who := []connector.Who{connector.WhoYou, connector.WhoBooks, connector.WhoService, connector.WhoOperator,
			connector.WhoNobody}; !slices.Contains(who, r.Who()) {
			t.Errorf("%s: it does not say who can end it", r)
		}
		for _, w := range e.Ways {
			if w.Act == "" || strings.Contains(w.Does, "payersync p") || len(w.Does) < 10 || !strings.HasSuffix(w.Does, ".") ||
				w.Sends == "" {
				t.Errorf("%s: %+v is no way out", r, w)
			}
		}
	}
}
