package pages

import (
	"regexp"
	"testing"

	"payersync/connector"
)

// commands are what only a terminal takes.
var commands = regexp.MustCompile(`payersync (payers|attention|mandates|webhooks|ledger|plan|sync|sweep|check|connect)\b`)

// covers F261
func TestWhatToDoAboutAReasonNamesNoCommandOnThePages(t *testing.T) {
	t.Parallel()
	for r := range connector.Reasons {
		if found := commands.FindString(r.Next()); found != "" {
			t.Errorf("%s: the pages say %q", r, r.Next())
		}
		for _, w := range r.Ways() {
			if d := deedFor(w.Act); d != nil && (d.label == "" || d.title == "" && d.name != "request" && d.name != "retry" || commands.MatchString(d.becomes)) {
				t.Errorf("%s: the button of %s says %+v", r, w.Act, d)
			}
		}
	}
}
