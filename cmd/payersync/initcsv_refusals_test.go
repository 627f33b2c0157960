package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestInitTellsOtherProgramsWhatItFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(30))
	r := w.expect(exitDone, "init", "--csv", w.path("customers.csv"), "--name", "Harbour Books Ltd", "--ask", "everybody",
		"--output", "json", w.path("harbour"))
	var got dataReport
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		t.Fatalf("%v:\n%s", err, r.out)
	}
	if got.Name != "harbour-books-ltd" || got.File.Rows != 30 || got.File.Columns[0].Name != "AccountNumber" ||
		strings.Join(got.Proposal.ID, "") != "AccountNumber" || got.Plan.Creates != 30 || got.Plan.Links != 30 {
		t.Errorf("it says %+v", got)
	}
	if config, err := os.ReadFile(w.path("harbour/payersync.yaml")); err != nil ||
		!strings.Contains(string(config), fmt.Sprintf("path: %q", w.path("customers.csv"))) {
		t.Errorf("a file outside of the folder is not named by its whole path, %v:\n%s", err, config)
	}
}

// A file in the folder is named by its relative path, so both can move.
func TestInitNamesAFileInItsFolderByTheWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	for _, name := range []string{"payersync.yaml", "mapping.yaml", "payersync.key"} {
		w.remove(name)
	}
	w.expect(exitDone, "init", "--csv", w.path("customers.csv"), "--yes", "--name", "Muster", w.dir)
	if config, err := os.ReadFile(w.path("payersync.yaml")); err != nil ||
		!strings.Contains(string(config), `path: "customers.csv"`) {
		t.Errorf("%v:\n%s", err, config)
	}
}

func TestInitSaysWhyAFileCannotBeSetUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	w.write("noid.csv", "Name;Ort;E-Mail\nAnn;Leeds;a@a.example\nAnn;Leeds;a@a.example\nAnn;York;\nBob;York;b@b.example\n")
	w.write("noname.csv", "Id;Betrag;Datum\nA1;1,00;12.03.2026\nA2;2,00;12.03.2026\n")
	for _, file := range []string{"sage50.csv", "EXTF_GP_Stamm.csv"} {
		w.write(file, "Id;Name\nA1;Ann\nA2;Bob\n")
	}
	w.write("halfxero.csv", "ContactName,AccountNumber\nAnn,A1\nBob,B1\n")
	w.write("rowless.csv", "Id;Name;E-Mail\n")
	w.write("xero.csv", "ContactName,AccountNumber\nAnn,\nBob,\nCy,\n")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--csv", w.path("absent.csv")}, "there is no such file; put the export there, or correct its path"},
		{[]string{"--csv", w.dir}, "it is not a plain file; give the path of the exported CSV file"},
		{[]string{"--csv", w.path("rowless.csv")},
			"has headings in line 1 and no usable row below them; export it with its customers"},
		{[]string{"--csv", w.path("noid.csv")},
			"identifies a customer for ever, and payersync cannot tell customers apart without one:\n  Name: its texts are no numbers, and names change\n  E-Mail: people change"},
		{[]string{"--csv", w.path("noid.csv"), "--id", "Nummer"},
			"noid.csv has no such column; its columns are Name, Ort, E-Mail"},
		{[]string{"--csv", w.path("noname.csv")}, "noname.csv contains names, and a customer needs one; export the file"},
		{[]string{"--csv", w.path("xero.csv")}, "It reads like an export of xero: --source csv-xero"},
		{[]string{"--csv", w.path("customers.csv"), "--source", "csv-sage"}, "Reference"},
		{[]string{"--csv", w.path("halfxero.csv"), "--source", "csv-xero", "--name", "A Ltd"},
			"is no file as --source csv-xero is for: it has no column "},
		{[]string{"--csv", w.path("customers.csv"), "--source", "xero"}, "--csv reads a file, and --source xero does not"},
		{[]string{"--csv", w.path("customers.csv"), "--yes"},
			"does not name the company of its customers, the connection keeps that name for ever, and --yes asks nothing; add --name COMPANY"},
		{[]string{"--csv", w.path("customers.csv")}, "and standard input is no terminal to ask on; add --name COMPANY"},
		{[]string{"--csv", w.path("sage50.csv"), "--yes"}, "add --name COMPANY"},
		{[]string{"--csv", w.path("EXTF_GP_Stamm.csv")}, "add --name COMPANY"},
		{[]string{"--csv", w.path("customers.csv"), "--name", "…"}, "has no letter to make a name of"},
		{[]string{"--name", "Acme"}, "add --csv FILE"},
	} {
		r := w.run(append(append([]string{"init"}, tt.args...), w.path("new"))...)
		if r.code != exitUsage || !strings.Contains(r.errOut, tt.want) || exists(w.path("new")) {
			t.Errorf("%v ended with %d, want %q:\n%s", tt.args, r.code, tt.want, r.errOut)
		}
	}
}

