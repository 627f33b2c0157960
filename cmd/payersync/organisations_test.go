package main

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"payersync/connector"
	"payersync/connector/accounting/quickbooks/quickbookstest"
	"payersync/connector/accounting/tryton/trytontest"
	"payersync/connector/accounting/xero/xerotest"
	"payersync/connector/credentials/credentialstest"
	"payersync/connector/sandbox"
)

// party is a customer in Tryton.
func party(category trytontest.ID, company string, n int) trytontest.Values {
	return trytontest.Values{
		"name":       fmt.Sprintf("%s %d", company, n),
		"categories": []any{[]any{"add", []any{category}}},
		"contact_mechanisms": []any{[]any{"create",
			[]trytontest.Values{{"type": "email", "value": fmt.Sprintf("p%d@%s.example", n, strings.ToLower(company))}}}},
	}
}

// connected gives an installation these connections, with the shipped mapping of a kind.
func (w *world) connected(connections, kind string) {
	w.t.Helper()
	config := w.config()
	from, to := strings.Index(config, "connections:\n"), strings.Index(config, "guards:")
	w.write("payersync.yaml", config[:from]+"connections:\n"+connections+config[to:])
	w.write("mapping.yaml", readShipped(w.t, "configs/mappings/"+kind+".yaml"))
}

// Parties of two Tryton databases have the same ids.
//
// covers F117
func TestTwoTrytonDatabasesOnOneAccountTouchNobodyOfEachOther(t *testing.T) {
	t.Parallel()
	var server trytontest.Server
	t.Cleanup(server.Stop)
	const n = 60
	companies := []string{"Harbour", "Fjord"}
	var databases []*trytontest.Database
	for _, company := range companies {
		db := server.Database(t)
		category := db.Create("party.category", trytontest.Values{"name": "Customers"})[0]
		var parties []trytontest.Values
		for i := range n {
			parties = append(parties, party(category, company, i))
		}
		db.Create("party.party", parties...)
		databases = append(databases, db)
	}
	connection := func(i int) string {
		return fmt.Sprintf("  - {name: %s, source: {kind: tryton, url: %q, database: %s, user: %s, password: file:tryton.secret}, mapping: mapping.yaml}\n",
			strings.ToLower(companies[i]), databases[i].URL, databases[i].Name, trytontest.User)
	}
	configure := func(w *world, connections string) {
		w.connected(connections, "tryton")
		w.write("tryton.secret", trytontest.Password)
	}
	for name, ledgers := range map[string]int{"one ledger": 1, "two ledgers": 2} {
		t.Run(name, func(t *testing.T) {
			first := newWorld(t, nil)
			worlds := []*world{first, first}
			if ledgers == 1 {
				configure(first, connection(0)+connection(1))
			} else {
				worlds[1] = newWorld(t, nil)
				worlds[1].service = first.service
				configure(first, connection(0))
				configure(worlds[1], connection(1))
			}
			worlds[0].expect(exitDone, "backfill", "harbour", "--yes")
			before := map[string]string{}
			for _, c := range first.box.Customers() {
				before[c.ID] = string(c.Raw)
			}
			worlds[1].expect(exitDone, "backfill", "fjord", "--yes")
			for range 2 {
				worlds[0].expect(exitDone, "sync", "harbour")
				worlds[1].expect(exitDone, "sync", "fjord")
			}
			all := first.box.Customers()
			if len(all) != 2*n {
				t.Errorf("%d customers, want %d of each company", len(all), n)
			}
			for _, c := range all {
				if raw, first := before[c.ID]; first && raw != string(c.Raw) {
					t.Errorf("a customer of the first company was\n%s\nand is\n%s", raw, c.Raw)
				}
			}
			if of := byScope(all); of[databases[0].Name] != n || of[databases[1].Name] != n {
				t.Errorf("customers by organisation: %v", of)
			}
			for i, w := range worlds {
				if told := w.expect(exitDone, "attention", "list", "--connection",
					strings.ToLower(companies[i])); strings.Contains(told.out, string(connector.ReasonKeyShared)) {
					t.Errorf("%s is told:\n%s", companies[i], told.out)
				}
			}
		})
	}
}

