package main

import (
	"regexp"
	"strings"
	"testing"
)

// Whoever wants to know why may ask, and is told of records by their ids.
//
// covers F80
func TestVerboseTellsEachDecisionAndEachRequestWithoutAValue(t *testing.T) {
	t.Parallel()
	rows := people(3)
	rows[1].Depot = "2 Dock Road" // a second address, which the service refuses
	rows[2].Email = ""            // nobody to send a link to
	w := newWorld(t, rows)
	r := w.expect(exitAttention, "sync", "--verbose")
	for _, want := range []string{
		`msg=decided action=create fields="addresses\[0\].city addresses\[0\].line1 externalData.accountNumber name .*people\[0\].email.*" link="asked for" record=A00001 run=1 verdict=included`,
		`msg=decided action=none reason=too_many_addresses record=A00002 run=1 verdict=held why="[^"]+"`,
		`msg=decided action=create .*record=A00003 run=1 verdict=included`,
		`msg=request method=POST run=1 status=20\d took=\S+ url="http://127.0.0.1:\d+/api/customers"`,
	} {
		if !regexp.MustCompile(want).MatchString(r.errOut) {
			t.Errorf("nothing matches %s in\n%s", want, r.errOut)
		}
	}
	for _, p := range rows {
		for _, value := range []string{p.Name, p.Email, p.Street, p.Phone} {
			if value != "" && strings.Contains(r.errOut, value) {
				t.Errorf("--verbose shows %q", value)
			}
		}
	}
	if r := w.expect(exitAttention, "sync"); strings.Contains(r.errOut, "decided") {
		t.Errorf("without --verbose it tells\n%s", r.errOut)
	}
}
