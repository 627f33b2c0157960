package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"

	"payersync/connector"
	"payersync/connector/sandbox"
	"payersync/internal/longtest"
)

// messy is a realistic export: Windows-1252, titles and a total, customers in three languages, doubled ids,
// ids changed by a spreadsheet, blanks, a malformed address.
type messy struct {
	text    string
	debit   int // rows that pay by direct debit and are no case for a person
	active  int // of these, those that say so
	resting int // of these, those whose status says neither
	asked   int // of active, those with an e-mail address
}

// parts are what a row is made of, language by language.
var parts = []struct {
	companies, first, last, streets, towns []string
	land, code, trunk, domain              string
	countries                              []string
}{
	{[]string{"Bäckerei %s GmbH", "%s & Söhne KG", "Gasthof %s", "Elektro %s e.K."},
		[]string{"Jürgen", "Eva", "Björn", "Käthe"}, []string{"Grün", "Weiß", "Müller", "Schäfer", "Öztürk"},
		[]string{"Hauptstraße", "Am Markt", "Lange Gasse"}, []string{"50667;Köln", "01067;Dresden", "90403;Nürnberg"},
		"Deutschland", "49", "0221 4710", "de", []string{"Deutschland", "Deutschland", "DE", ""}},
	{[]string{"Boulangerie %s", "Garage %s SARL", "Café %s"}, []string{"Zoé", "Luc", "Chloé", "François"},
		[]string{"Étoile", "Noël", "Petit", "Lefèvre"},
		[]string{"rue Haute", "place de l'Église"}, []string{"59000;Lille", "67000;Strasbourg"}, "France", "33",
		"03 20 00 00 ", "fr", []string{"France", "FR"}},
	{[]string{"Panificio %s S.r.l.", "Bar %s", "Libreria %s"}, []string{"Niccolò", "Anna", "Luì"},
		[]string{"Rossi", "D'Angelo", "Forlì"},
		[]string{"Via Roma", "Piazza della Libertà"}, []string{"20121;Milano", "47121;Forlì"}, "Italia", "39", "02 0000 0",
		"it", []string{"Italia", "IT"}},
}

func messyExport(rows int) messy {
	var m messy
	var text strings.Builder
	text.WriteString("Kundenliste Muster GmbH;;;;;;;;;;;;;\r\nStand: 12.03.2026;;;;;;;;;;;;;\r\n\r\n")
	text.WriteString("Kd.-Nr.;Externe ID;Name 1;Name 2;Ansprechpartner;Straße;PLZ;Ort;Land;Telefon;E-Mail;Zahlungsart;Status;IBAN\r\n")
	for i := range rows {
		p := parts[i%len(parts)]
		last := p.last[i/3%len(p.last)]
		id, sound := fmt.Sprintf("K-%d", 10_001+i), true
		switch {
		case i%60 == 59: // five pairs
			id, sound = fmt.Sprintf("K-%d", 10_001+i-1), false
		case i%60 == 58:
			sound = false
		case i%100 == 30:
			id, sound = "1,23E+15", false
		}
		more, street := "", fmt.Sprintf("%s %d", p.streets[i%len(p.streets)], i%80+1)
		if i%17 == 3 {
			more = "Filiale Süd"
		}
		if i%50 == 7 {
			street = "\"" + street + "\nHinterhaus „B“\""
		}
		email := fmt.Sprintf("info%d@%s.%s", i, []string{"baecker", "muster", "haus"}[i%3], p.domain)
		switch {
		case i%10 == 9:
			email = ""
		case i%40 == 21:
			email = `"` + email + `; buchhaltung@muster.de"`
		case i == 100:
			email, sound = "info(at)muster.de", false
		}
		pays, status := "SEPA-Lastschrift", "aktiv"
		if i%7 == 1 {
			pays = "Überweisung"
		}
		switch {
		case i%25 == 24:
			status = "inaktiv"
		case i%30 == 12:
			status = "ruht"
		}
		line := strings.Join([]string{id, "1,23E+15", fmt.Sprintf(p.companies[i%len(p.companies)], last), more,
			p.first[i%len(p.first)] + " " + last, street,
			p.towns[i%len(p.towns)], p.countries[i%len(p.countries)], fmt.Sprintf("%s%02d", p.trunk, i%100), email, pays, status,
			""}, ";")
		if i == 200 {
			line, sound = id+";;abgeschnitten", false
		}
		text.WriteString(line + "\r\n")
		if !sound || pays != "SEPA-Lastschrift" || status == "inaktiv" {
			continue
		}
		m.debit++
		if status == "ruht" {
			m.resting++
			continue
		}
		m.active++
		if email != "" {
			m.asked++
		}
	}
	fmt.Fprintf(&text, "Summe;%d Kunden;;;;;;;;;;;;\r\n", rows)
	m.text = text.String()
	return m
}

