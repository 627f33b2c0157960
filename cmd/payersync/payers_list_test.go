package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/state"
)

var readRecords = regexp.MustCompile(`(\d+) read`)

// listed returns the rows of payers list as JSON.
func (w *world) listed(args ...string) (out []payerRow) {
	w.t.Helper()
	r := w.run(append([]string{"payers", "list", "--output", "json"}, args...)...)
	if r.code != exitDone {
		w.t.Fatalf("payers list %q ended with %d:\n%s", args, r.code, r.errOut)
	}
	for line := range strings.Lines(r.out) {
		var row payerRow
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			w.t.Fatal(err)
		}
		out = append(out, row)
	}
	return out
}

// Invariant: whatever the records, each is exactly once in the list of all, and excluded ones are in no other
// list.
func TestEveryRecordThatWasReadIsListedOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		random := rand.New(rand.NewPCG(seed, 39))
		names := []string{"Ada", "", " ", "Bäcker \u202e\u0007", "=1+1", strings.Repeat("x", 65_536), "Grace", "عمر"}
		emails := []string{"a@example.org", "", "none", "b@example.org; c@example.org"}
		w := newWorld(t, nil)
		w.edit("mapping.yaml", "customer:\n  name:", "include: Depot != \"left out\"\ncustomer:\n  name:")
		w.edit("payersync.yaml", "max_creates: 20", "max_creates: 1000")
		known := map[string]bool{}
		for round := range 2 {
			rows := make([]row, 10+random.IntN(40))
			for i := range rows {
				rows[i] = row{ID: fmt.Sprintf("A%d", random.IntN(50)), Name: names[random.IntN(len(names))],
					Email: emails[random.IntN(len(emails))], Street: "1 Mill Lane"}
				switch random.IntN(6) {
				case 0:
					rows[i].Depot = "left out"
				case 1:
					rows[i].Depot = "2 Mill Lane" // two addresses
				case 2:
					rows[i].ID = "" // a row without its key
				}
			}
			w.export(rows...)
			r := w.run("backfill", "--yes")
			found := readRecords.FindStringSubmatch(r.out)
			if found == nil {
				t.Fatalf("seed %d, round %d: exit %d\n%s%s", seed, round, r.code, r.out, r.errOut)
			}
			read, _ := strconv.Atoi(found[1])
			all := w.listed("--all")
			ids := map[string]bool{}
			payers := 0
			for _, p := range all {
				ids[p.SourceID] = true
				if p.KeyName != "" || !p.Left {
					payers++
				}
			}
			if len(ids) != len(all) {
				t.Errorf("seed %d, round %d: %d lines name %d records", seed, round, len(all), len(ids))
			}
			if round == 0 && len(all) != read {
				t.Errorf("seed %d: %d records were read and %d are listed", seed, read, len(all))
			}
			for id := range known { // what left the file is still listed
				if !ids[id] {
					t.Errorf("seed %d, round %d: record %s is listed no more", seed, round, id)
				}
			}
			known = ids
			if n := len(w.listed()); n != payers {
				t.Errorf("seed %d, round %d: %d payers are listed, and %d in the list of all", seed, round, n, payers)
			}
			for _, sort := range []state.RecordSort{admin.ByName, state.ByChanged} {
				if n := len(w.listed("--all", "--sort", string(sort))); n != len(all) {
					t.Errorf("seed %d, round %d: by %s %d records are listed, want %d", seed, round, sort, n, len(all))
				}
			}
		}
	}
}

// Names come from outside, and a terminal must not do what they say.
//
// covers F91
func TestANameCannotSteerTheTerminal(t *testing.T) {
	t.Parallel()
	rows := people(3)
	rows[0].Name, rows[1].Name, rows[2].Name = "\x1b[2Jgone", "\u202eevil", strings.Repeat("long ", 14_000)
	rows[0].Email = "" // held or not, it is listed
	w := newWorld(t, rows)
	w.run("sync")
	for _, args := range [][]string{{"payers", "list", "--all"}, {"payers", "list", "--search", "evil"},
		{"attention", "list"}, {"mandates", "list"}} {
		out := w.run(args...).out
		if at := strings.IndexFunc(strings.ReplaceAll(out, "\n", ""),
			func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }); at >= 0 {
			t.Errorf("%v prints a character that steers the terminal:\n%q", args, out)
		}
	}
	if out := w.run("payers", "list", "--all").out; !strings.Contains(out, "\uFFFD[2Jgone") || len(out) > 5000 {
		t.Errorf("the list, of %d bytes:\n%.2000s", len(out), out)
	}
}

