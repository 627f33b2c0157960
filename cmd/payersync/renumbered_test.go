package main

import (
	"strings"
	"testing"
)

// covers F260
func TestTheTerminalNamesBothRecordsOfARenumberedPayer(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	old, renumbered := matterRow, matterRow
	old.ID, renumbered.ID = "K2007", "K9007"
	s.reads(old, otherRow)
	customer := s.customer("Matter Ltd").ID
	s.reads(renumbered, otherRow)
	rekey, reject := "payersync payers moved K9007 --from K2007 --reason", "payersync payers different K9007 "+customer

	ways := map[string][]string{}
	for _, id := range []string{"K2007", "K9007"} {
		r := s.do([]string{"attention", "show", id}, exitDone)
		for _, placeholder := range []string{"RECORD", "OLD", "CUSTOMER"} {
			if strings.Contains(r.out, placeholder) {
				t.Errorf("attention show %s leaves %s open:\n%s", id, placeholder, r.out)
			}
		}
		for _, told := range decode[shownMatter](t,
			s.do([]string{"attention", "show", id, "--output", "json"}, exitDone)).Told {
			for _, w := range told.Ways {
				ways[id] = append(ways[id], w.Command)
			}
		}
		if len(ways[id]) < 3 || !strings.HasPrefix(ways[id][0], rekey) || ways[id][1] != reject {
			t.Errorf("attention show %s offers %q", id, ways[id])
		}
	}
	if last := ways["K2007"][len(ways["K2007"])-1]; !strings.HasPrefix(last, "payersync mandates cancel K2007") {
		t.Errorf("the last way out of K2007 is %q, want to cancel the mandate", last)
	}
	if shown := s.do([]string{"attention", "show", "K2007"}, exitDone).out; !strings.Contains(shown,
		"Record K9007 may be the same payer under a new number, and would have to sign anew.") {
		t.Errorf("nothing warns before the mandate is cancelled:\n%s", shown)
	}
	for _, command := range [][]string{{"status"}, {"attention", "list"}} {
		out := s.do(command, exitDone).out
		if !strings.Contains(out, "K2007") || !strings.Contains(out, "K9007") || strings.Contains(out, "--from OLD") {
			t.Errorf("%s does not name both records:\n%s", command, out)
		}
	}
	if r := s.do([]string{"mandates", "cancel", "K2007", "--reason", "they left", "--yes"},
		exitDone); !strings.Contains(r.errOut, "payersync payers moved K9007 --from K2007") {
		t.Errorf("before it cancels the mandate it says %s", r.errOut)
	}
}
