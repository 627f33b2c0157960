package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/accounting/httpsource"
	"payersync/connector/accounting/quickbooks/quickbookstest"
	"payersync/connector/credentials/credentialstest"
	"payersync/connector/sandbox"
	"payersync/state/statetest"
)

// aCompany is an installation with payers from a CSV file. The first of them have signed.
func aCompany(t *testing.T, payers, signed int) *world {
	t.Helper()
	return numberedCompany(t, "A%05d", payers, signed)
}

// numberedCompany is aCompany with numbers of this form.
func numberedCompany(t *testing.T, form string, payers, signed int) *world {
	t.Helper()
	w := newWorld(t, nil)
	text := "AccountNumber,Name,Email,Phone,Street,Postcode\n"
	for i := range payers {
		text += fmt.Sprintf(form+",Payer %[1]d Ltd,payer%[1]d@example.org,01632 9601%02[1]d,%[1]d Mill Lane,LS%[1]d 4AP\n",
			i+1)
	}
	w.write("customers.csv", text)
	w.edit("mapping.yaml", `'filter([{line1: Street, city: "Leeds"}, {line1: Depot, city: "Hull"}], .line1 != "")'`,
		`[{line1: Street, postCode: Postcode}]`)
	w.expect(exitDone, "backfill", "acme", "--yes")
	for i := range signed {
		w.must(w.box.Sign(w.mandateOf(fmt.Sprintf(form, i+1)).ID))
		w.must(w.box.Approve(w.mandateOf(fmt.Sprintf(form, i+1)).ID))
	}
	w.expect(exitDone, "sweep")
	return w
}

// withQuickBooks gives an installation a second connection, to a model of QuickBooks with the same payers
// under its own ids, and some more. change alters its values of a payer.
func (w *world) withQuickBooks(t *testing.T, payers, more int, change ...func(*quickbookstest.StoredCustomer)) {
	w.t.Helper()
	model := quickbookstest.New(time.Now)
	for i, id := range model.Add(payers + more) {
		if i < payers {
			model.Edit(id, func(c *quickbookstest.StoredCustomer) {
				name := fmt.Sprintf("Payer %d Limited", i+1)
				c.DisplayName, c.CompanyName, c.GivenName, c.FamilyName = name, name, "", ""
				c.PrimaryEmailAddr.Address, c.PrimaryPhone = fmt.Sprintf("payer%d@example.org", i+1),
					&quickbookstest.Phone{FreeFormNumber: fmt.Sprintf("01632 9601%02d", i+1)}
				c.BillAddr.Line1, c.BillAddr.PostalCode = fmt.Sprintf("%d Mill Lane", i+1), fmt.Sprintf("LS%d 4AP", i+1)
				for _, alter := range change {
					alter(c)
				}
			})
		}
	}
	vendor := newVendor(t, model)
	vendor.auth.Back = url.Values{"realmId": {quickbookstest.Realm}}
	w.env["BOOKS_SECRET"] = credentialstest.ClientSecret
	w.edit("payersync.yaml", "guards:",
		fmt.Sprintf("  - {name: quickbooks, source: {kind: quickbooks, client_id: %s, client_secret: env:BOOKS_SECRET, base_url: %q, authorize_url: \"%[2]s/authorize\", token_url: \"%[2]s/token\"}, mapping: quickbooks.yaml}\nguards:",
			credentialstest.ClientID, vendor.http.URL))
	w.write("quickbooks.yaml", readShipped(w.t, "configs/mappings/quickbooks.yaml"))
	if r := w.connectTo("quickbooks", vendor); r.code != exitDone {
		w.t.Fatalf("connect ended with %d:\n%s%s", r.code, r.out, r.errOut)
	}
}

// asked returns how many signing links were asked for.
func (w *world) asked() int {
	return len(w.requests(func(r sandbox.Request) bool {
		return r.Method != http.MethodGet && strings.Contains(r.Path, "mandate")
	}))
}

// holders returns the customers by the name of their key's pair.
func (w *world) holders() map[string]int {
	out := map[string]int{}
	for _, c := range w.box.Customers() {
		for _, name := range []string{"accountNumber", "quickbooksCustomerId"} {
			if c.ExternalData[name] != "" {
				out[name]++
			}
		}
	}
	return out
}

