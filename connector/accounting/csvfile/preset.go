package csvfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"payersync/connector"
)

// preset holds the known facts about one system's exports.
type preset struct {
	ids     [][]string        // the first filled one identifies a row
	columns map[string]column // by lower-case name
}

// column holds a preset's facts about a column.
type column struct{ description, example string }

var presets = map[string]preset{
	"generic": {},
	// Xero exports no contact id: it takes a changed ContactName for a new contact itself. So the name stands
	// in if there is no account number.
	"xero": {ids: [][]string{{"AccountNumber"}, {"ContactName"}}, columns: xeroColumns()},
	"sage": {ids: [][]string{{"Reference"}}, columns: sageColumns()},
}

func presetNamed(name string) (preset, error) {
	p, ok := presets[name]
	if !ok {
		names := slices.Sorted(maps.Keys(presets))
		return p, fmt.Errorf("csv source: preset %q is not known%s; use one of %s", name, didYouMean(name, names),
			strings.Join(names, ", "))
	}
	return p, nil
}

// field declares the n-th column of a file, counted from 1.
func (p preset) field(name string, n int) connector.Field {
	c, known := p.columns[strings.ToLower(name)]
	if !known {
		c.description = fmt.Sprintf("Column %d of the file.", n)
	}
	return connector.Field{Name: name, Type: connector.TypeText, Description: c.description, Example: c.example}
}

func xeroColumns() map[string]column {
	columns := map[string]column{
		"contactname":                   {"Name of the contact; unique in Xero.", "Saltmarsh Bakery Ltd"},
		"accountnumber":                 {"Your own number for the contact; may be blank.", "SB001"},
		"emailaddress":                  {"E-mail address of the primary person.", "accounts@saltmarsh.example"},
		"firstname":                     {"First name of the primary person.", "Maureen"},
		"lastname":                      {"Last name of the primary person.", "Tideswell"},
		"phonenumber":                   {"Telephone number.", "01632 960123"},
		"faxnumber":                     {"Fax number.", "01632 960124"},
		"mobilenumber":                  {"Mobile number.", "07700 900123"},
		"ddinumber":                     {"Direct dial number.", "01632 960125"},
		"bankaccountnumber":             {"Bank account that you pay; not needed for direct debit.", ""},
		"taxnumber":                     {"VAT registration number.", "GB000000000"},
		"accountsreceivabletaxcodename": {"Default tax on sales.", "20% (VAT on Income)"},
		"website":                       {"Web site.", "https://saltmarsh.example"},
		"discount":                      {"Default discount in percent.", "5.00"},
		"duedatesalesday":               {"Day on which sales invoices are due.", "14"},
		"duedatesalesterm":              {"What DueDateSalesDay counts from.", "After Invoice Date"},
	}
	for prefix, kind := range map[string]string{"po": "postal", "sa": "street"} {
		maps.Copy(columns, map[string]column{
			prefix + "attentionto":  {"Whom the " + kind + " address is for the attention of.", "Accounts"},
			prefix + "addressline1": {"First line of the " + kind + " address.", "12 Quayside"},
			prefix + "addressline2": {"Second line of the " + kind + " address.", "Unit 4"},
			prefix + "addressline3": {"Third line of the " + kind + " address.", ""},
			prefix + "addressline4": {"Fourth line of the " + kind + " address.", ""},
			prefix + "city":         {"Town or city of the " + kind + " address.", "Whitby"},
			prefix + "region":       {"County or region of the " + kind + " address.", "North Yorkshire"},
			prefix + "postalcode":   {"Postcode of the " + kind + " address.", "YO21 9ZZ"},
			prefix + "country":      {"Country of the " + kind + " address.", "United Kingdom"},
		})
	}
	return columns
}

func sageColumns() map[string]column {
	columns := map[string]column{
		"reference":      {"Unique reference of the contact, at most 10 characters.", "SALT01"},
		"company name":   {"Name of the business or person.", "Saltmarsh Bakery Ltd"},
		"currency":       {"Currency of the account.", "GBP"},
		"credit limit":   {"Credit limit.", "1000.00"},
		"vat number":     {"VAT registration number.", "GB000000000"},
		"ledger account": {"Default ledger account for sales.", "4000"},
	}
	for prefix, kind := range map[string]string{"main address ": "main", "address 2 ": "second"} {
		maps.Copy(columns, map[string]column{
			prefix + "type":      {"Type of the " + kind + " address.", "Accounts"},
			prefix + "line 1":    {"First line of the " + kind + " address.", "12 Quayside"},
			prefix + "line 2":    {"Second line of the " + kind + " address.", "Unit 4"},
			prefix + "town":      {"Town of the " + kind + " address.", "Whitby"},
			prefix + "county":    {"County of the " + kind + " address.", "North Yorkshire"},
			prefix + "post code": {"Postcode of the " + kind + " address, at most 10 characters.", "YO21 9ZZ"},
			prefix + "country":   {"Country of the " + kind + " address, two letters.", "GB"},
		})
	}
	maps.Copy(columns, map[string]column{
		"main contact name":   {"Name of the main contact.", "Maureen Tideswell"},
		"main contact phone":  {"Telephone number of the main contact.", "01632 960123"},
		"main contact type":   {"Role of the main contact.", "Accounts"},
		"main contact mobile": {"Mobile number of the main contact.", "07700 900123"},
		"main contact email":  {"E-mail address of the main contact.", "accounts@saltmarsh.example"},
		"main contact fax":    {"Fax number of the main contact.", "01632 960124"},
	})
	return columns
}
