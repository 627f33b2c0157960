package propose_test

import (
	"fmt"
	"strings"
	"testing"

	"payersync/connector/accounting/csvfile"
	"payersync/mapping/propose"
)

func TestWhatIsNoID(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		table propose.Table
		want  string // of the first column, or of the second where it is the id
	}{
		"1.23E+15": {rows("Kundennummer;Name", "1,23E+15;A", "1,23E+15;B", "4,56E+12;C", "4,56E+12;D"),
			"a spreadsheet has written all 4 values as 1.23E+15: two that look equal may have been two"},
		"counting": {rows("Nr.;Name", "1;A", "2;B", "3;C", "4;D"),
			"it counts the rows of this file, and the next file counts them anew"},
		"names": {rows("Kunde;Ort", "Ann;X", "Bob;X", "Cy;X", "Di;X"),
			"its texts are no numbers, and names change"},
		"e-mail addresses": {rows("Mail;Ort", "a@a.example;X", "b@b.example;X", "c@c.example;X", "d@d.example;X"),
			"people change their e-mail address"},
		"doubles": {rows("Kundennr;Ort", "1;X", "1;X", "1;X", "2;X"),
			"3 of 4 rows have a value that another row has, too"},
		"blanks": {rows("Kundennr;Ort", ";X", ";X", ";X", "2;X"), "3 of 4 rows have none"},
		"bank accounts": {rows("Konto Nr.;Ort", "111111;X", "222222;X", "333333;X", "444444;X"),
			"bank details stay in your accounting system"},
	} {
		p := propose.From(tt.table, propose.Said{})
		if len(p.ID) > 0 || len(p.Refused) == 0 || p.Refused[0].Why != tt.want {
			t.Errorf("%s: id %q, refused %+v", name, p.ID, p.Refused)
		}
	}
}

// A value that is not known is not guessed: it is asked about, and the first option takes the fewest in.
// Postcodes have digits and no spaces, and may be all different in a short list; so may dates
// of birth, house numbers and telephones without a country. Nobody is known by them.
func TestWhatIsSomethingElseIsNoIDWhereThereIsNone(t *testing.T) {
	t.Parallel()
	p := propose.From(rows("Firma;PLZ;Ort;Hausnr.;Telefon;Land",
		"Klein;10115;Berlin;1;0301234567;DE", "Noir;75001;Paris;3a;0312345678;FR", "Rossi;00184;Roma;7;0667890123;IT"),
		propose.Said{})
	if len(p.ID) > 0 {
		t.Errorf("it takes %v for the id:\n%s", p.ID, told(p))
	}
	p = propose.From(rows("Kd.-Nr.;Firma;PLZ", "1.23E+15;Klein;10115", "10002;Noir;75001", "10003;Rossi;00184"),
		propose.Said{})
	if len(p.ID) > 0 {
		t.Errorf("where the id is spoilt it takes %v:\n%s", p.ID, told(p))
	}
}

// A counter of rows is one in any order, with a row missing and wherever it begins. Numbers
// that are greater than there are rows were given to customers.
func TestACounterOfRowsIsNoID(t *testing.T) {
	t.Parallel()
	numbered := func(heading string, rows int, number func(i int) string) propose.Table {
		table := propose.Table{Columns: []string{heading, "Name"}, Spoilt: csvfile.Spoilt}
		for i := range rows {
			table.Rows = append(table.Rows, []string{number(i), fmt.Sprintf("Ann %d", i)})
		}
		return table
	}
	for name, tt := range map[string]struct {
		table propose.Table
		isID  bool
	}{
		"from 0":                 {numbered("Nr.", 40, func(i int) string { return fmt.Sprint(i) }), false},
		"from 2":                 {numbered("No", 40, func(i int) string { return fmt.Sprint(i + 2) }), false},
		"a row unfit":            {numbered("Nr.", 40, func(i int) string { return fmt.Sprint(i + 1 + i/20) }), false},
		"sorted by name":         {numbered("Lfd.", 40, func(i int) string { return fmt.Sprint(i*7%40 + 1) }), false},
		"downwards, with points": {numbered("#", 40, func(i int) string { return fmt.Sprint(40-i) + "." }), false},
		"a total between": {numbered("Nr.", 40,
			func(i int) string { return strings.Replace(fmt.Sprint(i+1), "17", "x1", 1) }), false},
		"customers' own": {numbered("Kd.-Nr.", 300, func(i int) string { return fmt.Sprint(10_001 + i) }), true},
		"customers' own, English": {numbered("Customer number", 300, func(i int) string { return fmt.Sprint(1 + i) }),
			true},
		"only a number, given later": {numbered("Nr.", 300, func(i int) string { return fmt.Sprint(10_001 + i) }), true},
		"only a number, with gaps":   {numbered("Nr.", 300, func(i int) string { return fmt.Sprint(1 + 2*i) }), true},
		"padded":                     {numbered("Nr.", 300, func(i int) string { return fmt.Sprintf("%05d", 1+i) }), true},
	} {
		p := propose.From(tt.table, propose.Said{})
		if (len(p.ID) > 0) != tt.isID || !tt.isID &&
			p.Refused[0].Why != "it counts the rows of this file, and the next file counts them anew" {
			t.Errorf("%s: id %q, refused %+v, asks %+v", name, p.ID, p.Refused, p.Questions)
		}
	}
}