// exported writes a messy export into a world for init's set-up.
func exported(t *testing.T, m messy) (w *world, file string) {
	t.Helper()
	w = newWorld(t, nil, func(o *sandbox.Options) { o.ClientSecret = connector.NewSecret("sandbox-secret") })
	latin, err := charmap.Windows1252.NewEncoder().String(m.text)
	if err != nil {
		t.Fatal(err)
	}
	file = w.path("Kunden Muster GmbH 2026.csv")
	if err := os.WriteFile(file, []byte(latin), 0o600); err != nil {
		t.Fatal(err)
	}
	return w, file
}

// pointed sets a set-up to the world's sandbox, on another port than payersync sandbox.
func (w *world) pointed(dir string) string {
	w.t.Helper()
	config := filepath.Join(dir, configFile)
	text, err := os.ReadFile(config)
	if err != nil {
		w.t.Fatal(err)
	}
	changed := strings.ReplaceAll(string(text), "http://127.0.0.1:8090", w.service.URL)
	if err := os.WriteFile(config,
		[]byte(strings.ReplaceAll(changed, "  profile: sandbox\n", "  profile: sandbox\n  rate_per_second: 100000\n")),
		0o600); err != nil {
		w.t.Fatal(err)
	}
	return config
}

// From the export to its customers nobody opens an editor.
func TestAMessyExportGoesFromInitToCustomers(t *testing.T) {
	t.Parallel()
	m := messyExport(300)
	w, file := exported(t, m)
	dir, scratch := w.path("muster"), t.TempDir()
	w.env["TMPDIR"] = scratch
	r := w.start("init", "--csv", file, "--ask", "everybody", dir).wait() // the folder is Go's to find
	if r.code != exitDone || w.box.Writes() != 0 {
		t.Fatalf("init ended with %d and %d writes:\n%s%s", r.code, w.box.Writes(), r.out, r.errOut)
	}
	for _, want := range []string{
		"Windows-1252, semicolons, headings in line 4, 300 rows, 14 columns", "Bäckerei",
		"Above the headings: Kundenliste Muster GmbH / Stand: 12.03.2026",
		"Externe ID is no id: a spreadsheet has written all 299 values as 1.23E+15: two that look equal may have been two.",
		"Proposed for muster-gmbh", `key.customerNumber: trim(field("Kd.-Nr."))`,
		`include: not (trim(field("Kd.-Nr.")) startsWith "Summe") && lower(trim(Status)) == "aktiv" && lower(trim(Zahlungsart)) == "sepa-lastschrift"`,
		"such as: Lines ",
		fmt.Sprintf("%d customers would be created, %d of them asked for a mandate", m.active, m.asked),
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("it does not say %q:\n%s", want, r.out)
		}
	}
	if !strings.Contains(r.errOut, `Taken: only "aktiv"`) ||
		!strings.Contains(r.errOut, `Taken: only "sepa-lastschrift"`) {
		t.Errorf("it does not say what it took unasked:\n%s", r.errOut)
	}
	for _, text := range []string{"mapping.yaml", "payersync.yaml"} {
		data, err := os.ReadFile(filepath.Join(dir, text))
		if err != nil || strings.Contains(string(data), "Grün") || strings.Contains(string(data), "@muster") {
			t.Errorf("%s holds customers, %v:\n%s", text, err, data)
		}
	}
	if rest, err := os.ReadDir(scratch); err != nil || len(rest) > 0 || exists(filepath.Join(dir, "payersync.db")) {
		t.Errorf("the plan left something behind: %v, %v", rest, err)
	}

	p := w.process("backfill", "--yes")
	p.configure(w.pointed(dir))
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errOut
	if err := p.begin(); err != nil {
		t.Fatal(err)
	}
	if r := p.wait(); r.code != exitAttention {
		t.Fatalf("backfill ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	found := map[string]bool{}
	for _, c := range w.box.Customers() {
		found[string(c.Raw)] = true
	}
	if len(found) != m.active {
		t.Errorf("the service has %d customers, want %d", len(found), m.active)
	}
	whole := fmt.Sprint(found)
	for _, want := range []string{"Bäckerei", "Étoile", "Forlì", "Schäfer", "+49221", "+3332", "+3902"} {
		if !strings.Contains(whole, want) {
			t.Errorf("no customer has %q", want)
		}
	}
	for _, wrong := range []string{"1,23E+15", "Überweisung", "Summe", "\uFFFD"} {
		if strings.Contains(whole, wrong) {
			t.Errorf("a customer has %q", wrong)
		}
	}
}

// A plan of all rows of a large file takes minutes, so its first rows are planned and all are counted.
func TestOfALargeFileTheFirstRowsArePlannedAndAllAreCounted(t *testing.T) {
	longtest.Story(t, longtest.LargeFile)
	t.Parallel()
	m := messyExport(mostTried + 300)
	w, file := exported(t, m)
	r := w.expect(exitDone, "init", "--csv", file, "--yes", "--output", "json", w.path("muster"))
	var got dataReport
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		t.Fatalf("%v:\n%s", err, r.out)
	}
	first := messyExport(mostTried + 1).active // of these, one is no row that can be used
	if got.Plan.Rows != mostTried || got.Plan.Creates < first-1 || got.Plan.Creates > first+1 {
		t.Errorf("it plans %d rows and %d customers, want %d and about %d", got.Plan.Rows, got.Plan.Creates, mostTried, first)
	}
	if all := got.Plan.All; all == nil || all.Customers != m.active || all.Asked != m.asked || all.LeftOut == 0 ||
		all.Held == 0 {
		t.Errorf("of all rows it counts %+v, want %d customers and %d asked", all, m.active, m.asked)
	}
	if len(got.Plan.Reasons) == 0 ||
		!strings.HasPrefix(got.Plan.Reasons[0].Example, "Lines 65 and 66 have the same Kd.-Nr.") {
		t.Errorf("the lines are not those of the file: %+v", got.Plan.Reasons)
	}
}

