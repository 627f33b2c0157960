package mapping_test

import (
	"encoding/json"
	"testing"

	"payersync/connector"
	"payersync/mapping"
)

func TestTheConditionThatDoesNotAskAPayerIsNamed(t *testing.T) {
	const head = "version: 1\nsource: csv\nkey: {no: Number}\ncustomer:\n  name: Name\n  people: [{email: Email}]\nmandate:\n  request: "
	paying := map[string]string{"Number": "1", "Name": "Ann", "Email": "ann@example.com", "Currency": "USD",
		"Payment method": "Cash"}
	without := map[string]string{"Number": "1", "Name": "Ann", "Currency": "GBP"}
	dollars := map[string]string{"Number": "1", "Name": "Ann", "Currency": "USD"}
	for _, c := range []struct {
		name, rule string
		record     map[string]string
		why        connector.WhyUnasked
		line       int
		condition  string
	}{
		{"asked", `any(customer.people, .email != "")`, paying, "", 0, ""},
		{"no address", `any(customer.people, .email != "") && Currency == "GBP"`, without, connector.UnaskedNoEmail, 8, ""},
		{"no address, and another currency", `any(customer.people, .email != "") && Currency == "GBP"`, dollars,
			connector.UnaskedRule, 8, "Currency is GBP"},
		{"another currency", `any(customer.people, .email != "") && trim(Currency) in ["GBP", ""]`, paying,
			connector.UnaskedRule, 8, "Currency is GBP or blank"},
		{"the second of three", `Currency == "USD" and field("Payment method") == "Direct debit" and Number == "2"`, paying,
			connector.UnaskedRule, 8, "Payment method is Direct debit"},
		{"a choice is one condition", `Currency == "GBP" || Number == "2" && Name == "Bo"`, paying, connector.UnaskedRule, 8,
			`Currency == "GBP" || Number == "2" && Name == "Bo"`},
		{"a mark in quotes", `Name != "a && b" && Currency == "or"`, paying, connector.UnaskedRule, 8, "Currency is or"},
		{"nobody", `false`, paying, connector.UnaskedRule, 8, "nobody is asked"},
		{"nobody, and no address", `false`, without, connector.UnaskedRule, 8, "nobody is asked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			quoted, _ := json.Marshal(c.rule)
			text := []byte(head + string(quoted) + "\n")
			info := connector.SourceInfo{Kind: "csv"}
			for _, f := range []string{"Number", "Name", "Email", "Currency", "Payment method"} {
				info.Fields = append(info.Fields, connector.Field{Name: f, Type: connector.TypeText})
			}
			m, err := mapping.Load("mapping.yaml", text, info)
			if err != nil {
				t.Fatal(err)
			}
			data, _ := json.Marshal(c.record)
			got, err := m.Apply(connector.Record{State: connector.RecordActive, Data: data})
			if err != nil {
				t.Fatal(err)
			}
			u := got.Unasked
			if u.Why != c.why || u.Line != c.line || got.RequestMandate != (c.why == "") {
				t.Errorf("asked %t, unasked %+v, want %q at line %d", got.RequestMandate, u, c.why, c.line)
			}
			if c.condition != "" && mapping.AskingCondition(text, u.Condition) != c.condition {
				t.Errorf("condition %q, want %q", mapping.AskingCondition(text, u.Condition), c.condition)
			}
			m.Explain(connector.Record{State: connector.RecordActive, Data: data})
		})
	}
}