// companies are two companies of a vendor, with equally named customers: two models, each with an
// authorisation server of its own, or files without one. The names are those of the shipped mappings.
var companies = map[string]func(t *testing.T, n int) [2]*vendor{
	"csv-generic": func(*testing.T, int) [2]*vendor { return [2]*vendor{} }, // the very same file
	"quickbooks": func(t *testing.T, n int) (out [2]*vendor) { // ids are equal, too
		for i, realm := range []string{quickbookstest.Realm, "4620816365001234567"} {
			model := quickbookstest.New(time.Now)
			model.Realm = realm
			model.Add(n)
			out[i] = newVendor(t, model)
			out[i].auth.Back = url.Values{"realmId": {realm}}
		}
		return out
	},
	"xero": func(t *testing.T, n int) (out [2]*vendor) { // ids are unique in the whole of Xero
		for i, tenant := range []xerotest.Tenant{
			{ID: "7d0c2f6e-51c5-4c7b-9a35-0f3f0c8a1b2d", Name: "Harbour", Type: "ORGANISATION"},
			{ID: "11111111-1111-4111-8111-111111111111", Name: "Fjord", Type: "ORGANISATION"},
		} {
			model := xerotest.New(time.Now)
			model.Tenants = []xerotest.Tenant{tenant}
			ids := model.Add((i + 1) * n)
			shown := model.Contacts()
			for j, id := range ids[i*n:] {
				model.Edit(id, func(c *xerotest.Contact) {
					c.Name, c.AccountNumber, c.EmailAddress = shown[j].Name, shown[j].AccountNumber, shown[j].EmailAddress
				})
			}
			for _, id := range ids[:i*n] {
				model.Remove(id)
			}
			out[i] = newVendor(t, model)
		}
		return out
	},
}

// Two companies may have customers of equal ids and equal names, and a payer of one is
// never taken for one of the other.
//
// covers F117
func TestTwoCompaniesOfAVendorOnOneAccountTouchNobodyOfEachOther(t *testing.T) {
	t.Parallel()
	const n = 40
	names := [2]string{"harbour", "fjord"}
	for kind, open := range companies {
		for ledgers := 1; ledgers <= 2; ledgers++ {
			t.Run(fmt.Sprintf("%s, %s", kind, connector.Plural(ledgers, "ledger")), func(t *testing.T) {
				t.Parallel()
				vendors := open(t, n)
				connection := func(i int) string {
					if vendors[i] == nil {
						return fmt.Sprintf("  - {name: %s, organisation: %[1]s, source: {kind: csv, path: customers.csv, id: [AccountNumber]}, mapping: mapping.yaml}\n", names[i])
					}
					return fmt.Sprintf("  - {name: %s, source: {kind: %s, client_id: %s, client_secret: env:BOOKS_SECRET, base_url: %q, authorize_url: \"%[4]s/authorize\", token_url: \"%[4]s/token\"}, mapping: mapping.yaml}\n",
						names[i], kind, credentialstest.ClientID, vendors[i].http.URL)
				}
				first := newWorld(t, nil)
				worlds := [2]*world{first, first}
				if ledgers == 1 {
					first.connected(connection(0)+connection(1), kind)
				} else {
					worlds[1] = newWorld(t, nil)
					worlds[1].service = first.service
					first.connected(connection(0), kind)
					worlds[1].connected(connection(1), kind)
				}
				before := map[string]string{}
				for i, w := range worlds {
					w.env["BOOKS_SECRET"] = credentialstest.ClientSecret
					if v := vendors[i]; v == nil {
						w.write("mapping.yaml", strings.Replace(worldMapping, "customer:\n",
							"scope: tenant\nexternalData: {company: tenant}\ncustomer:\n", 1))
						w.export(people(n)...)
					} else if r := w.connectTo(names[i], v); r.code != exitDone {
						t.Fatalf("connect %s ended with %d:\n%s%s", names[i], r.code, r.out, r.errOut)
					}
					w.expect(exitDone, "backfill", names[i], "--yes")
					if i > 0 {
						continue
					}
					for _, c := range first.box.Customers() {
						before[c.ID] = string(c.Raw)
					}
				}
				for i, w := range worlds {
					if r := w.expect(exitDone, "sync", names[i]); !strings.Contains(r.out, "0 created, 0 linked, 0 updated") {
						t.Errorf("another sync of %s says\n%s", names[i], r.out)
					}
				}
				ofTenant := map[string]int{}
				all := first.box.Customers()
				for _, c := range all {
					if raw, was := before[c.ID]; was && raw != string(c.Raw) {
						t.Errorf("a customer of the first company was\n%s\nand is\n%s", raw, c.Raw)
					}
					ofTenant[cmp.Or(c.ExternalData["quickbooksCompanyId"], c.ExternalData["xeroTenantId"],
						c.ExternalData["company"])]++
				}
				if len(before) != n || len(ofTenant) != 2 || slices.Max(slices.Collect(maps.Values(ofTenant))) != n ||
					len(all) != 2*n {
					t.Errorf("%d customers, then %d, of the companies %v; want %d of each of the two", len(before), len(all), ofTenant,
						n)
				}
			})
		}
	}
}

// byScope counts customers by the organisation beside their key.
func byScope(customers []sandbox.Customer) map[string]int {
	out := map[string]int{}
	for _, c := range customers {
		out[connector.KeyIn(c.ExternalData, "trytonPartyId").Scope]++
	}
	return out
}
