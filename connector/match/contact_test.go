package match

import (
	"slices"
	"testing"

	"payersync/connector"
)

func TestPhonesAreOneHoweverTheyAreWritten(t *testing.T) {
	t.Parallel()
	tests := []struct {
		a, regionA, b, regionB string
		want                   bool
	}{
		{"+49 30 1234567", "", "030/123 45 67", "DE", true},
		{"0049 (30) 1234567", "DE", "+49301234567", "", true},
		{"+44 20 7946 0123", "", "020 7946 0123", "GB", true},
		{"22 33 44 55", "NO", "+4722334455", "", true},
		{"030 1234567", "", "+49 30 1234567", "", true}, // nobody says whose it is, so its end must do
		{"030 1234567", "DE", "030 1234568", "DE", false},
		{"+49 30 1234567", "", "+47 30 1234567", "", false},
	}
	for _, tt := range tests {
		if a, b := phone(tt.a, tt.regionA), phone(tt.b, tt.regionB); samePhone(a, b) != tt.want ||
			samePhone(b, a) != tt.want || phoneEnd(a) == "" {
			t.Errorf("%q (%s) and %q (%s): %t, want %t", tt.a, a, tt.b, b, !tt.want, tt.want)
		}
	}
	for _, s := range []string{"", "112", "call me", "030 123456 ext. 7", "000 0000 000",
		"12345678901234567890123456789012345678901234567890123"} {
		if got := phone(s, "DE"); got != "" {
			t.Errorf("phone(%q) = %q, want none", s, got)
		}
	}
}

func TestPostcodesAreOneHoweverTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{{"D-10115", "10115", "DE-10115", " 10115 "}, {"yo213ck", "YO21 3CK"},
		{"111 29", "11129", "SE-111 29"}, {"94105-1234", "94105"}, {"1012 AB", "1012ab", "NL-1012 AB"}} {
		for _, s := range same {
			if postcode(s) != postcode(same[0]) {
				t.Errorf("postcode(%q) = %q, and of %q it is %q", s, postcode(s), same[0], postcode(same[0]))
			}
		}
	}
	if postcode("01067") == postcode("1067") {
		t.Error("01067 and 1067 are one postcode")
	}
}

func TestCompanyNumbersAreOneHoweverTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"NO 987 654 321 MVA", "987654321"}, {"SE556012345601", "556012-3456"},
		{"CHE-123.456.789 MWST", "123456789", "CHE123456789"},
		{"FR 83 404833048", "404 833 048"}, {"DE 123 456 789", "de123456789"}, {"01234567", "1234567"},
		{"SC123456", "sc 123456"},
	} {
		for _, s := range same {
			if got := number(s); got == "" || got != number(same[0]) {
				t.Errorf("number(%q) = %q, and of %q it is %q", s, got, same[0], number(same[0]))
			}
		}
	}
	for _, s := range []string{"", "HRB 12345", "HRB 1234567 B", "n/a", "none of ours", "12"} {
		if got := number(s); got != "" {
			t.Errorf("number(%q) = %q, want none", s, got)
		}
	}
}

func TestNumbersAreFoundInExternalData(t *testing.T) {
	t.Parallel()
	got := Numbers(map[string]string{"vatNumber": "DE123456789", "Company No.": "01234567", "orgNr": "  ",
		"xeroContactId": "4711", "note": "VAT"})
	if want := []string{"01234567", "DE123456789"}; !slices.Equal(got, want) {
		t.Errorf("Numbers = %q, want %q", got, want)
	}
}

func TestAddressesAreElsewhereByStreetOrNumber(t *testing.T) {
	t.Parallel()
	tests := []struct {
		a, b string
		want bool
	}{
		{"Hauptstraße 5", "Hauptstr. 5", false},
		{"Hauptstraße 5", "Hauptstr. 5a", false},
		{"Unit 4, 12 Quayside", "12 Quayside", false},
		{"Hauptstraße 5", "c/o Meier, Hauptstraße 5", false},
		{"12 Church Road", "12 Church Rd", false},
		{"Hauptstraße 5", "", false},
		{"Hauptstraße 5", "Hauptstraße 7", true},
		{"Hauptstraße 5", "Postfach 1234", true},
		{"Hauptstraße 5", "Am Markt 5", true},
	}
	for _, tt := range tests {
		if got := elsewhere(street(tt.a), street(tt.b)); got != tt.want || elsewhere(street(tt.b), street(tt.a)) != tt.want {
			t.Errorf("%q and %q: %t, want %t", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestCountriesAreComparedByTheirLetters(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{"de": "DE", " GB ": "GB", "UK": "GB", "Germany": "", "": ""} {
		if got := country(given); got != want {
			t.Errorf("country(%q) = %q, want %q", given, got, want)
		}
	}
}

func TestAnAddressHasTheSameKeyHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b connector.Address
		same bool
	}{
		{connector.Address{Line1: "12 Quay Street", PostCode: "LS1 4AP"},
			connector.Address{Line1: "12 QUAY ST.", PostCode: "ls14ap"}, true},
		{connector.Address{Line1: "Hauptstraße 5", PostCode: "D-50667"},
			connector.Address{Line1: "Hauptstr. 5", PostCode: "50667", City: "Köln"}, true},
		{connector.Address{Line1: "12 Quay Street", PostCode: "LS1 4AP"},
			connector.Address{Line1: "14 Quay Street", PostCode: "LS1 4AP"}, false},
		{connector.Address{Line1: "12 Quay Street", PostCode: "LS1 4AP"},
			connector.Address{Line1: "12 Quay Street", PostCode: "YO1 7HH"}, false},
	} {
		if got := AddressKey(tt.a) == AddressKey(tt.b); got != tt.same {
			t.Errorf("%v and %v have the same key: %t, want %t", tt.a, tt.b, got, tt.same)
		}
	}
	for _, a := range []connector.Address{{Line1: "12 Quay Street"}, {PostCode: "LS1 4AP"}, {}} {
		if key := AddressKey(a); key != "" {
			t.Errorf("the key of %v is %q", a, key)
		}
	}
}

func TestFieldsOfTwoSidesAreComparedAsTheScoreComparesThem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ got, want bool }{
		"a phone with the code of the country and without": {EqualPhones("+441650258987", "01650 258987"), true},
		"one phone of two":                     {EqualPhones("01632 960101, 01650 258987", "+44 1650 258987"), true},
		"another phone":                        {EqualPhones("+441650258987", "01650 258988"), false},
		"a text that is no phone, twice":       {EqualPhones("ask Anna", "Ask anna"), true},
		"a shortened street":                   {EqualStreets("17 Mill Lane", "17 mill ln."), true},
		"another number in the street":         {EqualStreets("17 Mill Lane", "18 Mill Lane"), false},
		"a postcode without its space":         {EqualPostcodes("ls6 2km", "LS62KM"), true},
		"a name in other letters, not another": {EqualTexts("Café Zoë", "CAFE ZOE") && !EqualTexts("Zoë", "Zoë & Co"), true},
	} {
		if c.got != c.want {
			t.Errorf("%s: equal is %t", name, c.got)
		}
	}
}
