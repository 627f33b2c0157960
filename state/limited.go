package state

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"payersync/connector"
)

// ofConnections holds for each table and view with rows of single connections a condition. The
// condition selects the rows t of the connections that replace IN (?).
var ofConnections = map[string]string{
	"alarms": "t.connection IN (?)", "apart": "t.connection IN (?)", "attempts": "t.connection IN (?)",
	"attention": "t.connection IN (?)",
	"changes":   "t.connection IN (?)", "connections": "t.name IN (?)", "create_stops": "t.connection IN (?)",
	"cursors": "t.connection IN (?)", "labels": "t.connection IN (?)",
	"letter_addresses": "t.connection IN (?)", "letters": "t.connection IN (?)", "match_candidates": "t.connection IN (?)",
	"payers": "t.connection IN (?)",
	"plans":  "t.connection IN (?)", "put_off": "t.connection IN (?)", "runs": "t.connection IN (?)",
	"source_records": "t.connection IN (?)",
	"tokens":         "t.connection IN (?)", "two_way": "t.connection IN (?)", "two_way_echoes": "t.connection IN (?)",
	"unclaimed_keys": "t.connection IN (?)", "words": "t.connection IN (?)",
	"writeback_approvals": "t.connection IN (?)", "writeback_runs": "t.connection IN (?)",
	"writebacks":      "t.connection IN (?)",
	"open_duplicates": "t.connection IN (?)", "v_attention": "t.connection IN (?)", "v_mandates": "t.connection IN (?)",
	"v_payers": "t.connection IN (?)", "v_runs": "t.connection IN (?)",

	"connection_decisions": "t.old_connection IN (?) AND t.new_connection IN (?)",
	"move_pairs":           "t.old_connection IN (?) AND t.new_connection IN (?)",

	"likenesses":          "EXISTS (SELECT 1 FROM main.payers o WHERE o.payer_id = t.payer_id AND o.connection IN (?))",
	"letter_stops":        "t.connection IN ('', ?)", // those of an address, and of all letters, hold for these, too
	"mandates":            ofCustomers,
	"duplicate_customers": "EXISTS (SELECT 1 FROM main.payers o WHERE (o.billing_id = t.billing_id OR o.billing_id = t.other_id) AND o.connection IN (?))",
	"mandate_history":     ofCustomers,
	"v_mandate_history":   ofCustomers,
	"financial_statuses":  ofCustomers,
	"handovers":           ofMandates,
	"failure_reasons":     ofMandates,
	"letter_approved":     ofMandates,
	"foreign_moves":       "EXISTS (SELECT 1 FROM main.changes o WHERE o.change_id = t.change_id AND o.connection IN (?))",
	"jobs":                "substr(t.name, instr(t.name, ' ') + 1) IN (?)",
	"audit": "(t.action <> '" + MappingSaved +
		"' OR substr(t.subject, 1, instr(t.subject, ' ') - 1) IN (?))",

	// Webhooks concern the billing service's customers, which need not belong to a payer yet.
	"inbox": "1 = 0", "v_inbox": "1 = 0", "inbox_counts": "1 = 0", "alarm_messages": "1 = 0",
}

const (
	ofCustomers = "EXISTS (SELECT 1 FROM main.payers o WHERE o.billing_id = t.billing_id AND o.connection IN (?))"
	ofMandates  = "EXISTS (SELECT 1 FROM main.mandates m JOIN main.payers o ON o.billing_id = m.billing_id WHERE m.mandate_id = t.mandate_id AND o.connection IN (?))"
)

// LimitedTo returns a view of the ledger for a user limited to these connections: its reads show no rows
// of others. Each query reads a table by its bare name and gets only the permitted rows. Writes,
// and their reads, use the whole ledger, because its constraints cover all of it. Closing the
// ledger closes both.
func (l *Ledger) LimitedTo(connections []string) *Ledger {
	names := connector.Map(connections,
		func(name string) string { return "'" + strings.ReplaceAll(name, "'", "''") + "'" })
	among := strings.Join(names, ", ")
	among = cmp.Or(among, "NULL")
	var tables []string
	for _, table := range slices.Sorted(maps.Keys(ofConnections)) {
		tables = append(tables, table+" AS NOT MATERIALIZED (SELECT * FROM main."+table+" t WHERE "+strings.ReplaceAll(ofConnections[table], "?", among)+")")
	}
	only := *l
	only.only = strings.Join(tables, ", ")
	return &only
}

// limited returns a query limited to this ledger's view.
func (l *Ledger) limited(query string) string {
	if l.only == "" {
		return query
	}
	query = strings.TrimSpace(query)
	for _, begin := range []string{"WITH RECURSIVE ", "WITH "} {
		if rest, ok := strings.CutPrefix(query, begin); ok {
			return begin + l.only + ", " + rest
		}
	}
	return "WITH " + l.only + " " + query
}
