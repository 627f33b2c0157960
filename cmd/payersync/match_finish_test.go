package main

import (
	"fmt"
	"strings"
	"testing"

	"payersync/connector"
)

// matchingWorld has records of n traders and one more, and a service with these n and some strangers. The
// service has no phones, and nobody carries a key.
func matchingWorld(t *testing.T, n, strangers int) *world {
	t.Helper()
	var rows []row
	var there []trader
	for i := range n + 1 + strangers {
		someone := trader{
			name: fmt.Sprintf("%s %s", strings.Fields("Amber Blue Copper Dapple Elder Fern Golden")[i%7],
				strings.Fields("Bakery Brewing Cabinets Dairy Electrics")[i/7]),
			email: fmt.Sprintf("office@t%d.example", i), street: fmt.Sprintf("%d Mill Lane", i+1),
			postcode: fmt.Sprintf("LS%d 4AP", i+1),
		}
		if i <= n {
			rows = append(rows, row{ID: fmt.Sprintf("A%05d", i), Name: someone.name, Email: someone.email,
				Phone: fmt.Sprintf("01632 %06d", 100_000+i), Street: someone.street, Depot: someone.postcode})
		}
		if i != n {
			there = append(there, someone)
		}
	}
	w := newWorld(t, rows)
	w.write("mapping.yaml", matchedMapping)
	w.edit("payersync.yaml", "guards: {max_creates: 20}", "guards: {max_creates: 20, max_changes: 100}")
	for _, c := range there {
		if _, err := w.box.Add(c.customer()); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// covers F220
func TestEverybodySaysOfFirstMatchingWhatTheMatchListSays(t *testing.T) {
	t.Parallel()
	w := matchingWorld(t, 24, 3)
	const counted = "27 customers exist in the billing service that belong to no record yet, and 24 records look like one of them"
	for _, args := range [][]string{{"plan"}, {"payers", "match"}, {"status"}, {"mapping", "preview"}, {"plan", "list"}} {
		if r := w.run(args...); !strings.Contains(r.out+r.errOut, counted) {
			t.Errorf("payersync %s does not say %q:\n%s%s", strings.Join(args, " "), counted, r.out, r.errOut)
		}
	}
	preview := w.expect(exitDone, "mapping", "preview").out
	if !strings.Contains(preview, "No new customer would be created: "+counted) ||
		!strings.Contains(preview, "payersync payers match --finish --connection acme") {
		t.Errorf("a preview does not say how to go on:\n%s", preview)
	}

	// Without phones nothing reaches the level for accepting together.
	list := w.expect(exitDone, "payers", "match").out
	for _, says := range []string{"24 records, 0 of them from 90 on",
		"24 at 88 lack only a phone: look, then accept them with --above 88"} {
		if !strings.Contains(list, says) {
			t.Errorf("the list does not say %q:\n%s", says, list)
		}
	}
	w.expect(exitDone, "payers", "same", "--above", "88", "--yes")
	const left = "3 customers exist in the billing service that belong to no record yet, and no record looks like one of them"
	for _, args := range [][]string{{"payers", "match"}, {"status"}, {"plan", "list"}, {"mapping", "preview"}} {
		if r := w.run(args...); !strings.Contains(r.out+r.errOut, left) {
			t.Errorf("after all were accepted, payersync %s does not say %q:\n%s%s", strings.Join(args, " "), left, r.out,
				r.errOut)
		}
	}
	w.expect(exitDone, "payers", "match", "--finish", "--yes")
	w.expect(exitDone, "sync", "--yes")
	linked := 0
	for _, c := range w.box.Customers() {
		if connector.KeyIn(c.ExternalData, "accountNumber").Value != "" {
			linked++
		}
	}
	if all := len(w.box.Customers()); linked != 25 || all != 28 {
		t.Errorf("%d of %d customers carry a number, want 25 of 28: 24 accepted ones, and a new one", linked, all)
	}
}
