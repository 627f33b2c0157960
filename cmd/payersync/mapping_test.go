package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payersync/cmd/payersync/internal/session"
	"payersync/cmd/payersync/internal/show"
	"payersync/connector"
	"payersync/connector/admin"
	"payersync/connector/syncer"
	"payersync/state"
)

// session opens the ledger as what asks other systems does.
func (w *world) session(a *app) *session.Session {
	w.t.Helper()
	cfg, err := a.load()
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := session.Open(w.t.Context(), cfg, state.Options{Now: a.now})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// served is what serve works with, without its schedules: the test says when a
// run is due.
func (w *world) served(log *bytes.Buffer) *session.Session {
	w.t.Helper()
	lookup := func(name string) (string, bool) {
		value, ok := w.env[name]
		return value, ok
	}
	a := &app{program: program{Console: &show.Console{Out: log, ErrOut: log, Output: "table"}, getenv: lookup},
		now: time.Now, config: w.path("payersync.yaml")}
	s := w.session(a)
	if err := s.OpenBilling(w.t.Context(), log, s.Config.Log, true); err != nil {
		w.t.Fatal(err)
	}
	return s
}

func TestABadEditNeverReplacesAGoodMapping(t *testing.T) {
	t.Parallel()
	rows := people(3)
	w := newWorld(t, rows)
	w.expect(exitDone, "sync")
	good := decode[historyReport](t, w.expect(exitDone, "mapping", "history", "--output", "json")).FileHash

	var log bytes.Buffer
	s := w.served(&log)
	due := func() {
		t.Helper()
		if err := syncNow(t.Context(), s, s.Config.Connections[0], "schedule"); err != nil {
			t.Fatal(err)
		}
	}
	w.edit("mapping.yaml", "name: trim(Name)\n  people", "name: trimm(Name)\n  people")
	w.edit("mapping.yaml", "\nown:", "\nexamples: [{given: {Nam: Jane Roe}, want: {name: Jane Roe}}]\nown:")
	rows = people(4)
	w.export(rows...)
	due()
	due()
	s.Close()
	w.expectOnePerRow(rows) // the fourth came by the mapping of before
	if n := strings.Count(log.String(), "the version before stays in force"); n != 1 {
		t.Errorf("the mistake was logged %d times, want once:\n%s", n, &log)
	}
	if !strings.Contains(log.String(), `trimm`) || strings.Contains(log.String(), "Jane Roe") {
		t.Errorf("the log does not name the mistake, or shows the record of an example:\n%s", &log)
	}
	history := decode[historyReport](t, w.expect(exitDone, "mapping", "history", "--output", "json"))
	if len(history.Versions) != 1 || history.Versions[0].Hash != good || history.Versions[0].Runs != 3 {
		t.Errorf("the runs used %+v, want %s alone", history.Versions, good)
	}
	status := w.expect(exitDone, "status").out
	for _, want := range []string{"The mapping of acme has had a mistake since",
		`unknown function "trimm"; did you mean "trim"?`, "payersync mapping check acme"} {
		if !strings.Contains(status, want) {
			t.Errorf("the status does not say %q:\n%s", want, status)
		}
	}

	w.edit("mapping.yaml", "trimm(Name)", "trim(Name)")
	w.edit("mapping.yaml", "{Nam:", "{AccountNumber: E1, Name:")
	log.Reset()
	s = w.served(&log)
	due()
	s.Close()
	if !strings.Contains(log.String(), "right again") {
		t.Errorf("that the file is right again is not logged:\n%s", &log)
	}
	if status := w.expect(exitDone, "status").out; strings.Contains(status, "mistake") {
		t.Errorf("the status still says:\n%s", status)
	}
}

// An edit that breaks the author's own examples is a mistake: a manual run refuses it, and a scheduled one
// uses the version before.
func TestAMappingWhoseExamplesFailIsNotUsed(t *testing.T) {
	t.Parallel()
	rows := people(3)
	w := newWorld(t, rows)
	w.edit("mapping.yaml", "\nown:",
		"\nexamples: [{given: {AccountNumber: E1, Name: Jane Roe, Email: jane@example.org}, want: {name: Jane Roe}}]\nown:")
	w.expect(exitDone, "sync")
	good := w.box.Writes()
	w.edit("mapping.yaml", "name: trim(Name)\n  people", "name: upper(trim(Name))\n  people")
	for _, run := range []string{"sync", "backfill", "plan"} {
		r := w.expect(exitUsage, run)
		if !strings.Contains(r.errOut, "mapping.yaml:11:") ||
			!strings.Contains(r.errOut,
				"its examples have other results than expected, in 1 place; payersync mapping check shows them") {
			t.Errorf("%s says:\n%s", run, r.errOut)
		}
	}
	if r := w.expect(exitUsage, "mapping", "check"); !strings.Contains(r.out, "JANE ROE") {
		t.Errorf("mapping check says:\n%s", r.out)
	}
	if r := w.expect(exitFailed, "check"); !strings.Contains(r.out, "FAIL  mapping acme") {
		t.Errorf("check says:\n%s", r.out)
	}
	var log bytes.Buffer
	s := w.served(&log)
	rows = people(4)
	w.export(rows...)
	if err := syncNow(t.Context(), s, s.Config.Connections[0], "schedule"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	w.expectOnePerRow(rows)
	for _, c := range w.box.Customers() {
		if strings.Contains(string(c.Raw), "PAYER") {
			t.Errorf("the service has %s, by the mapping whose examples fail", c.Raw)
		}
	}
	if w.box.Writes() != good+2 { // the fourth payer and its link
		t.Errorf("%d writes, want 2 more than %d", w.box.Writes(), good)
	}
	status := w.expect(exitDone, "status").out
	if !strings.Contains(log.String(), "the version before stays in force") ||
		!strings.Contains(status, "The mapping of acme has had a mistake since") {
		t.Errorf("nobody is told:\n%s%s", &log, status)
	}
	if told := strings.ToLower(log.String() + status); strings.Contains(told, "jane") {
		t.Errorf("what is told holds the record of an example:\n%s", told)
	}
}

func TestAFirstRunWithABadMappingSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(1))
	w.edit("mapping.yaml", "name: trim(Name)\n  people", "name: trimm(Name)\n  people")
	w.edit("mapping.yaml", "\nown:", "\nexamples: [{given: {Nam: Jane Roe}, want: {name: Jane Roe}}]\nown:")
	s := w.served(new(bytes.Buffer))
	defer s.Close()
	err := syncNow(t.Context(), s, s.Config.Connections[0], "schedule")
	if err == nil || !strings.Contains(err.Error(), "trimm") || strings.Contains(err.Error(), "Jane Roe") ||
		strings.Contains(err.Error(), "no such mapping") {
		t.Errorf("the run ended with %v", err)
	}
}

