package pages

import (
	"fmt"
	"regexp"
	"testing"

	"payersync/connector"
	"payersync/connector/admin"
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
			if commands.MatchString(w.Does) {
				t.Errorf("%s: the way %s says %q", r, w.Act, w.Does)
			}
		}
	}
	for act, f := range admin.Acts {
		shown := admin.Proposal{Decision: admin.Decision{Act: act}}.Preview()
		if f.Title == "" || f.Becomes == "" || shown.Undo == "" || commands.MatchString(fmt.Sprint(shown)) {
			t.Errorf("the preview of %s says %+v", act, shown)
		}
	}
}
