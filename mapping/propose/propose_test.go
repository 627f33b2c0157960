package propose_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payersync/connector"
	"payersync/connector/accounting/csvfile"
	"payersync/mapping"
	"payersync/mapping/propose"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// exported returns the table of an export below testdata.
func exported(t *testing.T, path string) propose.Table {
	t.Helper()
	f, err := csvfile.Sniff(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return propose.Table{Columns: f.Columns, Rows: f.Rows, Totals: f.Totals, Spoilt: csvfile.Spoilt}
}

// source describes a table as the source of a connection does.
func source(t propose.Table) connector.SourceInfo {
	info := connector.SourceInfo{Kind: "csv", Organisation: "example"}
	for _, name := range t.Columns {
		info.Fields = append(info.Fields, connector.Field{Name: name, Type: connector.TypeText})
	}
	return info
}

// told is a proposal as a golden file keeps it.
func told(p propose.Proposal) string {
	var out strings.Builder
	if p.Recognised != nil {
		fmt.Fprintf(&out, "%s\n", p.Recognised)
	}
	fmt.Fprintf(&out, "id: %q\n", p.ID)
	for _, r := range p.Refused {
		fmt.Fprintf(&out, "no id: %s: %s\n", r.Column, r.Why)
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&out, "note: %s\n", n)
	}
	for _, q := range p.Questions {
		fmt.Fprintf(&out, "question: %s\n", q.Text)
		for i, o := range q.Options {
			fmt.Fprintf(&out, "  %d. %s\n", i+1, o)
		}
	}
	return out.String() + "\n" + string(p.File())
}