// The mapping is edited while the first create is answered: the run continues with its first version, and the
// next one uses the edit.
func TestARunIsBoundToTheMappingItBeganWith(t *testing.T) {
	t.Parallel()
	rows := people(5)
	w := newWorld(t, rows)
	var once sync.Once
	front := func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/customers") {
			once.Do(func() { w.edit("mapping.yaml", "name: trim(Name)\n  people", "name: upper(Name)\n  people") })
		}
		return false
	}
	w.front.Store(&front)
	w.expect(exitDone, "sync")
	w.expectOnePerRow(rows)
	for _, c := range w.box.Customers() {
		if strings.Contains(c.Name, "PAYER") {
			t.Fatalf("the edit reached the run under way: %s", c.Name)
		}
	}
	preview := decode[syncer.Preview](t, w.expect(exitDone, "mapping", "preview", "--output", "json"))
	w.expect(exitDone, "sync", "--yes")
	history := decode[historyReport](t, w.expect(exitDone, "mapping", "history", "--output", "json"))
	if preview.Updates != 5 || len(history.Versions) != 2 || history.Versions[0].Hash != history.FileHash {
		t.Errorf("%d updates were foreseen, the runs used %+v", preview.Updates, history.Versions)
	}
	for _, c := range w.box.Customers() {
		if !strings.Contains(c.Name, "PAYER") {
			t.Errorf("the next run did not take the edit up: %s", c.Name)
		}
	}
}

func TestARollbackIsRefusedWhereTheVersionNoLongerFits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	w.expect(exitDone, "sync")
	first := decode[historyReport](t, w.expect(exitDone, "mapping", "history", "--output", "json")).FileHash
	w.write("customers.csv", strings.Replace(w.read("customers.csv"), "Depot", "Yard", 1))
	w.edit("mapping.yaml", "line1: Depot", "line1: Yard")
	edited := w.read("mapping.yaml")
	r := w.expect(exitUsage, "mapping", "rollback", first[:6])
	if !strings.Contains(r.errOut, "does not fit the source of acme any more") ||
		!strings.Contains(r.errOut, `unknown field "Depot"`) {
		t.Errorf("the refusal says: %s", r.errOut)
	}
	if w.read("mapping.yaml") != edited {
		t.Error("the file was changed all the same")
	}
	if kept, _ := filepath.Glob(w.path("mapping.before-*")); len(kept) > 0 {
		t.Errorf("%v were written", kept)
	}
}

