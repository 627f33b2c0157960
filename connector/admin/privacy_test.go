package admin

import (
	"fmt"
	"strings"
	"testing"

	"payersync/connector"
	"payersync/mapping"
)

// clean is what a terminal wants of a text.
func clean(s string) string { return strings.ReplaceAll(s, "\x1b", "\uFFFD") }

func TestValuesAreShortenedAndBankDetailsNeverShown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, short, whole string }{
		{"Name", "Ada Lovelace", "Ada…", "Ada Lovelace"},
		{"Name", "Ann", "…", "Ann"},
		{"Name", "Ëlla", "Ë…", "Ëlla"},
		{"Name", "", "", ""},
		{"Active", "true", "true", "true"},
		{"BankAccountNumber", "12345678", NotShown, NotShown},
		{"Bank Details", "12-34-56", NotShown, NotShown},
		{"IBAN", "GB00BANK", NotShown, NotShown},
		{"Org", `{"Name":"Ada Lovelace","BankAccount":"123","Age":36}`,
			`{"Age":"…","BankAccount":"[not shown]","Name":"Ada…"}`,
			`{"Age":"36","BankAccount":"[not shown]","Name":"Ada Lovelace"}`},
		{"Payments", `[{"sortCode":"12-34-56"}]`, `[{"sortCode":"[not shown]"}]`, `[{"sortCode":"[not shown]"}]`},
		{"Note", "[see below", "[s…", "[see below"},
		{"Name", "a\x1b[2Jb", "a…", "a\uFFFD[2Jb"},
	} {
		if got := (Privacy{Clean: clean}).Field(c.name, c.value); got != c.short {
			t.Errorf("%s %q is shortened to %q, want %q", c.name, c.value, got, c.short)
		}
		if got := (Privacy{Whole: true, Clean: clean}).Field(c.name, c.value); got != c.whole {
			t.Errorf("%s %q is shown as %q, want %q", c.name, c.value, got, c.whole)
		}
	}
}

func TestARuleThatReadsBankDetailsShowsNoValue(t *testing.T) {
	t.Parallel()
	info := connector.SourceInfo{Kind: "csv", Fields: []connector.Field{
		{Name: "No", Type: connector.TypeText}, {Name: "BankAccountNumber", Type: connector.TypeText},
	}}
	m, err := mapping.Load("mapping.yaml",
		[]byte("version: 1\nsource: csv\nkey: {no: No}\ncustomer: {name: upper(BankAccountNumber)}\n"), info)
	if err != nil {
		t.Fatal(err)
	}
	x := m.Explain(connector.Record{SourceID: "1", State: connector.RecordActive,
		Data: []byte(`{"No":"1","BankAccountNumber":"gb12345678"}`)})
	told := fmt.Sprint(Privacy{Whole: true}.rules(x.Rules))
	if !strings.Contains(told, NotShown) || strings.Contains(strings.ToLower(told), "gb12345678") {
		t.Errorf("told %s", told)
	}
}