// A person answers: everybody but the inactive, and only payers by direct debit.
func TestAPersonAnswersTheQuestionsOfInit(t *testing.T) {
	t.Parallel()
	m := messyExport(300)
	w, file := exported(t, m)
	p := w.at(nil, "init", "--csv", file, w.path("muster"))
	p.askedOf(`"Status" says "aktiv"`)
	p.types("5\r")
	p.askedOf(`"5" is none of them.`)
	p.types("2\r")
	p.askedOf(`"Zahlungsart" says who pays`)
	p.types("\r")
	p.askedOf("Which payers do you ask to sign")
	p.types("\r")
	if r := p.wait(); r.code != exitDone {
		t.Fatalf("it ended with %d:\n%s", r.code, r.out)
	}
	p.sees("Kunden Muster GmbH 2026.csv: Windows-1252", "Column", "Kd.-Nr.",
		`"Status" says "aktiv", "inaktiv", "ruht". Who is a customer?`, "  1  only", "  2  all but",
		"Which one, 1 to 3? [1] 5", `"5" is none of them.`, "Which one, 1 to 3? [1] 2", "Which one, 1 to 2? [1]",
		"Proposed for muster-gmbh",
		"A plan of it", fmt.Sprintf("  %d customers would be created", m.debit))
	for _, line := range p.seen() {
		if n := len([]rune(line)); n > 80 && !strings.HasPrefix(line, "  payersync ") {
			t.Errorf("a line takes %d columns: %q", n, line)
		}
	}
}

// Four things are not sure here.
func TestInitAsksThreeQuestionsAtMost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.write("export Muster GmbH.csv", "Debitor;Kundennummer;Name;E-Mail;E-Mail Rechnung;Status;Zahlungsart\n"+
		"1001;K-1;Ann;a@a.example;ra@a.example;ruht;Lastschrift\n1002;K-2;Bob;b@b.example;rb@b.example;neu;Lastschrift\n1003;K-3;Cy;c@c.example;rc@c.example;neu;Bar\n")
	p := w.at(nil, "init", "--csv", w.path("export Muster GmbH.csv"), w.path("muster"))
	for _, question := range []string{"Which e-mail address", "Which column is the customer's number", `"Status" says`} {
		p.askedOf(question)
		p.types("2\r")
	}
	p.askedOf("Which payers do you ask to sign")
	p.types("\r")
	if r := p.wait(); r.code != exitDone {
		t.Fatalf("it ended with %d:\n%s", r.code, r.out)
	}
	p.sees(`Not asked: "Zahlungsart" says`, "Proposed for muster-gmbh")
	mapping, err := os.ReadFile(w.path("muster/mapping.yaml"))
	for _, want := range []string{`lower(firstEmail(field("E-Mail Rechnung")))`, "customerNumber: trim(Debitor)",
		`lower(trim(Status)) == "neu"`} {
		if err != nil || !strings.Contains(string(mapping), want) {
			t.Errorf("the mapping has no %q, %v:\n%s", want, err, mapping)
		}
	}
}