// customers are what the proposal makes of the rows, a line each.
func customers(t *testing.T, p propose.Proposal, table propose.Table) string {
	t.Helper()
	m, err := mapping.Load("mapping.yaml", p.File(), source(table))
	if err != nil {
		t.Fatalf("the proposal is no mapping: %v\n%s", err, p.File())
	}
	var out strings.Builder
	for _, row := range table.Rows {
		record := map[string]string{}
		for i, name := range table.Columns {
			record[name] = row[i]
		}
		data, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		made, err := m.Apply(connector.Record{State: connector.RecordActive, Data: data})
		c := made.Customer
		switch {
		case err != nil:
			fmt.Fprintf(&out, "held: %v\n", err)
			continue
		case !made.Included:
			fmt.Fprintf(&out, "left out: %s\n", strings.Join(row, " | "))
			continue
		case made.RequestMandate:
			out.WriteString("asked: ")
		default:
			out.WriteString("not asked: ")
		}
		fmt.Fprintf(&out, "%s %q", made.Key.Value, c.Name)
		for _, person := range c.People {
			fmt.Fprintf(&out, ", %q %s %s", person.Name, person.Email, person.Phone)
		}
		for _, a := range c.Addresses {
			fmt.Fprintf(&out, ", %q %q %q %q", a.Line1, a.City, a.PostCode, a.Country)
		}
		for _, problem := range c.Problems() {
			fmt.Fprintf(&out, "; held: %v", problem)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// namedID are the id columns that a person names for exports without a customer number.
var namedID = map[string][]string{
	"program-quickbooks-online.csv": {"Name"}, "program-quickbooks-contact-list.csv": {"Customer"},
	"program-freshbooks.csv":           {"Organization", "Email"},
	"program-wave-without-numbers.csv": {"customer_name"}, "program-shopify-without-number.csv": {"Email"},
	"program-quickbooks-desktop-jobs.csv": {"Customer"},
}

// The exports are invented, with the headings that each program writes.
func TestWhatIsProposedForAnExport(t *testing.T) {
	t.Parallel()
	exports, err := filepath.Glob("testdata/*.csv")
	if err != nil || len(exports) < 9 {
		t.Fatalf("%d exports, %v", len(exports), err)
	}
	for _, path := range exports {
		table := exported(t, path)
		p := propose.From(table, propose.Said{ID: namedID[filepath.Base(path)]})
		golden := strings.TrimSuffix(path, ".csv") + ".golden"
		got := told(p)
		if len(p.ID) > 0 {
			got += "\n" + customers(t, p, table)
		}
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got); -update rewrites it:\n%s", path, diff)
		}
	}
}

// rows makes a table of lines.
func rows(lines ...string) propose.Table {
	t := propose.Table{Spoilt: csvfile.Spoilt}
	for i, line := range lines {
		cells := strings.Split(line, ";")
		if i == 0 {
			t.Columns = cells
			continue
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

func value(p propose.Proposal, path string) string {
	for _, r := range p.Rules {
		if r.Path == path {
			return r.Value
		}
	}
	return ""
}

func TestAProposalFromAPartOfTheRowsSaysSoInItsFile(t *testing.T) {
	t.Parallel()
	table := rows("No;Name", "1;Anna Meyer", "2;Ben Huber", "3;Clara Otto")
	for part, want := range map[bool]bool{false: false, true: true} {
		table.Part = part
		p := propose.From(table, propose.Said{})
		if got := strings.Contains(string(p.File()),
			"# proposed it; behind each # is why. It goes by the first 3 rows.\n# Correct what is wrong"); got != want {
			t.Errorf("of a part %v:\n%s", part, p.File())
		}
	}
}

// covers F285
func TestAnIDMayBeTheName(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		id, want, contact string
		table             propose.Table
	}{
		{"Customer", "trim(Customer)", `trim(field("Full Name"))`,
			rows("Customer;Full Name;Email", "Bee Farm;Ann Oak;a@a.example", "Cat Cafe;;b@b.example",
				"Dog Walks;Di Elm;c@c.example")},
		{"Kunde", "trim(Kunde)", "trim(Ansprechpartner)",
			rows("Kunde;Ansprechpartner;E-Mail", "Amt Nord;Jo Rot;a@a.example", "Bad Süd;;b@b.example",
				"Chor West;Uli Blau;c@c.example")},
		{"Client", "trim(Client)", "", rows("Client;Courriel", "Atelier Un;a@a.example", "Bureau Deux;b@b.example")},
		{"Display Name", `trim(field("Display Name"))`, "",
			rows("Display Name;Email", "Ann Oak;a@a.example", "Bob Elm;b@b.example")},
		{"Matchcode", "trim(Matchcode)", "", rows("Matchcode;E-Mail", "OAK ANN;a@a.example", "ELM BOB;b@b.example")},
		{"Code", "trim(Customer)", "", rows("Code;Customer;Email", "K100;Ann Oak;a@a.example", "K200;Bob Elm;b@b.example")},
	} {
		p := propose.From(tt.table, propose.Said{ID: []string{tt.id}})
		if got := value(p, "customer.name"); got != tt.want || tt.contact != "" &&
			!strings.Contains(value(p, "customer.people[0].name"), tt.contact) {
			t.Errorf("with id %s the name is %s:\n%s", tt.id, got, told(p))
		}
	}
}

// covers F286
func TestNoReadingLeavesMostRowsOutUnasked(t *testing.T) {
	t.Parallel()
	for _, lines := range [][]string{
		{"Id;Name;Status", "A1;Ann;aktiv", "A2;Bob;inaktiv", "A3;Cy;inaktiv"},
		{"Id;Name;Gesperrt", "A1;Ann;ja", "A2;Bob;ja", "A3;Cy;nein"},
		{"Id;Name;Is Customer", "A1;Ann;yes", "A2;Bob;no", "A3;Cy;no"},
		{"Id;Name;Type", "A1;Ann;Supplier", "A2;Bob;Supplier", "A3;Cy;Customer"},
		{"Konto;Name", "10001;Ann", "70001;Bob", "70002;Cy"},
		{"Id;Name;Status Lieferung", "A1;Ann;ja", "A2;Bob;nein", "A3;Cy;nein"},
		{"Id;Name;Status", "A1;Ann;A", "A2;Bob;B", "A3;Cy;C"},
	} {
		p := propose.From(rows(lines...), propose.Said{})
		if len(p.Questions) != 1 {
			t.Errorf("of %v it asks %+v:\n%s", lines, p.Questions, told(p))
		}
	}
}

func TestATieOfCountriesIsAsked(t *testing.T) {
	t.Parallel()
	for _, lands := range [][]string{{"GB", "FR"}, {"FR", "GB", "GB", "FR"}, {"DE", "AT"}, {"NL", "BE", "BE", "NL", "DE"},
		{"IE", "GB", "ES", "IE", "GB"}} {
		lines := []string{"No;Name;Land;Telefon"}
		for i, land := range lands {
			lines = append(lines, fmt.Sprintf("K%d;Ann%d;%s;+44 113 496 010%d", i, i, land, i))
		}
		p := propose.From(rows(lines...), propose.Said{})
		if len(p.Questions) != 1 || p.Questions[0].Topic != "region" ||
			strings.Contains(string(p.File()), "most rows say so") {
			t.Errorf("of %v:\n%s", lands, told(p))
		}
	}
}

// Headings in a language that nobody knows: e-mail addresses, numbers and countries are seen all the same.
func TestValuesSpeakWhereHeadingsDoNot(t *testing.T) {
	t.Parallel()
	p := propose.From(rows("Ügyfélkód;Megnevezés;Cím;Drótposta;Hívószám",
		"U-1;Kis Kft;Fő u. 1;a@kis.example;+36 1 234 5678", "U-2;Nagy Bt;Fő u. 2;b@nagy.example;+36 1 234 5679",
		"U-3;Közép Rt;Fő u. 3;c@kozep.example;+36 1 234 5680"), propose.Said{})
	if fmt.Sprint(p.ID) != "[Ügyfélkód]" || value(p, "customer.people[0].email") != "lower(firstEmail(Drótposta))" ||
		value(p, "customer.people[0].phone") != "phone(Hívószám)" {
		t.Errorf("%s", told(p))
	}
	if len(p.Questions) != 1 || p.Questions[0].Topic != "name" ||
		fmt.Sprint(p.Questions[0].Options) != "[Megnevezés Cím]" {
		t.Errorf("it asks %+v", p.Questions)
	}
}

func TestAnAnswerIsGoneBy(t *testing.T) {
	t.Parallel()
	table := exported(t, "testdata/dutch.csv")
	p := propose.From(table, propose.Said{Answers: map[string]int{"email": 1, "payment": 1}})
	if got := value(p, "customer.people[0].email"); got != `lower(firstEmail(field("E-mail facturatie")))` {
		t.Errorf("the e-mail address is %s", got)
	}
	if got := value(p, "include"); got != `not (lower(trim(Geblokkeerd)) == "j")` {
		t.Errorf("taken in are %s", got)
	}
	for _, q := range p.Questions {
		if !q.Said || q.Taken != 1 {
			t.Errorf("it still asks %+v", q)
		}
	}
	named := propose.From(table, propose.Said{ID: []string{"bedrijfsnaam", "Postcode"}})
	if got := value(named, "key.customerNumber"); got != `join([trim(Bedrijfsnaam), trim(Postcode)], "|")` ||
		fmt.Sprint(named.ID) != "[Bedrijfsnaam Postcode]" {
		t.Errorf("the key is %s, the id %q", got, named.ID)
	}
}

func TestAStatusIsAsked(t *testing.T) {
	t.Parallel()
	table := rows("Id;Name;Status", "A1;Ann;Aktiv", "A2;Bob;Aktiv", "A3;Cy;Ruht", "A4;Di;Inaktiv")
	p := propose.From(table, propose.Said{})
	if len(p.Questions) != 1 ||
		fmt.Sprint(p.Questions[0].Options) != `[only "aktiv" (2 of 4 rows) all but "inaktiv" (3 of 4 rows) everybody (4 rows)]` {
		t.Errorf("it asks %+v", p.Questions)
	}
	for answer, want := range []string{`lower(trim(Status)) == "aktiv"`, `not (lower(trim(Status)) == "inaktiv")`, ""} {
		if got := value(propose.From(table, propose.Said{Answers: map[string]int{"status Status": answer}}),
			"include"); got != want {
			t.Errorf("after answer %d it includes %q, want %q", answer+1, got, want)
		}
	}
}

// Former customers, prospects and suppliers are excluded.
func TestWhoIsNoCustomerIsLeftOut(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		table propose.Table
		want  string
	}{
		{rows("Id;Name;Austritt", "A1;Ann;", "A2;Bob;31.12.2024", "A3;Cy;"), "isBlank(Austritt)"},
		{rows("Id;Name;Kategorie", "A1;Ann;Kunde", "A2;Bob;Interessent", "A3;Cy;Lieferant", "A4;Di;Kunde"),
			`lower(trim(Kategorie)) == "kunde"`},
		{rows("Id;Name;Kategorie", "A1;Ann;rot", "A2;Bob;grün", "A3;Cy;rot"), ""},
		{rows("Id;Naam;Status", "A1;Ann;Klant", "A2;Bob;Prospect", "A3;Cy;Klant"), `lower(trim(Status)) == "klant"`},
		{rows("Id;Name;Gesperrt", "A1;Ann;", "A2;Bob;x", "A3;Cy;"), `not (lower(trim(Gesperrt)) == "x")`},
		{rows("Konto;Name", "10001;Ann", "10002;Bob", "70001;Cy"), `trim(Konto) < "7"`},
	} {
		p := propose.From(tt.table, propose.Said{})
		if got := value(p, "include"); got != tt.want || len(p.Questions) > 0 {
			t.Errorf("of %v it includes %q, want %q, and asks %+v", tt.table.Rows, got, tt.want, p.Questions)
		}
	}
}

// A negation turns the heading round, and a heading that is not understood is asked about.
func TestANegatedStatusIsUnderstood(t *testing.T) {
	t.Parallel()
	for heading, want := range map[string]string{
		"Niet actief": `not (%s == "x")`, "Non actif": `not (%s == "x")`, "Non attivo": `not (%s == "x")`,
		"No activo": `not (%s == "x")`, "Not active": `not (%s == "x")`, "Nicht aktiv": `not (%s == "x")`,
		"No longer active": `not (%s == "x")`, "Niet meer actief": `not (%s == "x")`, "Aktiver Kunde": `%s == "x"`,
		"Inaktiv": `not (%s == "x")`, "Nicht gesperrt": `%s == "x"`, "Not blocked": `%s == "x"`, "Aktiv": `%s == "x"`,
		"Active?": `%s == "x"`, "Is active": `%s == "x"`,
	} {
		table := rows("Id;Name;"+heading, "A1;Ann;x", "A2;Bob;")
		column := heading
		if strings.ContainsAny(heading, " ?") {
			column = fmt.Sprintf("field(%q)", heading)
		}
		p := propose.From(table, propose.Said{})
		if got := value(p, "include"); got != fmt.Sprintf(want, "lower(trim("+column+"))") || len(p.Questions) > 0 {
			t.Errorf("below %s it includes %q, and asks %+v", heading, got, p.Questions)
		}
	}
	for heading, want := range map[string]string{
		"Status Mahnsperre":  `[only "ja" (2 of 3 rows) all but "ja" (1 of 3 rows) everybody (3 rows)]`,
		"Lieferung gesperrt": `[all but "ja" (1 of 3 rows) only "ja" (2 of 3 rows) everybody (3 rows)]`,
	} {
		p := propose.From(rows("Id;Name;"+heading, "A1;Ann;ja", "A2;Bob;nein", "A3;Cy;ja"), propose.Said{})
		if len(p.Questions) != 1 || fmt.Sprint(p.Questions[0].Options) != want {
			t.Errorf("of %s it asks %+v", heading, p.Questions)
		}
	}
}

func TestOnlyDirectDebitIsDirectDebit(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{
		"SEPA-Lastschrift": true, "Basislastschrift": true, "Lastschrift": true, "Bankeinzug": true, "Direct Debit": true,
		"BACS Direct Debit": true, "DD": true, "SEPA": true, "BACS": true, "RID": true,
		"Prélèvement SEPA": true, "Prélèvement automatique": true, "Addebito diretto SEPA": true,
		"Automatische incasso": true, "Domiciliación bancaria": true, "Recibo domiciliado": true,
		"SEPA-Überweisung": false, "Ueberweisung (SEPA)": false, "Virement SEPA": false, "Bonifico SEPA": false,
		"Transferencia SEPA": false, "BACS transfer": false, "BACS payment": false, "SEPA overboeking": false,
		"keine Lastschrift": false, "no direct debit": false, "Sans prélèvement": false, "Geen incasso": false,
		"ohne Einzug": false, "Standing order": false, "Dauerauftrag": false, "Addebito su carta": false,
		"Madrid": false, "Hybrid": false, "Add": false, "Rechnung": false,
	} {
		p := propose.From(rows("Id;Name;Zahlungsart", "A1;Ann;"+value, "A2;Bob;Bar", "A3;Cy;Bar"), propose.Said{})
		if got := len(p.Questions) == 1 && strings.HasPrefix(p.Questions[0].Options[0], "only "); got != want {
			t.Errorf("%q is taken for direct debit: %t; it asks %+v", value, got, p.Questions)
		}
	}
}

// Below a heading of yes and no, a yes may say that somebody does not pay by direct debit.
func TestAYesBelowAWayOfPayment(t *testing.T) {
	t.Parallel()
	for heading, want := range map[string]string{
		"Lastschrift": `[only "ja" (1 of 3 rows) everybody (3 rows)]`, "SEPA": `[only "ja" (1 of 3 rows) everybody (3 rows)]`,
		"Keine Lastschrift": `[all but "ja" (2 of 3 rows) only "ja" (1 of 3 rows) everybody (3 rows)]`,
		"SEPA Überweisung":  `[all but "ja" (2 of 3 rows) only "ja" (1 of 3 rows) everybody (3 rows)]`,
	} {
		p := propose.From(rows("Id;Name;"+heading, "A1;Ann;ja", "A2;Bob;nein", "A3;Cy;nein"), propose.Said{})
		if len(p.Questions) != 1 || fmt.Sprint(p.Questions[0].Options) != want {
			t.Errorf("below %s it asks %+v", heading, p.Questions)
		}
	}
}

func TestWhatASystemCallsItsColumns(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		table propose.Table
		want  map[string]string
	}{
		"lexoffice": {rows("Kundennummer;Firmenname;Vorname;Nachname;Rechnungsadresse Straße;Rechnungsadresse PLZ;Rechnungsadresse Ort;Rechnungsadresse Land;Lieferadresse Straße;Lieferadresse Ort",
			"1;A GmbH;;;Weg 1;50667;Köln;DE;Lager 1;Ulm", "2;;Jo;Rot;Weg 2;50667;Köln;DE;;"), map[string]string{
			"customer.addresses[0].line1":   `trim(field("Rechnungsadresse Straße"))`,
			"customer.addresses[0].city":    `trim(field("Rechnungsadresse Ort"))`,
			"customer.addresses[0].country": `country(field("Rechnungsadresse Land"))`,
			"customer.name":                 `coalesce(trim(Firmenname), join([Vorname, Nachname], " "))`}},
		"Sage 50": {rows("Account Reference;Account Name;Street 1;Street 2;Town;Postcode;Contact Name",
			"A001;A Ltd;1 Road;;Leeds;LS1 1AA;Ann Oak", "B001;B Ltd;2 Road;Unit 2;Leeds;LS1 1AB;"), map[string]string{
			"customer.name":               `trim(field("Account Name"))`,
			"customer.people[0].name":     `coalesce(trim(field("Contact Name")), trim(field("Account Name")))`,
			"customer.addresses[0].line1": `join([trim(field("Street 1")), trim(field("Street 2"))], ", ")`}},
		"Exact": {rows("Code;Naam;Postcode", "            1;A;1012 AB", "            2;B;1012 AC"),
			map[string]string{"key.customerNumber": "trim(Code)", "customer.name": "trim(Naam)"}},
		"members' lists": {rows("Mitgliedsnr.;Nachname, Vorname;Zahlweise", "17;Grün, Jo;Lastschrift",
			"19;Weiß, Eva;Lastschrift"),
			map[string]string{"key.customerNumber": `trim(field("Mitgliedsnr."))`,
				"customer.name": `trim(field("Nachname, Vorname"))`}},
	} {
		p := propose.From(tt.table, propose.Said{})
		for path, want := range tt.want {
			if got := value(p, path); got != want {
				t.Errorf("%s: %s is %s, want %s", name, path, got, want)
			}
		}
	}
}

func TestATotalIsNoCustomer(t *testing.T) {
	t.Parallel()
	for total, want := range map[string]string{
		"Summe: 3": `not (trim(Id) startsWith "Summe")`, "3 Kunden": `not (trim(Id) endsWith "Kunden")`,
		"Ann: 3": `not (trim(Id) == "Ann: 3")`, "": "",
	} {
		table := rows("Id;Name", "Ann1;Ann", "Bob2;Bob", "Cy3;Cy")
		table.Totals = [][]string{{total, "3"}}
		if got := value(propose.From(table, propose.Said{}), "include"); got != want {
			t.Errorf("with %q at its end it includes %q, want %q", total, got, want)
		}
	}
	table := rows("Id;Name", "Ann1;Ann", "Bob2;Bob", "Cy3;Cy")
	table.Totals = [][]string{{"3 Kunden", ""}, {"Summe", "3"}, {"", "x"}}
	if got := value(propose.From(table, propose.Said{}),
		"include"); got != `not (trim(Id) endsWith "Kunden" || trim(Id) startsWith "Summe")` {
		t.Errorf("with two totals it includes %q", got)
	}
}

func TestACompanyIsNamedByItsFileOrATitle(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file       string
		above      []string
		name, slug string
	}{
		{"Kunden Muster GmbH 2026.csv", nil, "Muster GmbH", "muster-gmbh"},
		{"export_customers_2026-03-12.csv", []string{"Customer Contact List", "Harbour Books Ltd"}, "Harbour Books Ltd",
			"harbour-books-ltd"},
		{"/home/ann/customers.csv", []string{"Stand: 12.03.2026"}, "", ""},
		{"clients Boulangerie de l'Étoile S.à r.l..csv", nil, "Boulangerie l'Étoile S.à r.l.", "boulangerie-letoile-sa-rl"},
		{"Bäckerei Grün & Söhne KG.csv", nil, "Bäckerei Grün & Söhne KG", "baeckerei-gruen-soehne-kg"},
		{"messy.csv", nil, "", ""}, {"v2.csv", nil, "", ""}, {"sage50.csv", nil, "", ""}, {"EXTF_GP_Stamm.csv", nil, "", ""},
		{"Kunden Muster.csv", []string{"Customer list of Harbour Books"}, "", ""},
		{"elenco-clienti.csv", []string{"Elenco clienti Panificio Rossi S.r.l. al 12/03/2026"}, "Panificio Rossi S.r.l.",
			"panificio-rossi-srl"},
	} {
		if got := propose.Company(tt.file, tt.above); got != tt.name || propose.Slug(got) != tt.slug {
			t.Errorf("%s is of %q, %q; want %q, %q", tt.file, got, propose.Slug(got), tt.name, tt.slug)
		}
	}
}