// A list of invoices has a row for each: the number of the invoice is no customer's.
func TestADocumentIsNoCustomer(t *testing.T) {
	t.Parallel()
	for _, heading := range []string{
		"Invoice No", "Invoice Number", "Order no.", "Receipt", "Contract ID", "Mandate reference", "Rechnungsnummer",
		"Rechnungs-Nr.", "Auftragsnr", "Vertragsnummer", "Mandatsreferenz", "Belegnummer",
		"Numéro de facture", "N° commande", "Numero fattura", "N. ordine", "Factuurnummer", "Bestelnummer",
		"Número de factura", "Pedido", "InvoiceNumber",
	} {
		alone := propose.From(rows(heading+";Name", "RE-1;Ann", "RE-2;Ann", "RE-3;Ann", "RE-4;Bob"), propose.Said{})
		if len(alone.ID) > 0 || len(alone.Refused) == 0 ||
			alone.Refused[0].Why != "every invoice, order or contract would be a customer of its own" {
			t.Errorf("%s alone: id %q, refused %+v", heading, alone.ID, alone.Refused)
		}
		p := propose.From(rows(heading+";Kundennummer;Name", "RE-1;1;Ann", "RE-2;1;Ann", "RE-3;1;Ann", "RE-4;2;Bob"),
			propose.Said{})
		if len(p.ID) > 0 || len(p.Refused) == 0 || p.Refused[0].Column != "Kundennummer" {
			t.Errorf("%s: id %q, refused %+v", heading, p.ID, p.Refused)
		}
	}
}

// No other column with unique values is the id if the customer number is not.
func TestWhereCustomersRepeatNothingElseIsTheID(t *testing.T) {
	t.Parallel()
	for heading, taken := range map[string]bool{"Vorfall": false, "Nr.": false, "Reference": false, "Code": false,
		"Debitor": true, "Client ID": true} {
		p := propose.From(rows(heading+";Kundennummer;Name", "VF-41;1;Ann", "VF-57;1;Ann", "VF-69;1;Ann", "VF-82;2;Bob"),
			propose.Said{})
		if (len(p.ID) > 0) != taken {
			t.Errorf("with %s beside it the id is %q, refused %+v", heading, p.ID, p.Refused)
		}
	}
	if p := propose.From(rows("Rechnungs-Kundennummer;Name", "K1;Ann", "K2;Bob", "K7;Cy"),
		propose.Said{}); len(p.ID) != 1 {
		t.Errorf("the customer number of the one who gets the invoice is no id: %+v", p.Refused)
	}
}

// The address decides who gets the link, so staff addresses need a confirmation.
func TestTheAddressOfStaffIsNotTakenUnasked(t *testing.T) {
	t.Parallel()
	for heading, cells := range map[string][5]string{
		"Sales rep e-mail":      {"a@a.example", "b@a.example", "c@a.example", "d@a.example", "e@a.example"},
		"Betreuer E-Mail":       {"a@a.example", "b@a.example", "c@a.example", "d@a.example", "e@a.example"},
		"E-Mail Steuerberater":  {"a@a.example", "b@a.example", "c@a.example", "d@a.example", "e@a.example"},
		"Account manager":       {"a@a.example", "b@a.example", "c@a.example", "d@a.example", "e@a.example"},
		"Correo del comercial":  {"a@a.example", "b@a.example", "c@a.example", "d@a.example", "e@a.example"},
		"E-Mail":                {"a@a.example", "b@a.example", "a@a.example", "a@a.example", "b@a.example"},
		"Agent commercial mail": {"a@a.example", "", "", "", ""},
	} {
		table := rows("Kd.-Nr.;Name;"+heading, "K1;Ann;"+cells[0], "K2;Bob;"+cells[1], "K3;Cy;"+cells[2], "K4;Di;"+cells[3],
			"K5;Ed;"+cells[4])
		p := propose.From(table, propose.Said{})
		if value(p, "customer.people[0].email") != "" || value(p, "mandate.request") != "" || len(p.Questions) != 1 ||
			p.Questions[0].Options[0] != "no e-mail address" {
			t.Errorf("of %s it takes an address unasked:\n%s", heading, told(p))
		}
		p = propose.From(table, propose.Said{Answers: map[string]int{"email": 1}})
		if value(p, "customer.people[0].email") == "" || value(p, "mandate.request") == "" {
			t.Errorf("of %s it takes none when told to:\n%s", heading, told(p))
		}
	}
	p := propose.From(rows("Kd.-Nr.;Name;Betreuer E-Mail;E-Mail", "K1;Ann;x@own.example;a@a.example",
		"K2;Bob;y@own.example;b@b.example", "K3;Cy;z@own.example;"), propose.Said{})
	if got := value(p, "customer.people[0].email"); got != `lower(firstEmail(field("E-Mail")))` || len(p.Questions) > 0 {
		t.Errorf("beside that of staff it takes %s:\n%s", got, told(p))
	}
}
