package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every list prints as many rows in each format, and a column of the CSV that JSON has, too, is named like its member.
func TestEveryListPrintsTheSameRowsAsATableJSONAndCSV(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	rows := make([]row, 12)
	for i := range rows {
		rows[i] = row{ID: fmt.Sprintf("A%d", i), Name: "Ada " + strconv.Itoa(i), Email: fmt.Sprintf("a%d@example.org", i),
			Street: "1 Mill Lane"}
	}
	rows[3].Email, rows[4].Email = "none", "b@example.org; c@example.org"
	w.export(rows...)
	w.run("backfill", "--yes")
	w.expect(exitDone, "attention", "close", "--give-up", "A3", "--reason", "has no e-mail address")
	for _, list := range []struct {
		args    string
		renamed []string // columns with another name in JSON, or none
	}{
		{"payers list", []string{"record", "name", "key", "link", "customer", "mandate", "attention"}},
		{"attention list", []string{"name", "what_to_do"}},
		{"attention list --closed", []string{"name", "decision"}},
		{"plan list --all", []string{"plan", "creates", "adopts", "updates", "links", "holds", "pending", "sent_by",
			"limits"}},
		{"mandates list", nil},
		{"audit", []string{"subject", "reason"}},
		{"webhooks list", nil},
		{"letters list", nil},
		{"pages users list", nil},
	} {
		args := strings.Fields(list.args)
		asJSON := w.expect(exitDone, append(args, "--output", "json")...)
		text := w.expect(exitDone, append(args, "--output", "csv")...).out
		cells, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		lines := slices.Collect(strings.Lines(asJSON.out))
		if err != nil || len(cells) != len(lines)+1 {
			t.Errorf("%s: %d rows of CSV with the header, %d lines of JSON (%v):\n%s", list.args, len(cells), len(lines), err,
				text)
			continue
		}
		table := strings.Count(w.expect(exitDone, args...).out, "\n")
		if want := len(lines) + 1; len(lines) > 0 && table != want || len(lines) == 0 && table != 0 {
			t.Errorf("%s: a table of %d lines for %d rows", list.args, table, len(lines))
		}
		for _, line := range lines {
			var members map[string]any
			if err := json.Unmarshal([]byte(line), &members); err != nil {
				t.Fatal(err)
			}
			for _, name := range cells[0] {
				if _, is := members[name]; !is && !slices.Contains(list.renamed, name) {
					t.Errorf("%s: the CSV has a column %s, and JSON has %s", list.args, name, slices.Sorted(maps.Keys(members)))
				}
			}
		}
	}
}