// FuzzAProposalIsAMapping: for any headings and values, a proposal with an id and a name is a loadable
// mapping.
func FuzzAProposalIsAMapping(f *testing.F) {
	f.Add("Kd.-Nr.;Name;E-Mail", "A1;Ann;a@a.example")
	f.Add("a\"b;c: d;#e", "A1;Ann;x")
	f.Add("Status;Id;Firma;Zahlungsart", "ak\\tiv;7;Ann;Last\"schrift")
	f.Fuzz(func(t *testing.T, headings, line string) {
		table := rows(headings, line, line)
		seen := map[string]bool{}
		for _, c := range table.Columns {
			if seen[strings.ToLower(c)] || strings.TrimSpace(c) != c || c == "" ||
				strings.ContainsFunc(c, func(r rune) bool {
					return r < ' ' || r == '\ufffd' || r == 0x7f || r >= 0x80 &&
						r < 0xa0
				}) {
				t.Skip("no source declares such a column")
			}
			seen[strings.ToLower(c)] = true
		}
		for _, row := range table.Rows {
			if len(row) != len(table.Columns) {
				t.Skip("no source gives a row of another width")
			}
		}
		p := propose.From(table, propose.Said{})
		if len(p.ID) == 0 || value(p, "customer.name") == "" {
			return
		}
		if _, err := mapping.Load("mapping.yaml", p.File(), source(table)); err != nil {
			t.Errorf("%v\n%s", err, p.File())
		}
	})
}