// active returns the number of customers with an active mandate.
func (w *world) active() (n int) {
	for _, c := range w.box.Customers() {
		for _, m := range c.Mandates {
			if m.Status == connector.MandateActive {
				n++
			}
		}
	}
	return n
}

// covers F231
func TestACompanyThatChangesItsAccountingSystemKeepsItsPayersAndMandates(t *testing.T) {
	t.Parallel()
	const payers, signed, more = 34, 12, 2
	w := aCompany(t, payers, signed)
	asked := w.asked()
	w.withQuickBooks(t, payers, more)
	w.run("plan", "quickbooks")
	r := w.run("connections", "move", "acme", "quickbooks")
	if r.code != exitUsage || !strings.Contains(r.errOut, "34 pairs would be accepted, and acme closed") ||
		!strings.Contains(r.out, "A00012") {
		t.Fatalf("without a yes it ends with %d:\n%s%s", r.code, r.out, r.errOut)
	}
	for round := range 2 {
		r = w.expect(exitDone, "connections", "move", "acme", "quickbooks", "--yes", "--reason", "QuickBooks since May")
		if !strings.Contains(r.errOut, "34 pairs accepted. acme is closed.") {
			t.Errorf("round %d says\n%s", round, r.errOut)
		}
		r = w.run("sync", "acme")
		if r.code == exitDone || !strings.Contains(r.errOut, "connection acme moved to quickbooks on") {
			t.Errorf("a sync of the old books ends with %d:\n%s%s", r.code, r.out, r.errOut)
		}
		w.expect(exitDone, "backfill", "quickbooks", "--yes")
		w.expect(exitDone, "sync", "quickbooks")
		if n := len(w.box.Customers()); n != payers+more {
			t.Errorf("there are %d customers, want %d", n, payers+more)
		}
		if got := w.holders(); got["quickbooksCustomerId"] != payers+more || got["accountNumber"] != 0 {
			t.Errorf("keys are %v", got)
		}
		if n := w.active(); n != signed {
			t.Errorf("%d mandates are active, want %d", n, signed)
		}
		if n := w.asked() - asked; n != more {
			t.Errorf("%d signing links were asked for, want those of the %d new payers", n, more)
		}
		if round > 0 {
			break
		}
		w.expect(exitDone, "connections", "move", "acme", "quickbooks", "--undo", "--yes", "--reason", "too early")
		w.expect(exitDone, "backfill", "acme", "--yes")
		if got := w.holders(); got["accountNumber"] != payers || len(w.box.Customers()) != payers+more {
			t.Errorf("after the undo the keys are %v", got)
		}
		w.expect(exitDone, "sync", "acme")
	}
}

