package main

import (
	"fmt"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/connector/accounting/tryton/trytontest"
	"payersync/connector/sandbox"
)

// party is a customer in Tryton.
func party(category trytontest.ID, company string, n int) trytontest.Values {
	return trytontest.Values{
		"name":               fmt.Sprintf("%s %d", company, n),
		"categories":         []any{[]any{"add", []any{category}}},
		"contact_mechanisms": []any{[]any{"create", []trytontest.Values{{"type": "email", "value": fmt.Sprintf("p%d@%s.example", n, strings.ToLower(company))}}}},
	}
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
		config := w.config()
		from, to := strings.Index(config, "connections:\n"), strings.Index(config, "guards:")
		w.write("payersync.yaml", config[:from]+"connections:\n"+connections+config[to:])
		w.write("mapping.yaml", readShipped(t, "configs/mappings/tryton.yaml"))
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
				if told := w.expect(exitDone, "attention", "list", "--connection", strings.ToLower(companies[i])); strings.Contains(told.out, string(connector.ReasonKeyShared)) {
					t.Errorf("%s is told:\n%s", companies[i], told.out)
				}
			}
		})
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
