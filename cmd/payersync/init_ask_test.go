package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// payingExport is an export of customers with different ways of payment and currencies; two of them have no
// e-mail address.
func payingExport() string {
	var out strings.Builder
	out.WriteString("Number,Name,E-Mail,Payment method,Currency\n")
	for i := range 12 {
		email, method, currency := fmt.Sprintf("payer%d@example.org", i), "Invoice", "USD"
		if i < 5 {
			method = "Bank transfer"
		}
		if i < 3 {
			currency = "EUR"
		}
		if i > 9 {
			email = ""
		}
		fmt.Fprintf(&out, "C%03d,Payer %d Limited,%s,%s,%s\n", i, i, email, method, currency)
	}
	return out.String()
}

func TestInitAsksWhoIsAskedToSign(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.write("Customers Muster Ltd.csv", payingExport())
	p := w.at(nil, "init", "--csv", w.path("Customers Muster Ltd.csv"), w.path("muster"))
	p.askedOf("Which payers do you ask to sign")
	p.types("2\r")
	if r := p.wait(); r.code != exitDone {
		t.Fatalf("it ended with %d:\n%s", r.code, r.out)
	}
	p.sees("  1  everybody with an e-mail address (10)", "  2  only those whose Payment method is Bank transfer (5)",
		"  3  only those whose Payment method is Invoice (5)",
		"  4  only those whose Currency is USD (7)", "  5  only those whose Currency is EUR (3)", "  6  nobody yet",
		"  12 customers would be created, 5 of them asked",
		"Asked for a mandate: only those whose Payment method is Bank transfer (5).")
}

func TestInitOffersAColumnThatSaysDirectDebitUnderAnyName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.write("customers.csv", strings.Replace(strings.ReplaceAll(payingExport(), ",Invoice,", ",Direct Debit,"),
		"Payment method", "Terms agreed", 1))
	p := w.at(nil, "init", "--csv", w.path("customers.csv"), "--name", "Muster", w.path("muster"))
	p.askedOf("Which payers do you ask to sign")
	p.types("2\r")
	if r := p.wait(); r.code != exitDone {
		t.Fatalf("it ended with %d:\n%s", r.code, r.out)
	}
	p.sees("  2  only those whose Terms agreed is Direct Debit (5)")
}

func TestInitWritesTheRuleThatAskNames(t *testing.T) {
	t.Parallel()
	const email = `any(customer.people, .email != "")`
	w := newWorld(t, nil)
	w.write("customers.csv", payingExport())
	w.write("mixed.csv", strings.Replace(payingExport(), ",Invoice,", ",INVOICE,", 2))
	csv := []string{"--csv", w.path("customers.csv"), "--name", "Muster"}
	mixed := []string{"--csv", w.path("mixed.csv"), "--name", "Muster"}
	xero, quickbooks := []string{"--source", "xero"}, []string{"--source", "quickbooks"}
	for i, c := range []struct {
		source, more []string
		rule         string
	}{
		{csv, []string{"--ask", "everybody"}, email},
		{csv, []string{"--yes"}, email},
		{csv, nil, "false"},
		{csv, []string{"--ask", "nobody"}, "false"},
		{csv, []string{"--ask", "Payment method=Invoice"}, email + ` && trim(field("Payment method")) == "Invoice"`},
		{csv, []string{"--ask", "Payment method=INVOICE"}, email + ` && trim(field("Payment method")) == "Invoice"`},
		{mixed, []string{"--ask", "Payment method=invoice"}, email +
			` && trim(field("Payment method")) in ["INVOICE", "Invoice"]`},
		{csv, []string{"--ask", "currency=USD", "--ask", "currency=EUR", "--ask", "Payment method=Invoice"}, email +
			` && trim(Currency) in ["USD", "EUR"] && trim(field("Payment method")) == "Invoice"`},
		{xero, nil, "false"},
		{xero, []string{"--ask", "everybody"}, email},
		{xero, []string{"--ask", "currency=USD", "--ask", "currency="}, email + ` && trim(DefaultCurrency) in ["USD", ""]`},
		{xero, []string{"--ask", "ContactGroups=Direct debit"}, email + ` && any(ContactGroups, .Name == "Direct debit")`},
		{quickbooks, []string{"--ask", "currency=USD"}, email + ` && CurrencyRef.value == "USD"`},
		{[]string{"--source", "sql-ledgersmb"}, []string{"--ask", "currency=USD"}, email + ` && trim(currency) == "USD"`},
		{[]string{"--source", "tryton"}, []string{"--ask", "everybody"}, email},
	} {
		dir := w.path(fmt.Sprint("set", i))
		r := w.run(append(append(append([]string{"init"}, c.source...), c.more...), dir)...)
		text, err := os.ReadFile(dir + "/mapping.yaml")
		if r.code != exitDone || err != nil || !strings.Contains(string(text), "\n  request: "+c.rule+"\n") {
			t.Errorf("%v %v ends with %d, and %v:\n%s%s\n%s", c.source, c.more, r.code, err, r.out, r.errOut, text)
		}
		if !strings.Contains(r.out, "Asked for a mandate: ") {
			t.Errorf("%v %v does not say who is asked:\n%s", c.source, c.more, r.out)
		}
	}
}

func TestInitTakesNobodyWhereNoColumnHasAddresses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.write("bare.csv", "Number,Name\nC1,Ann Ltd\n")
	w.expect(exitDone, "init", "--csv", w.path("bare.csv"), "--name", "Muster", "--ask", "nobody", w.path("muster"))
}

func TestInitRefusesAnAskThatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.write("customers.csv", payingExport())
	w.write("bare.csv", "Number,Name\nC1,Ann Ltd\n")
	csv := []string{"--csv", w.path("customers.csv"), "--name", "Muster"}
	for i, c := range []struct {
		source []string
		ask    string
		says   string
	}{
		{csv, "Status=A", `there is no column "Status"; the columns are Number, Name, E-Mail, Payment method, Currency`},
		{csv, "Payment method=Cheque",
			`no row has "Cheque" in the column "Payment method"; the most frequent values are Invoice, Bank transfer`},
		{csv, "somebody", "write everybody, nobody, COLUMN=VALUE or currency=EUR"},
		{[]string{"--source", "xero"}, "Currency=EUR", `there is no column "Currency"`},
		{[]string{"--source", "xero"}, "IsCustomer=true", "cannot be made a rule of mapping.yaml"},
		{[]string{"--source", "tryton"}, "currency=EUR", "the currency of this source is not known"},
		{[]string{"--csv", w.path("bare.csv"), "--name", "Muster"}, "everybody", "no column contains e-mail addresses"},
	} {
		dir := w.path(fmt.Sprint("no", i))
		r := w.run(append(append([]string{"init"}, c.source...), "--ask", c.ask, dir)...)
		if r.code != exitUsage || !strings.Contains(r.errOut, c.says) || exists(dir) {
			t.Errorf("%v --ask %s ends with %d, want %q:\n%s", c.source, c.ask, r.code, c.says, r.errOut)
		}
	}
}