// The API of the system shows other e-mail addresses, and no phones and addresses. Its number is also in the export
// that was read before, as the profile says.
//
// covers F231
func TestACompanyThatGoesFromTheExportToTheAPIKeepsItsPayers(t *testing.T) {
	t.Parallel()
	const payers, signed, more = 34, 12, 2
	profile := strings.NewReplacer("name: erpnext", "name: ours", "email_id: null", `email_id: "${id}@other.example"`).
		Replace(readShipped(t, "configs/sources/erpnext/profile.yaml"))
	ours, err := httpsource.Load("books.yaml", []byte(profile))
	if err != nil {
		t.Fatal(err)
	}
	fake, err := httpsource.NewFake(ours, ours.SampleConfig(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range fake.Add(payers + more) {
		fake.Change(id, func(name *string, _ *connector.RecordState, _ *string) { *name = fmt.Sprintf("Payer %d Limited", i+1) })
	}
	w := numberedCompany(t, "1%03d", payers, signed)
	asked := w.asked()
	v := newVendor(t, &profiledBooks{Fake: fake})
	w.env["BOOKS_SECRET"] = credentialstest.ClientSecret
	w.edit("payersync.yaml", "guards:",
		fmt.Sprintf("  - {name: api, source: {kind: http, profile: books.yaml, url: %q, api_key: env:BOOKS_SECRET, api_secret: env:BOOKS_SECRET}, mapping: api.yaml}\nguards:", v.http.URL))
	w.write("api.yaml", strings.Replace(readShipped(t, "configs/sources/erpnext/mapping.yaml"), "source: erpnext",
		"source: ours", 1))
	w.write("books.yaml", strings.Replace(profile, "export: [ID], ", "", 1))
	w.run("plan", "api")
	report := decode[moveReport](t, w.run("connections", "move", "acme", "api", "--output", "json"))
	if report.Certain != 0 {
		t.Errorf("without a number in common %d pairs are certain", report.Certain)
	}
	w.write("books.yaml", strings.Replace(profile, "export: [ID]", `export: [Customer, " accountNUMBER"]`, 1))
	r := w.expect(exitDone, "connections", "move", "acme", "api", "--yes", "--reason", "the API since May")
	if !strings.Contains(r.errOut, "34 pairs accepted. acme is closed.") {
		t.Fatalf("the move says\n%s%s", r.out, r.errOut)
	}
	w.expect(exitDone, "backfill", "api", "--yes")
	if n := len(w.box.Customers()); n != payers+more {
		t.Errorf("there are %d customers, want the %d of before and %d new ones", n, payers, more)
	}
	if n := w.active(); n != signed || w.asked()-asked != more {
		t.Errorf("%d mandates are active, want %d; %d links were asked for, want %d", n, signed, w.asked()-asked, more)
	}
}

// covers F231
func TestBooksMoveFromADatabaseThatIsNoLongerConfiguredToAnExport(t *testing.T) {
	t.Parallel()
	const payers = 3
	w := newWorld(t, nil)
	statements := []string{"CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, email TEXT, phone TEXT, street TEXT, postcode TEXT)"}
	text := "AccountNumber,Name,Email,Phone,Street,Postcode\n"
	for i := range payers {
		values := []any{fmt.Sprintf("Payer %d Ltd", i+1), fmt.Sprintf("payer%d@example.org", i+1),
			fmt.Sprintf("01632 9601%02d", i+1), fmt.Sprintf("%d Mill Lane", i+1), fmt.Sprintf("LS%d 4AP", i+1)}
		statements = append(statements,
			fmt.Sprintf("INSERT INTO customers (name, email, phone, street, postcode) VALUES ('%s', '%s', '%s', '%s', '%s')",
				values...))
		text += fmt.Sprintf("A%05d,%s,%s,%s,%s,%s\n", append([]any{i + 1}, values...)...)
	}
	statetest.Books(t, w.path("books.sqlite"), statements...)
	const fields = "customer:\n  name: %s\n  people: [{name: %[1]s, email: %s, phone: %s}]\n  addresses: [{line1: %s, postCode: %s}]\nmandate: {request: 'true'}\nown: [name, people, addresses]\n"
	export := w.config()
	w.edit("payersync.yaml", "{kind: csv, path: customers.csv, id: [AccountNumber]}",
		"{kind: sql, driver: sqlite, path: books.sqlite, table: customers, id: [id]}")
	w.write("mapping.yaml", "version: 1\nsource: sql\nkey: {bookId: id}\n"+fmt.Sprintf(fields, "name", "email", "phone",
		"street", "postcode"))
	w.expect(exitDone, "backfill", "acme", "--yes")
	asked := w.asked()

	w.write("payersync.yaml", strings.Replace(export, "name: acme", "name: export", 1))
	w.write("mapping.yaml", "version: 1\nsource: csv\nkey: {accountNumber: AccountNumber}\n"+fmt.Sprintf(fields, "Name",
		"Email", "Phone", "Street", "Postcode"))
	w.write("customers.csv", text)
	w.run("plan", "export")
	w.expect(exitDone, "connections", "move", "acme", "export", "--yes")
	w.expect(exitDone, "backfill", "export", "--yes")
	if got := w.holders(); len(w.box.Customers()) != payers || got["accountNumber"] != payers || w.asked() != asked {
		t.Errorf("%d customers, keys %v, %d links asked for", len(w.box.Customers()), got, w.asked()-asked)
	}
	r := w.expect(exitDone, "connections", "move", "acme", "export", "--undo", "--yes")
	if !strings.Contains(r.errOut, "acme is open again, and is not configured") {
		t.Errorf("the undo says\n%s", r.errOut)
	}
}