// Two books may number their customers alike.
func TestTwoConnectionsMayHaveTheSameIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	w.edit("payersync.yaml", "guards:",
		"  - {name: beta, source: {kind: csv, path: others.csv, id: [AccountNumber]}, mapping: beta.yaml}\nguards:")
	w.write("beta.yaml", strings.Replace(worldMapping, "key: {accountNumber: AccountNumber}",
		"key: {betaNumber: AccountNumber}", 1))
	w.write("others.csv", "AccountNumber,Name,Email,Phone,Street,Depot\nA00001,Somebody Else,else@example.org,,1 High St,\n")
	w.run("sync")
	if rows := w.listed("--search", "a00001", "--columns", "name"); len(rows) != 2 || *rows[0].Name != "Payer 1" ||
		*rows[1].Name != "Somebody Else" {
		t.Errorf("found %+v", rows)
	}
	if rows := w.listed("--search", "a00001", "--connection", "beta"); len(rows) != 1 || rows[0].Connection != "beta" {
		t.Errorf("found %+v", rows)
	}
	both := w.expect(exitDone, "payers", "show", "A00001").out
	one := w.expect(exitDone, "payers", "show", "A00001", "--connection", "beta").out
	if !strings.Contains(both, "acme, record A00001") || !strings.Contains(both, "beta, record A00001") ||
		strings.Contains(one, "acme, record") || !strings.Contains(one, "beta, record A00001") {
		t.Errorf("both:\n%s\none:\n%s", both, one)
	}
	if r := w.run("payers", "show", "A00002", "--connection", "beta"); r.code != exitFailed ||
		!strings.Contains(r.errOut, `no record of beta has it`) {
		t.Errorf("ended with %d: %s", r.code, r.errOut)
	}
	if r := w.run("payers", "show", "A00001", "--connection", "gamma"); r.code != exitUsage {
		t.Errorf("ended with %d: %s", r.code, r.errOut)
	}
}

// The ledger of an earlier version has no names until the books are read again.
func TestAListSaysThatNamesAreStillToCome(t *testing.T) {
	t.Parallel()
	rows := people(3)
	w := newWorld(t, rows[:2])
	w.expect(exitDone, "sync")
	w.readBefore("A00003")
	const said = "1 record has no name yet: the next complete reading of the accounting system adds names."
	for _, args := range [][]string{{"payers", "list"}, {"payers", "list", "--all"},
		{"payers", "list", "--search", "payer"}} {
		if r := w.run(args...); r.code != exitDone || !strings.Contains(r.errOut, said) ||
			!strings.Contains(r.out, "Payer 1") {
			t.Errorf("%v ended with %d and said %q:\n%s", args, r.code, r.errOut, r.out)
		}
	}
	if listed := w.listed("--all", "--sort", "name", "--columns", "name"); len(listed) != 3 ||
		listed[2].SourceID != "A00003" || listed[2].Name != nil {
		t.Errorf("by name: %+v", listed)
	}
	w.export(rows...)
	w.expect(exitDone, "sync")
	if r := w.run("payers", "list"); strings.Contains(r.errOut, "no name") || !strings.Contains(r.out, "Payer 3") {
		t.Errorf("after a reading it said %q:\n%s", r.errOut, r.out)
	}
}

// readBefore stores a record like versions without labels.
func (w *world) readBefore(id string) {
	w.t.Helper()
	l, err := state.Open(w.t.Context(), state.Options{Path: w.path("payersync.db"), KeyFile: w.path("payersync.key")})
	if err != nil {
		w.t.Fatal(err)
	}
	err = l.Do(w.t.Context(), func(tx *state.Tx) error {
		run, err := tx.OpenRun(state.NewRun{Connection: "acme", Kind: connector.RunSync, Trigger: "manual",
			Mapping: hashOf([]byte(worldMapping)), Holder: "before"})
		if err != nil {
			return err
		}
		record := connector.Record{SourceID: id, State: connector.RecordActive, Data: []byte("{}")}
		saving := tx.SavePage(run, "acme", []connector.Record{record})
		_, _, closing := tx.CloseRun(run, "acme", connector.RunIncomplete, "", connector.NewIDs())
		return errors.Join(saving, closing)
	})
	if err := errors.Join(err, l.Close()); err != nil {
		w.t.Fatal(err)
	}
}

