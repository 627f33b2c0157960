package config

import (
	"testing"

	"payersync/connector/accounting/csvfile"
)

// covers F171
func TestBooksAreCalledAsTheBillingServiceCallsThem(t *testing.T) {
	t.Parallel()
	kind := func(name, preset string) Connection {
		var c Connection
		c.Source.Kind, c.Source.CSV = name, csvfile.Config{Preset: preset}
		return c
	}
	for want, c := range map[string]Connection{
		"XERO": kind(KindXero, ""), "QUICKBOOKS": kind(KindQuickBooks, ""), "SAGE": kind(KindCSV, "sage"),
		"": kind(KindCSV, "generic"),
	} {
		if got := c.Native(); got != want {
			t.Errorf("%s %s: %q, want %q", c.Source.Kind, c.Source.CSV.Preset, got, want)
		}
	}
	for _, c := range []Connection{kind(KindCSV, ""), kind(KindSQL, "")} {
		if got := c.Native(); got != "" {
			t.Errorf("%s: %q, which no service calls anything", c.Source.Kind, got)
		}
	}
	if c := kind(KindCSV, "xero"); c.Native() != "XERO" {
		t.Errorf("an export of Xero is of %q", c.Native())
	}
}