// The file does not name its company.
func TestInitAsksWhoseBooksTheseAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(3))
	p := w.at(nil, "init", "--csv", w.path("customers.csv"), w.path("new"))
	p.askedOf("Which company's customers are these?")
	p.types("Bäckerei Grün\r")
	p.askedOf("Which payers do you ask to sign")
	p.types("\r")
	if r := p.wait(); r.code != exitDone {
		t.Fatalf("it ended with %d:\n%s", r.code, r.out)
	}
	p.sees("Which company's customers are these? The name cannot be changed later. Enter takes the name of the folder. [new] Bäckerei Grün", "Proposed for baeckerei-gruen")
}

func TestInitTellsWhatIsOddAboutAFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.write("odd.csv", "Id;Name;E-Mail;E-Mail\nA1;Ann;a@a.example;\nA2;Bob\nA3;\"Cy\" Ltd;;\nA4;Di;;\n")
	r := w.run("init", "--csv", w.path("odd.csv"), "--yes", "--name", "Muster", w.path("odd"))
	for _, want := range []string{
		"The heading E-Mail stands more than once: the second is called “E-Mail (2)”.",
		"1 row cannot be used and would wait, for example: Line 3 has only 2 of the header's 4 columns.",
		"It makes no sense to its end: line 4 has a quotation mark in the wrong place, so that rows and text cannot be told apart from line 4 on. Correct that line before a first run.",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("it ended with %d and does not say %q:\n%s%s", r.code, want, r.out, r.errOut)
		}
	}
}

// covers F286
func TestInitEndsWithWhatItTookForGrantedAndTheRowsThatLookOdd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.write("odd.csv", "No,Name,Status,Email,Street,Postcode\nK1,Ash Ltd,A,a@ash.example,1 Quay St.,LS1 4AP\nK2,Nordbank AG Sparkasse,B,b@b.example,,\nK3,Finanzamt Mitte,A,f@f.example,,\nK4,Walk-in Leeds,B,,,\n"+
		"K5,Beech dummy,A,,,\nK6,NULL,B,n@n.example,,\nK7,Cedar Ltd,A,A@ash.example,9 Low Rd,LS1 4AP\nK8,Ash & Co,B,c@ash.example,1 QUAY ST,ls14ap\nK9,Elm Ltd,B,e@elm.example,,LS1 4AP\nK10,Fir Ltd,B,g@fir.example,,LS1 4AP\nK11,Cash Sales,B,,,\nK12,DO NOT USE,B,,,\n")
	r := w.run("init", "--csv", w.path("odd.csv"), "--yes", "--name", "Muster", w.path("odd"))
	for _, want := range []string{
		"Taken for granted", "mapping.yaml:", "Who is a customer? Taken: everybody (12 rows).",
		"2 of 12 rows have a name in \"Name\" as “cash sales” or “do not use” and are excluded.",
		"mandate.request: whoever has an e-mail address is asked",
		"line 3: its name is that of a bank", "line 4: its name is that of a tax", "line 5: it stands for cash sales",
		"line 6: its name marks it as unused", "line 7: it has no name", "line 8: it has the same e-mail address as line 2",
		"line 9: it has the same postal address as line 2",
	} {
		if !strings.Contains(strings.Join(strings.Fields(r.out), " "), want) {
			t.Errorf("it ended with %d and does not say %q:\n%s%s", r.code, want, r.out, r.errOut)
		}
	}
}

func TestCtrlCAtAQuestionOfInitWritesNothing(t *testing.T) {
	t.Parallel()
	w, file := exported(t, messyExport(60))
	p := w.at(nil, "init", "--csv", file, w.path("muster"))
	p.askedOf(`"Status" says`)
	p.types("\003")
	if r := p.wait(); r.code != exitInterrupted || exists(w.path("muster")) {
		t.Errorf("it ended with %d:\n%s", r.code, r.out)
	}
}

// askedOf waits for a question with several answers.
func (t *terminal) askedOf(question string) {
	t.t.Helper()
	eventually(t.t, "the question", func() bool {
		shown := t.out.String()
		at := strings.LastIndex(shown, question)
		return at >= 0 && strings.HasSuffix(shown, "] ") || t.over()
	})
}