func (w *world) read(name string) string {
	w.t.Helper()
	data, err := os.ReadFile(w.path(name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(data)
}

func TestFieldsAreToldWithTheirFillAndCommonValues(t *testing.T) {
	t.Parallel()
	rows := people(20)
	rows[0].Phone, rows[1].Phone = "", "01632 960199"
	w := newWorld(t, rows)
	w.expect(exitDone, "sync")
	report := decode[fieldsReport](t, w.expect(exitDone, "mapping", "fields", "--output", "json"))
	got := map[string]string{}
	for _, f := range report.Fields {
		got[f.Written] = fmt.Sprint(f.Filled, " of ", f.Records, " ", f.Distinct, " ")
		for _, e := range f.Examples {
			got[f.Written] += fmt.Sprint(e.Value, "×", e.Count, " ")
		}
	}
	want := map[string]string{
		"AccountNumber": "20 of 20 20 A…×1 A…×1 A…×1 ",
		"Name":          "20 of 20 20 P…×1 Pa…×1 Pa…×1 ",
		"Email":         "20 of 20 20 pay…×1 pay…×1 pay…×1 ",
		"Phone":         "19 of 20 2 01632 960100×18 016…×1 ",
		"Street":        "20 of 20 20 1 …×1 10 …×1 11 …×1 ",
		"Depot":         "0 of 20 0 ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	whole := w.expect(exitDone, "mapping", "fields", "--show-values").out
	if !strings.Contains(whole, "payer10@example.org") {
		t.Errorf("--show-values shortens:\n%s", whole)
	}
}

func TestBankDetailsInTheExternalDataAreNotShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.edit("mapping.yaml", "mandate:\n  request: any(customer.people, .email != \"\")",
		"externalData: {ref: IBAN}\nmandate: {request: customer.externalData.ref != \"\"}")
	for _, iban := range []string{"GB29NWBK60161331926819", "GB94BARC10201530093459"} { // the second as a change
		w.write("customers.csv", "AccountNumber,Name,Email,Phone,Street,Depot,IBAN\nA1,Ann,ann@example.org,,1 Mill Lane,,"+iban+"\n")
		w.expect(exitDone, "sync")
		for _, output := range []string{"table", "json"} {
			told := w.expect(exitDone, "payers", "show", "A1", "--show-values", "--output", output).out
			if !strings.Contains(told, admin.NotShown) || !strings.Contains(told, "ann@example.org") ||
				strings.Contains(told, "NWBK") || strings.Contains(told, "BARC") {
				t.Errorf("told as %s:\n%s", output, told)
			}
		}
	}
}

// Mapping commands print the same without the file as with it: they use the columns of the last run, and say
// so.
func TestMappingCommandsWorkWhileTheFileIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	w.expect(exitDone, "sync")
	version := decode[historyReport](t, w.expect(exitDone, "mapping", "history", "--output", "json")).FileHash
	w.edit("mapping.yaml", "name: trim(Name)\n  people", "name: upper(Name)\n  people")
	commands := [][]string{
		{"mapping", "fields"}, {"mapping", "check"}, {"mapping", "preview"}, {"mapping", "check", "--coverage"},
		{"payers", "show", "A00002"}, {"mapping", "rollback", version},
	}
	var before []string
	for _, command := range commands[:len(commands)-1] {
		before = append(before, w.expect(exitDone, command...).out)
	}
	if err := os.Rename(w.path("customers.csv"), w.path("moved.csv")); err != nil {
		t.Fatal(err)
	}
	for i, command := range commands {
		got := w.expect(exitDone, command...)
		if i < len(before) && got.out != before[i] {
			t.Errorf("payersync %s without the file: %s", strings.Join(command, " "), cmp.Diff(before[i], got.out))
		}
		if !strings.Contains(got.errOut, "acme: cannot look up its columns, so those of the last run are used:") ||
			!strings.Contains(got.errOut, "customers.csv") {
			t.Errorf("payersync %s does not say whose columns it used:\n%s", strings.Join(command, " "), got.errOut)
		}
	}
	w.expect(exitFailed, "plan")
}

func TestMappingCommandsAskNoDatabaseServerOnceARunHasMetIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.edit("payersync.yaml", "{kind: csv, path: customers.csv, id: [AccountNumber]}",
		"{kind: sql, driver: postgres, host: 127.0.0.1, port: 1, database: d, user: u, table: customers, id: [AccountNumber]}")
	w.edit("mapping.yaml", "source: csv", "source: sql")
	w.expect(exitFailed, "mapping", "fields") // nobody knows the columns

	s := w.served(new(bytes.Buffer))
	info := connector.SourceInfo{Kind: "sql", Snapshot: true}
	for _, name := range []string{"AccountNumber", "Name", "Email", "Phone", "Street", "Depot"} {
		info.Fields = append(info.Fields, connector.Field{Name: name, Type: connector.TypeText})
	}
	if err := s.Ledger.Do(t.Context(), func(tx *state.Tx) error {
		return tx.PinConnection(state.Connection{Name: "acme", Info: info})
	}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if out := w.expect(exitDone, "mapping", "fields").out; !strings.Contains(out, "AccountNumber  text") {
		t.Errorf("the fields are\n%s", out)
	}
	w.expect(exitDone, "mapping", "check")
	w.edit("mapping.yaml", "line1: Street", "line1: Quay")
	if said := w.expect(exitUsage, "mapping", "preview").errOut; !strings.Contains(said, `unknown field "Quay"`) ||
		!strings.Contains(said, "acme: the columns are those of the last run; payersync plan acme looks them up again") {
		t.Errorf("a column that is new is refused with\n%s", said)
	}
}

func hashOf(text []byte) string { return admin.HashOfMapping(text) }
