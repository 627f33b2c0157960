package xero

import "payersync/connector"

// Fields declares the possible fields of a contact, spelt as in Xero. It omits bank details, because
// payersync does not need them, and balances and times of edit, because they would make unchanged contacts
// look edited.
func Fields() []connector.Field {
	text := func(name, description, example string) connector.Field {
		return connector.Field{Name: name, Type: connector.TypeText, Description: description, Example: example}
	}
	flag := func(name, description string) connector.Field {
		return connector.Field{Name: name, Type: connector.TypeFlag, Description: description, Example: "true"}
	}
	list := func(name, description string, fields ...connector.Field) connector.Field {
		return connector.Field{Name: name, Type: connector.TypeList, Description: description, Fields: fields}
	}
	object := func(name, description string, fields ...connector.Field) connector.Field {
		return connector.Field{Name: name, Type: connector.TypeObject, Description: description, Fields: fields}
	}
	day := connector.Field{Name: "Day", Type: connector.TypeNumber, Description: "Day, or number of days", Example: "20"}
	terms := []connector.Field{day, text("Type", "What Day means", "DAYSAFTERBILLDATE")}
	return []connector.Field{
		text("ContactID", "Xero's id of the contact, which never changes", "0b6f1c2e-6d0f-4b53-9f6b-1d2f7e8a9c10"),
		text("ContactStatus", "ACTIVE, ARCHIVED or GDPRREQUEST", "ACTIVE"),
		text("MergedToContactID", "The contact that this one was merged into", ""),
		text("Name", "Name of the organisation or person", "Northwind Bakery Ltd"),
		text("ContactNumber", "Number given by other software", ""),
		text("AccountNumber", "Account number given by you", "NB-001"),
		text("FirstName", "First name of the main contact person", "Ann"),
		text("LastName", "Last name of the main contact person", "Baker"),
		text("EmailAddress", "E-mail address of the main contact person", "accounts@northwind.example"),
		text("CompanyNumber", "Company registration number", "01234567"),
		text("TaxNumber", "VAT, GST or ABN number", "GB980780684"),
		text("TaxNumberType", "Kind of tax number, where Xero has one", ""),
		text("DefaultCurrency", "Currency, three letters; blank for the organisation's own", "GBP"),
		text("Website", "Website", ""),
		flag("IsCustomer", "Has had a sales invoice"),
		flag("IsSupplier", "Has had a bill"),
		list("Addresses", "Addresses; POBOX is the postal one",
			text("AddressType", "POBOX or STREET", "POBOX"),
			text("AddressLine1", "First line", "1 Quay St"), text("AddressLine2", "Second line", "Unit 4"),
			text("AddressLine3", "Third line", ""), text("AddressLine4", "Fourth line", ""),
			text("City", "Town", "Leeds"), text("Region", "County or state", ""),
			text("PostalCode", "Postcode", "LS1 4AP"), text("Country", "Country, as somebody wrote it", "United Kingdom"),
			text("AttentionTo", "For the attention of", "")),
		list("Phones", "Phone numbers",
			text("PhoneType", "DEFAULT, DDI, MOBILE, FAX or OFFICE", "DEFAULT"),
			text("PhoneNumber", "Number", "2000111"), text("PhoneAreaCode", "Area code", "113"),
			text("PhoneCountryCode", "Country code", "44")),
		list("ContactPersons", "Further contact persons",
			text("FirstName", "First name", "Bo"), text("LastName", "Last name", "Lee"),
			text("EmailAddress", "E-mail address", "bo@northwind.example"), flag("IncludeInEmails", "Gets copies of invoices")),
		list("ContactGroups", "Groups that the contact is in", text("ContactGroupID", "Xero's id of the group", ""),
			text("Name", "Name of the group", "Direct debit")),
		object("PaymentTerms", "When invoices are due", object("Sales", "Of invoices to this contact", terms...),
			object("Bills", "Of bills from this contact", terms...)),
	}
}
