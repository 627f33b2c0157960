package connector_test

import (
	"testing"

	"payersync/connector"
)

// covers F106
func TestTheSameInAnotherFormIsTold(t *testing.T) {
	t.Parallel()
	tests := []struct {
		a, b string
		want bool
	}{
		{"Northwind", "Northwind", true},
		{"Northwind  Ltd", "Northwind Ltd.", true},
		{"northwind ltd", "NORTHWIND LTD", true},
		{"SW1A1AA", "SW1A 1AA", true},
		{"+49 30 123456", "+4930123456", true},
		{"030 / 123 456", "+49 30 123456", true},
		{"0049 30 123456", "+49 30 123456", true},
		{"(0)30-1234567", "00493 01234567", true},
		{"Ada@Example.com", "ada@example.com", true},
		{"", "", true},
		{"", "Northwind", false},
		{"-", "", false},
		{"Northwind", "Southwind", false},
		{"Müller", "Muller", false},
		{"030 123456", "030 123457", false},
		{"123456", "0049 30 123456", false}, // too few digits to be sure
		{"12 High Street", "112 High Street", false},
		{"Suite 1234567", "1234567", false},
	}
	for _, tt := range tests {
		if got := connector.SameForm(tt.a, tt.b); got != tt.want {
			t.Errorf("SameForm(%q, %q) = %t, want %t", tt.a, tt.b, got, tt.want)
		}
		if connector.SameForm(tt.a, tt.b) != connector.SameForm(tt.b, tt.a) {
			t.Errorf("SameForm(%q, %q) depends on the order", tt.a, tt.b)
		}
	}
}