// The shipped mapping of a system is used as it is, with the country of the file.
func TestInitKnowsAnExportBySource(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	export, err := os.ReadFile("../../mapping/propose/testdata/xero.csv")
	if err != nil {
		t.Fatal(err)
	}
	w.write("Contacts.csv", string(export))
	r := w.expect(exitDone, "init", "--csv", w.path("Contacts.csv"), "--source", "csv-xero", "--name", "Saltmarsh",
		"--ask", "everybody", w.path("salt"))
	if !strings.Contains(r.out, "6 customers would be created, 5 of them asked for a mandate") {
		t.Errorf("it says:\n%s", r.out)
	}
	mapping, err := os.ReadFile(w.path("salt/mapping.yaml"))
	if err != nil || !strings.Contains(string(mapping), "key: {xeroAccountNumber:") ||
		!strings.Contains(string(mapping), "region: GB ") {
		t.Errorf("the mapping is, %v:\n%s", err, mapping)
	}
}

// A value of the file cannot control the terminal.
func TestAColumnCannotSteerTheTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.write("steer.csv", "Id;Name;Status\nA1;\x1b[2JAnn;ak\x1btiv\nA2;Bob\u202e;aktiv\nA3;Cy;aus\n")
	r := w.run("init", "--csv", w.path("steer.csv"), "--yes", "--name", "Muster", w.path("steer"))
	if strings.ContainsAny(r.out+r.errOut, "\x1b\u202e") || !strings.Contains(r.out, "\uFFFD[2JAnn") {
		t.Errorf("it ended with %d:\n%q\n%s", r.code, r.out, r.errOut)
	}
}

// Nor can the name of the file.
func TestAFileNameCannotSteerTheTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for i, tt := range []struct {
		text string
		args []string
	}{
		{"Id;Name\nA1;Ann\nA2;Bob\n", []string{"--name", "Muster"}},
		{"Id;Name\nA1;Ann\nA2;Bob\n", nil},
		{"Id;Name\nA1;Ann\nA2;Bob\n", []string{"--id", "\x1bX"}},
		{"Id;Name\nA1;Ann\nA2;Bob\n", []string{"--source", "csv-xero", "--name", "Muster"}},
		{"Id;Betrag\nA1;1,00\nA2;2,00\n", nil},
		{"Name;Ort\nAnn;X\nBob;X\n", nil},
		{"Id;Name\n", nil},
		{"", nil},
	} {
		file := fmt.Sprintf("ku\x1b[2J\u202enden%d.csv", i)
		w.write(file, tt.text)
		r := w.run(append([]string{"init", "--csv", w.path(file), w.path(fmt.Sprint("new", i))}, tt.args...)...)
		if strings.ContainsAny(r.out+r.errOut, "\x1b\u202e") || !strings.Contains(r.out+r.errOut, "ku\uFFFD[2J\uFFFDnden") {
			t.Errorf("%q, %v ended with %d:\n%q\n%q", tt.text, tt.args, r.code, r.out, r.errOut)
		}
	}
}

// Nobody sees an account's number, however the heading calls it.
func TestInitShowsNoBankDetails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	headings := []string{"Kontonummer", "BLZ", "RIB", "Rekeningnummer", "Kontoinhaber", "Account holder", "IBAN",
		"Bank account", "Sort code", "Número de cuenta"}
	var text strings.Builder
	text.WriteString("Kd.-Nr.;Name;" + strings.Join(headings, ";") + "\n")
	for i := range 3 {
		fmt.Fprintf(&text, "K-%d;Ann %d%s\n", i, i, strings.Repeat(fmt.Sprintf(";geheim 4711%d", i), len(headings)))
	}
	w.write("bank.csv", text.String())
	for _, format := range []string{"table", "json"} {
		r := w.run("init", "--csv", w.path("bank.csv"), "--yes", "--name", "Muster", "--output", format,
			w.path("bank-"+format))
		if r.code != exitDone || strings.Contains(r.out+r.errOut, "4711") ||
			strings.Count(r.out, "[not shown]") != len(headings) {
			t.Errorf("it ended with %d:\n%s%s", r.code, r.out, r.errOut)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
