package quickbooks

import "payersync/connector"

// Fields declares the possible fields of a customer, spelt as in QuickBooks. It omits the time of last edit,
// because it would make unchanged customers look edited.
func Fields() []connector.Field {
	text := func(name, description, example string) connector.Field {
		return connector.Field{Name: name, Type: connector.TypeText, Description: description, Example: example}
	}
	flag := func(name, description, example string) connector.Field {
		return connector.Field{Name: name, Type: connector.TypeFlag, Description: description, Example: example}
	}
	object := func(name, description string, fields ...connector.Field) connector.Field {
		return connector.Field{Name: name, Type: connector.TypeObject, Description: description, Fields: fields}
	}
	phone := func(name, description, example string) connector.Field {
		return object(name, description, text("FreeFormNumber", "The number, as somebody wrote it", example))
	}
	address := func(name, description string) connector.Field {
		return object(name, description,
			text("Line1", "First line", "1 Quay St"), text("Line2", "Second line", "Unit 4"), text("Line3", "Third line", ""),
			text("Line4", "Fourth line", ""), text("Line5", "Fifth line", ""), text("City", "Town", "Leeds"),
			text("CountrySubDivisionCode", "County or state", ""), text("PostalCode", "Postcode", "LS1 4AP"),
			text("Country", "Country, as somebody wrote it", "United Kingdom"))
	}
	reference := func(name, description, value, shown string) connector.Field {
		return object(name, description, text("value", "Its id or code", value), text("name", "Its name", shown))
	}
	return []connector.Field{
		text("Id", "QuickBooks' id of the customer, which never changes", "67"),
		text("SyncToken", "Number of the edit", "3"),
		object("MetaData", "About the entry", text("CreateTime", "When it was made", "2026-01-02T09:11:12-08:00")),
		flag("Active", "Is not made inactive", "true"),
		text("DisplayName", "Name that is unique among customers, suppliers and employees", "Northwind Bakery Ltd"),
		text("FullyQualifiedName", "DisplayName, behind those of its parents", "Northwind Bakery Ltd"),
		text("CompanyName", "Name of the company", "Northwind Bakery Ltd"),
		text("Title", "Title", ""), text("GivenName", "First name", "Ann"), text("MiddleName", "Middle name", ""),
		text("FamilyName", "Last name", "Baker"), text("Suffix", "What follows the name", ""),
		text("PrintOnCheckName", "Name on cheques", ""),
		object("PrimaryEmailAddr", "E-mail address",
			text("Address", "The address, perhaps several with commas", "accounts@northwind.example")),
		phone("PrimaryPhone", "Phone number", "+44 113 200 0111"), phone("AlternatePhone", "Other phone number", ""),
		phone("Mobile", "Mobile number", ""), phone("Fax", "Fax number", ""),
		object("WebAddr", "Website", text("URI", "The address", "")),
		address("BillAddr", "Billing address"), address("ShipAddr", "Delivery address"),
		reference("CurrencyRef", "Currency", "GBP", "British Pound Sterling"),
		reference("SalesTermRef", "Payment terms", "3", "Net 30"),
		reference("PaymentMethodRef", "Preferred way of payment", "", ""),
		reference("ParentRef", "The customer that a job belongs to", "", ""),
		flag("Job", "Is a job, that is a sub-customer", "false"), flag("IsProject", "Is a project", "false"),
		flag("BillWithParent", "Is invoiced with its parent", "false"),
		{Name: "Level", Type: connector.TypeNumber, Description: "Levels below the topmost customer", Example: "0"},
		{Name: "Balance", Type: connector.TypeNumber, Description: "What it owes", Example: "0"},
		text("PrimaryTaxIdentifier", "Tax number; QuickBooks may mask it", ""), text("BusinessNumber", "Business number", ""),
		text("GSTIN", "GST number", ""), text("ResaleNum", "Resale number", ""),
		text("PreferredDeliveryMethod", "How invoices are sent", "Email"), text("Notes", "Notes", ""),
	}
}
