package mapping

import (
	"encoding/json"
	"net/mail"
	"strings"
	"testing"

	"payersync/connector"
)

const benchData = `{"ContactID": "0b6f1c2e-6d0f-4b53-9f6b-1d2f7e8a9c10", "Name": " Northwind Bakery Ltd ", "FirstName": "Ann", "LastName": "Baker",
	"EmailAddress": "Accounts@Northwind.example", "ContactStatus": "ACTIVE", "IsCustomer": true, "DefaultCurrency": "GBP",
	"Phones": [{"PhoneType": "FAX", "PhoneNumber": ""}, {"PhoneType": "DEFAULT", "PhoneNumber": "496 0123", "PhoneAreaCode": "0113"}],
	"Addresses": [{"AddressType": "STREET"}, {"AddressType": "POBOX", "AddressLine1": "1 High Street", "City": "Leeds", "PostalCode": "LS1 1AA"}]}`

const flatMapping = `version: 1
source: xero
key: {id: ContactID}
include: ContactStatus == "ACTIVE"
customer:
  name: trim(Name)
  people:
    - {firstName: title(FirstName), lastName: title(LastName), email: lower(firstEmail(EmailAddress)), phone: 'field("phone")'}
  addresses:
    - {postCode: 'postcode(field("Post Code"))'}
externalData: {currency: 'default(DefaultCurrency, "GBP")'}
mandate: {request: 'isEmail(customer.people[0].email)'}
`

const flatData = `{"ContactID": "A-0017", "Name": " Northwind Bakery Ltd ", "FirstName": "ANN", "LastName": "BAKER", "EmailAddress": "Accounts@Northwind.example",
	"ContactStatus": "ACTIVE", "DefaultCurrency": "", "Post Code": "ls1 1aa", "phone": "0113 496 0123"}`

// BenchmarkApply measures a mapping of ten expressions beside the same work
// written by hand in Go, decoding of the record included.
func BenchmarkApply(b *testing.B) {
	b.Run("mapping", func(b *testing.B) {
		m := load(b, wholeFile(b))
		b.ReportAllocs()
		for b.Loop() {
			if got, err := m.Apply(connector.Record{Data: []byte(benchData)}); err != nil || !got.RequestMandate {
				b.Fatal(got, err)
			}
		}
	})
	b.Run("mapping of a flat record", func(b *testing.B) {
		m := load(b, flatMapping)
		b.ReportAllocs()
		for b.Loop() {
			if got, err := m.Apply(connector.Record{Data: []byte(flatData)}); err != nil || got.Customer.Name == "" {
				b.Fatal(got, err)
			}
		}
	})
	b.Run("by hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if got, err := byHand([]byte(benchData)); err != nil || !got.RequestMandate {
				b.Fatal(got, err)
			}
		}
	})
}

type contact struct {
	ContactID, Name, FirstName, LastName, EmailAddress, ContactStatus, DefaultCurrency string

	IsCustomer bool
	Phones     []struct{ PhoneType, PhoneCountryCode, PhoneAreaCode, PhoneNumber string }
	Addresses  []struct{ AddressType, AddressLine1, City, PostalCode string }
}

func byHand(data []byte) (Result, error) {
	var c contact
	if err := json.Unmarshal(data, &c); err != nil || !c.IsCustomer || c.ContactStatus != "ACTIVE" {
		return Result{}, err
	}
	p := connector.Person{Name: strings.TrimSpace(c.FirstName + " " + c.LastName)}
	if a, err := mail.ParseAddress(c.EmailAddress); err == nil {
		p.Email = strings.ToLower(a.Address)
	}
	for _, phone := range c.Phones {
		if phone.PhoneType == "DEFAULT" {
			p.Phone = strings.TrimSpace(phone.PhoneCountryCode + " " + phone.PhoneAreaCode + " " + phone.PhoneNumber)
		}
	}
	out := connector.Customer{Name: strings.TrimSpace(c.Name), People: []connector.Person{p},
		ExternalData: map[string]string{"xeroContactId": c.ContactID, "xeroTenantId": "tenant-1"}}
	for _, a := range c.Addresses {
		if a.AddressType == "POBOX" {
			out.Addresses = []connector.Address{{Line1: a.AddressLine1, City: a.City, PostCode: a.PostalCode}}
		}
	}
	return Result{Included: true, Key: connector.Key{Name: "xeroContactId", Value: c.ContactID}, Customer: out,
		RequestMandate: p.Email != "" && c.DefaultCurrency == "GBP"}, nil
}

// BenchmarkNumbers measures what reading a phone number adds to a mapping.
func BenchmarkNumbers(b *testing.B) {
	r := connector.Record{Data: []byte(`{"ContactID": "c1", "phone": "0113 496 0123"}`)}
	for _, expression := range []string{`field("phone")`, `phone(field("phone"), "GB")`} {
		b.Run(expression, func(b *testing.B) {
			m := load(b, named(expression))
			for b.Loop() {
				if got, err := m.Apply(r); err != nil || got.Customer.Name == "" {
					b.Fatal(got, err)
				}
			}
		})
	}
}