func TestAMomentIsADateATimeOrHowLongAgo(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.Local)
	for text, want := range map[string]time.Time{
		"2026-11-20":           time.Date(2026, 11, 20, 0, 0, 0, 0, time.Local),
		"2026-11-20 15:04":     time.Date(2026, 11, 20, 15, 4, 0, 0, time.Local),
		"2026-11-20T15:04:05Z": time.Date(2026, 11, 20, 15, 4, 5, 0, time.UTC), "36h": now.Add(-36 * time.Hour),
		"14d": now.AddDate(0, 0, -14), "0d": now, "": {},
	} {
		if got, err := moment("since", text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"yesterday", "-1h", "14", "d", "14d1", "2026-13-01", "-2d"} {
		if got, err := moment("since", text, now); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestABlankColumnIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	if r := w.run("payers", "list", "--columns", "name,"); r.code != exitUsage ||
		!strings.Contains(r.errOut, "--columns has a blank name in it") {
		t.Errorf("it ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
}

// Like names, it is in the JSON on request.
func TestAFinancialStatusIsInJSONWhereItsColumnIsNamed(t *testing.T) {
	t.Parallel()
	rows := []state.RecordRow{{Financial: state.Financial{Status: "OVERDUE",
		SeenAt: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)}}, {}}
	for columns, want := range map[string]int{"financial": 1, "name": 0, "": 0} {
		var out bytes.Buffer
		if err := show.Lines(&out, payerReports(rows, []string{columns})); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(),
			`"financial_status":"OVERDUE","financial_seen":"2026-03-01T09:00:00Z"`); n != want ||
			strings.Count(out.String(), "financial") != 2*want {
			t.Errorf("with the column %q:\n%s", columns, out.String())
		}
	}
}

// Output for programs is read and written in pieces, so memory does not grow with the number of records, and
// no seam is visible.
func TestAListOfManyPayersIsWrittenWholeAndInOrder(t *testing.T) {
	t.Parallel()
	const many = 2*admin.PageOfAll + 3
	w := newWorld(t, people(many))
	w.edit("payersync.yaml", "level: debug", "level: warn")
	w.run("plan")
	var ids, cells []string
	for _, r := range w.listed() {
		ids = append(ids, r.SourceID)
	}
	for i, line := range strings.Split(strings.TrimSpace(w.expect(exitDone, "payers", "list", "--output", "csv",
		"--columns", "record,name").out), "\n") {
		id, name, _ := strings.Cut(strings.TrimSpace(line), ",")
		if cells = append(cells, id); i > 0 && name != fmt.Sprint("Payer ", i) {
			t.Fatalf("line %d is %q", i, line)
		}
	}
	for i := range many {
		if want := fmt.Sprintf("A%05d", i+1); len(ids) != many || ids[i] != want || len(cells) != many+1 ||
			cells[i+1] != want {
			t.Fatalf("%d rows of JSON and %d lines of CSV, want %d and %d, and %s at place %d", len(ids), len(cells), many,
				many+1, want, i)
		}
	}
	if cells[0] != "record" {
		t.Errorf("the heading is %q", cells[0])
	}
	table := w.expect(exitDone, "report", "--limit", "0").out // all are planned, and wait for an operator
	if shown := regexp.MustCompile(`(?m)^ *G +A\d{5} `).FindAllString(table, -1); len(shown) != many ||
		!slices.IsSorted(shown) || strings.Count(table, "Finding") != 1 {
		t.Errorf("a report has %d of %d rows, in order: %v, and its heading %d times", len(shown), many,
			slices.IsSorted(shown), strings.Count(table, "Finding"))
	}
}

func TestAStatusThatNoMandateHasIsAnsweredWithThoseThereAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.export(people(1)...)
	w.expect(exitDone, "backfill", "--yes")
	for _, args := range [][]string{{"payers", "list", "--mandate", "SIGNED"}, {"mandates", "list", "--state", "SIGNED"}} {
		r := w.expect(exitUsage, args...)
		for _, valid := range []string{"CREATED (awaiting signature)", "PENDING (signed, waiting for the bank)", "ACTIVE",
			"CANCELLED", "none"} {
			if !strings.Contains(r.errOut, valid) {
				t.Errorf("%q does not name %s:\n%s", args, valid, r.errOut)
			}
		}
	}
	w.expect(exitDone, "payers", "list", "--mandate", "created")
	ledger, err := state.Open(t.Context(), state.Options{Path: w.path("payersync.db"), KeyFile: w.path("payersync.key")})
	w.must(err)
	w.must(ledger.Do(t.Context(), func(tx *state.Tx) error {
		_, err := tx.SaveMandate(connector.Mandate{ID: "m-new", CustomerID: "c-new", Status: "SUSPENDED"},
			connector.CauseSweep, "")
		return err
	}))
	w.must(ledger.Close())
	w.expect(exitDone, "payers", "list", "--mandate", "SUSPENDED")
}

func TestAPayerIsShownByItsWholeName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	rows := people(3)
	rows[2].Name = rows[1].Name
	w.export(rows...)
	w.run("backfill", "--yes")
	if r := w.expect(exitDone, "payers", "show", strings.ToUpper(rows[0].Name)); !strings.Contains(r.out,
		"record "+rows[0].ID) {
		t.Errorf("the payer is not shown:\n%s", r.out)
	}
	if r := w.expect(exitFailed, "payers", "show", rows[1].Name); !strings.Contains(r.errOut,
		"2 records have this name") || !strings.Contains(r.errOut, rows[1].ID+", "+rows[2].ID) {
		t.Errorf("the two are not listed:\n%s", r.errOut)
	}
	w.expect(exitFailed, "payers", "show", rows[0].Name[:3])
}
