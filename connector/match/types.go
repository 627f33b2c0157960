package match

import (
	"slices"
	"strings"

	"payersync/connector"
)

// Record is a record of an accounting system, not linked yet.
type Record struct {
	ID      string             // the source id
	Want    connector.Customer // as the mapping renders it
	Numbers []string           // company or VAT numbers, besides those in Want.ExternalData (see Numbers)

	// Exported are numbers that the record also has in the export which another connection read, and that
	// no other record has.
	Exported []string
}

// Customer is a customer of the billing service.
type Customer struct {
	connector.RemoteCustomer
	Numbers []string // company or VAT numbers, besides those in ExternalData (see Numbers)

	Exported []string // numbers in the export that the customer comes from, and that no other one has

	// Taken says in words why the customer is nobody's to propose, for example
	// "linked to record HB002" or "carries the key xeroContactId=4711"; "" when it
	// is free. A taken customer is shown beside others and never proposed.
	Taken string
}

// numberNames are the names of a company or VAT number in externalData, without case and signs.
var numberNames = []string{
	"vat", "vatid", "vatno", "vatnr", "vatnumber", "vatidentifier", "taxid", "ustid", "ustidnr", "uid", "tva", "btw",
	"btwnummer", "mva", "mvanr",
	"companyno", "companynumber", "companyregistrationnumber", "registrationnumber", "companyid", "crn",
	"organisationnumber", "organizationnumber", "organisasjonsnummer", "organisationsnummer", "orgno", "orgnr",
	"orgnummer",
	"siren", "siret", "kvk", "kvknummer", "cvr", "cvrnr", "ytunnus",
}

// Numbers returns the company and VAT numbers in externalData, found by their names, sorted.
func Numbers(externalData map[string]string) []string {
	var out []string
	for name, value := range externalData {
		if slices.Contains(numberNames, plainLetters(name)) && strings.TrimSpace(value) != "" {
			out = append(out, value)
		}
	}
	slices.Sort(out)
	return out
}

// plainLetters returns the Latin letters of a name in lower case.
func plainLetters(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, strings.ToLower(s))
}
