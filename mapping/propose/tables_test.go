package propose_test

import (
	"strings"
	"testing"

	"payersync/connector"
	"payersync/mapping"
	"payersync/mapping/propose"
)

// stored makes a database's table of lines, with its keys.
func stored(primary bool, keys [][]string, lines ...string) propose.Table {
	t := rows(lines...)
	t.Spoilt, t.Stored, t.Keys, t.Primary = nil, true, keys, primary
	return t
}

func TestTheIDOfATableIsItsKey(t *testing.T) {
	t.Parallel()
	lines := []string{"id;customer_no;name;email", "1;K-1;Ann Oak;a@a.example", "2;K-2;Bob Elm;b@b.example",
		"3;K-3;Cy Ash;c@c.example"}
	for name, tt := range map[string]struct {
		table propose.Table
		said  propose.Said
		id    string
		why   string
	}{
		"the primary key": {stored(true, [][]string{{"id"}}, lines...), propose.Said{}, "id",
			"it is the primary key, and each row keeps its own"},
		"before a unique number": {stored(true, [][]string{{"id"}, {"customer_no"}}, lines...), propose.Said{}, "id",
			"it is the primary key"},
		"the number where one says": {stored(true, [][]string{{"id"}, {"customer_no"}}, lines...),
			propose.Said{Answers: map[string]int{"id": 1}}, "customer_no",
			"the database keeps it unique, and it is never blank"},
		"the unique number alone": {stored(false, [][]string{{"email"}, {"customer_no"}}, lines...), propose.Said{},
			"customer_no", "the database keeps it unique"},
		"both parts of a key": {stored(true, [][]string{{"id", "customer_no"}}, lines...), propose.Said{},
			"id,customer_no", "it is the primary key"},
		"by the values of a view": {stored(false, nil, lines...), propose.Said{}, "customer_no",
			"all 3 rows have a value, each its own"},
		"as somebody says": {stored(true, [][]string{{"id"}}, lines...), propose.Said{ID: []string{"name"}}, "name",
			"you said so"},
		"never by an address": {stored(true, [][]string{{"email"}}, lines...), propose.Said{}, "customer_no",
			"each its own"},
	} {
		p := propose.From(tt.table, tt.said)
		if got := strings.Join(p.ID, ","); got != tt.id || !strings.Contains(string(p.File()), tt.why) {
			t.Errorf("%s: the id is %s, want %s because %s:\n%s", name, got, tt.id, tt.why, p.File())
		}
		if number := value(p, "externalData.number"); (number == "trim(customer_no)") != (name == "before a unique number") {
			t.Errorf("%s: the number beside the id is %q", name, number)
		}
		if !strings.Contains(string(p.File()), "\nsource: sql\n") {
			t.Errorf("%s: it is no mapping for a database:\n%s", name, p.File())
		}
	}
}

// The rule is the column itself, so a later row with neither yes nor no waits.
func TestAColumnOfYesAndNoIsTheRuleItself(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ column, values, want string }{
		"1 and 0":          {"active", "1 1 0 1", "active"},
		"true and false":   {"is_active", "true true true false", "is_active"},
		"t and f":          {"aktiv", "t f t t", "aktiv"},
		"Y and N":          {"disabled", "N Y N N", "not disabled"},
		"a customer's":     {"is_customer", "1 1 0 1", "is_customer"},
		"a supplier's":     {"is_supplier", "0 0 1 0", "not is_supplier"},
		"words":            {"status", "active active closed active", `lower(trim(status)) == "active"`},
		"a blank among it": {"active", "1 1 0 -", `lower(trim(active)) == "1"`},
	} {
		lines := []string{"id;name;" + tt.column}
		for i, v := range strings.Fields(tt.values) {
			lines = append(lines, string(rune('1'+i))+";Ann "+string(rune('A'+i))+";"+strings.Trim(v, "-"))
		}
		table := stored(true, [][]string{{"id"}}, lines...)
		p := propose.From(table, propose.Said{})
		if got := value(p, "include"); got != tt.want {
			t.Errorf("%s: include is %s, want %s", name, got, tt.want)
		}
		info := connector.SourceInfo{Kind: "sql", Organisation: "example"}
		for _, column := range table.Columns {
			info.Fields = append(info.Fields, connector.Field{Name: column, Type: connector.TypeText})
		}
		if _, err := mapping.Load("mapping.yaml", p.File(), info); err != nil {
			t.Errorf("%s: the proposal is no mapping: %v\n%s", name, err, p.File())
		}
	}
}

func TestTheTableOfCustomersIsTheLikeliest(t *testing.T) {
	t.Parallel()
	person := []string{"id", "name", "email", "street", "city"}
	before := 1000
	for _, name := range []string{"customers", "public.kunden", "v_customers", "contacts", "customers_old"} {
		got := propose.Likely(name, person)
		if got > before || got <= 0 {
			t.Errorf("%s has %d points, the one before %d", name, got, before)
		}
		before = got
	}
	for name, columns := range map[string][]string{"customer_groups": {"id", "name"},
		"invoice_lines": {"id", "customer_name"}, "sessions": {"id", "data"}, "suppliers": person} {
		if got := propose.Likely(name, columns); got >= before+20 {
			t.Errorf("%s has %d points", name, got)
		}
	}
	if got := propose.Likely("customers", []string{"id", "since"}); got > 0 {
		t.Errorf("a table without names has %d points", got)
	}
}
