package tryton

import (
	"payersync/connector"
)

// Fields declares the fields of a party's data.
func Fields() []connector.Field {
	text, yes := connector.TypeText, connector.TypeFlag
	return []connector.Field{
		{Name: "id", Type: text, Description: "Tryton's own number of the party; it never changes.", Example: "17"},
		{Name: "code", Type: text, Description: "The party's code; unique.", Example: "C0001"},
		{Name: "name", Type: text, Description: "Name; empty when the party was erased.", Example: "Saltmarsh Bakery Ltd"},
		{Name: "active", Type: yes, Description: "False when the party was deactivated, merged or erased.", Example: "true"},
		{Name: "email", Type: text, Description: "First active e-mail address.", Example: "accounts@saltmarsh.example"},
		{Name: "phone", Type: text, Description: "First active telephone number.", Example: "+441632960123"},
		{Name: "mobile", Type: text, Description: "First active mobile number.", Example: "+447700900123"},
		{Name: "website", Type: text, Description: "First active web site.", Example: "https://saltmarsh.example"},
		{Name: "tax_identifier", Type: connector.TypeObject, Description: "The identifier that tax reports use.",
			Fields: identifierFields()},
		{Name: "categories", Type: connector.TypeList, Description: "Names of the categories that the party is in.",
			Example: "Customers"},
		{Name: "addresses", Type: connector.TypeList, Description: "Active addresses, in Tryton's order.",
			Fields: []connector.Field{
				{Name: "party_name", Type: text, Description: "Name that stands in for the party's on letters.",
					Example: "Saltmarsh Bakery"},
				{Name: "name", Type: text, Description: "Name of the building.", Example: "Quay House"},
				{Name: "street", Type: text, Description: "Street; may have several lines.", Example: "12 Quayside"},
				{Name: "postal_code", Type: text, Description: "Postcode.", Example: "YO21 3CK"},
				{Name: "city", Type: text, Description: "Town or city.", Example: "Whitby"},
				{Name: "subdivision", Type: text, Description: "County or region.", Example: "North Yorkshire"},
				{Name: "country", Type: text, Description: "Country, two letters.", Example: "GB"},
				{Name: "invoice", Type: yes, Description: "True for invoices; empty without the module account_invoice.",
					Example: "true"},
				{Name: "delivery", Type: yes, Description: "True for deliveries; empty without the module stock.",
					Example: "false"},
			}},
		{Name: "contact_mechanisms", Type: connector.TypeList, Description: "Active contact mechanisms, in Tryton's order.",
			Fields: []connector.Field{
				{Name: "type", Type: text, Description: "phone, mobile, fax, email, website or another.", Example: "email"},
				{Name: "value", Type: text, Description: "Number or address.", Example: "accounts@saltmarsh.example"},
				{Name: "name", Type: text, Description: "What it is for, or who answers.", Example: "Accounts"},
				{Name: "invoice", Type: yes, Description: "True for invoices; empty where the server does not tell.",
					Example: "true"},
			}},
		{Name: "identifiers", Type: connector.TypeList, Description: "Identifiers of the party.", Fields: identifierFields()},
	}
}

func identifierFields() []connector.Field {
	return []connector.Field{
		{Name: "type", Type: connector.TypeText, Description: "Kind of identifier, for example gb_vat.", Example: "gb_vat"},
		{Name: "code", Type: connector.TypeText, Description: "The identifier.", Example: "GB000000000"},
	}
}

// data is a party's data in a record; Fields declares it.
type data struct {
	ID         string           `json:"id"`
	Code       *string          `json:"code"`
	Name       *string          `json:"name"`
	Active     *bool            `json:"active"`
	Email      *string          `json:"email"`
	Phone      *string          `json:"phone"`
	Mobile     *string          `json:"mobile"`
	Website    *string          `json:"website"`
	Tax        *identifierData  `json:"tax_identifier"`
	Categories []*string        `json:"categories"`
	Addresses  []addressData    `json:"addresses"`
	Mechanisms []mechanismData  `json:"contact_mechanisms"`
	Identities []identifierData `json:"identifiers"`
}

type addressData struct {
	PartyName   *string `json:"party_name"`
	Name        *string `json:"name"`
	Street      *string `json:"street"`
	PostalCode  *string `json:"postal_code"`
	City        *string `json:"city"`
	Subdivision *string `json:"subdivision"`
	Country     *string `json:"country"`
	Invoice     *bool   `json:"invoice"`
	Delivery    *bool   `json:"delivery"`
}

type mechanismData struct {
	Type    *string `json:"type"`
	Value   *string `json:"value"`
	Name    *string `json:"name"`
	Invoice *bool   `json:"invoice"`
}

type identifierData struct {
	Type *string `json:"type"`
	Code *string `json:"code"`
}

// data returns a party's data for the record, without its deactivated parts.
func (p party) data(id string) data {
	d := data{
		ID: id, Code: p.Code, Name: p.Name, Active: p.Active.value,
		Email: p.first("email"), Phone: p.first("phone"), Mobile: p.first("mobile"), Website: p.first("website"),
		Categories: []*string{}, Addresses: []addressData{}, Mechanisms: []mechanismData{}, Identities: []identifierData{},
	}
	if p.Tax != nil {
		d.Tax = &identifierData{p.Tax.Type, p.Tax.Code}
	}
	d.Categories = append(d.Categories, connector.Map(p.Categories, func(c category) *string { return c.Name })...)
	for _, a := range p.Addresses {
		if !a.Active.off() {
			d.Addresses = append(d.Addresses, a.data())
		}
	}
	for _, m := range p.Mechanisms {
		if !m.Active.off() {
			d.Mechanisms = append(d.Mechanisms, mechanismData{m.Type, m.Value, m.Name, m.Invoice.value})
		}
	}
	for _, i := range p.Identities {
		if !i.Active.off() {
			d.Identities = append(d.Identities, identifierData{i.Type, i.Code})
		}
	}
	return d
}

// first returns the first active contact mechanism of a type. The server's own fields of that kind may name
// inactive ones in a read with inactive parties.
func (p party) first(kind string) *string {
	m, _ := connector.Find(p.Mechanisms,
		func(m mechanism) bool { return !m.Active.off() && m.Type != nil && *m.Type == kind })
	return m.Value
}

func (a address) data() addressData {
	d := addressData{
		PartyName: a.PartyName, Name: a.Name, Street: a.Street, PostalCode: a.PostalCode, City: a.City,
		Invoice: a.Invoice.value, Delivery: a.Delivery.value,
	}
	if d.Name == nil {
		d.Name = a.Building
	}
	if a.Subdivision != nil {
		d.Subdivision = a.Subdivision.Name
	}
	if a.Country != nil {
		d.Country = a.Country.Code
	}
	return d
}
